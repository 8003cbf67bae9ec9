package import Broker
internal import BrokerJSON
package import BrokerWire

extension RawJSON {
    /// This text as a part of a message.
    ///
    /// - Parameters:
    ///   - path: a JSON Pointer to its place in the message.
    ///   - isLenient: the message has `lenient`.
    ///   - enclosingLevels: objects and arrays of the message around it.
    /// - Throws: ``BrokerError/Code/invalidJSON`` when it is not exactly one value.
    package func proven(
        at path: String, isLenient: Bool = false, enclosingLevels: Int = 1
    ) throws(BrokerError) -> ProvenJSON {
        if let knownDepth, knownDepth < JSONDocument.defaultMaximumDepth - enclosingLevels {
            return ProvenJSON(unchecked: bytes)
        }
        do throws(JSONError) {
            return try ProvenJSON(proving: bytes, isLenient: isLenient, enclosingLevels: enclosingLevels)
        } catch {
            var fault = BrokerError.Fault(
                code: .malformedJSON,
                message:
                    "The text is not exactly one JSON value: \(error). Nothing was sent. Give one value in UTF-8, with "
                    + "nothing after it.", path: path)
            fault.line = error.position.line
            fault.column = error.position.column
            fault.offset = error.position.offset
            throw .invalidJSON(fault)
        }
    }

    /// An array of texts as a part of a message; each of them is proven on its own.
    package static func proven(
        _ elements: [RawJSON], at path: String, isLenient: Bool = false, enclosingLevels: Int = 1
    ) throws(BrokerError) -> ProvenJSON {
        var proven: [ProvenJSON] = []
        for (index, element) in elements.enumerated() {
            proven.append(
                try element.proven(
                    at: "\(path)/\(index)", isLenient: isLenient, enclosingLevels: enclosingLevels + 1))
        }
        return .array(proven)
    }
}
