package import BrokerJSON

/// JSON text that is proven to be exactly one value, so it can be copied into a message and stays that one value there.
///
/// Message writers take raw text only as this type. Without the proof, a text such as `[],"op":"delete"` adds members to
/// the message, and the last one of two equal keys counts.
package struct ProvenJSON: Sendable, Equatable {
    package let bytes: [UInt8]

    /// Parses the text and discards the parsed result.
    ///
    /// - Parameters:
    ///   - isLenient: commas before a closing bracket are accepted, as the server accepts them in a message with `lenient`.
    ///   - enclosingLevels: objects and arrays of the message around the value; the depth limit counts them.
    /// - Throws: ``JSONError`` when the text is not one value, or is nested too deeply.
    package init(
        proving bytes: [UInt8], isLenient: Bool = false, enclosingLevels: Int = 1
    ) throws(JSONError) {
        let depth = JSONDocument.defaultMaximumDepth - enclosingLevels
        let text = JSONText(copying: bytes)
        do throws(JSONError) {
            _ = try JSONDocument(parsing: text, maximumDepth: depth)
        } catch {
            // A text that is not even lenient JSON is reported by its first, strict error.
            guard isLenient, let strict = text.blankingTrailingCommas(),
                (try? JSONDocument(parsing: strict, maximumDepth: depth)) != nil
            else { throw error }
        }
        self.bytes = bytes
    }

    /// - Parameter bytes: what an encoder wrote, which is one value.
    package init(unchecked bytes: [UInt8]) { self.bytes = bytes }

    package static let `true` = ProvenJSON(unchecked: Array("true".utf8))

    package static func integer(_ value: Int) -> ProvenJSON { ProvenJSON(unchecked: Array(String(value).utf8)) }

    package static func string(_ text: String) -> ProvenJSON {
        var writer = JSONWriter(capacity: text.utf8.count + 2)
        writer.string(text)
        return ProvenJSON(unchecked: writer.bytes)
    }

    package static func array(_ elements: [ProvenJSON]) -> ProvenJSON {
        var writer = JSONWriter(capacity: elements.reduce(2) { $0 + $1.bytes.count + 1 })
        writer.array { writer in
            for element in elements { writer.raw(element.bytes) }
        }
        return ProvenJSON(unchecked: writer.bytes)
    }
}
