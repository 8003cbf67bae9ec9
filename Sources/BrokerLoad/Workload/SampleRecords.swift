internal import BrokerFastJSON
package import BrokerJSON
internal import BrokerWire

/// Records of the user's own, drawn in turn, with fresh identities where that is asked for.
package struct SampleRecords: Sendable {
    /// Where records hold their identity, and of which kind it is.
    package struct Identity: Sendable {
        package enum Kind: Sendable { case integer, text, uuid }

        package let key: String
        package let kind: Kind

        package init(key: String, kind: Kind) {
            self.key = key
            self.kind = kind
        }
    }

    /// Each without its opening brace and, where identities are made, without its identity; with its closing brace.
    private let rests: [[UInt8]]
    private let identity: Identity?
    /// The identity's key as a JSON string.
    private let identityKey: [UInt8]
    private let seed: UInt64

    package var count: Int { rests.count }

    /// - Parameters:
    ///   - text: an array of records, a record, or several of them, a line each.
    ///   - identity: nil sends the records as they are.
    package init(_ text: JSONText, identity: Identity?, seed: UInt64) throws(LoadError) {
        self.identity = identity
        identityKey = identity.map { ProvenJSON.string($0.key).bytes } ?? []
        self.seed = seed
        let documents = try Self.documents(text)
        var rests: [[UInt8]] = []
        for document in documents {
            let records = document.root.kind == .array ? Array(document.root.elements) : [document.root]
            for record in records {
                guard record.kind == .object else {
                    throw LoadError(
                        .failed, "Sample \(rests.count + 1) is \(record.kind.phrase); each sample must be an object.")
                }
                rests.append(Self.rest(of: record, without: identity?.key))
            }
            withExtendedLifetime(document) {}
        }
        guard !rests.isEmpty else { throw LoadError(.failed, "There are no samples; give at least one record.") }
        self.rests = rests
    }

    private static func documents(_ text: JSONText) throws(LoadError) -> [JSONDocument] {
        if let whole = try? JSONDocument(fast: text) { return [whole] }
        var documents: [JSONDocument] = []
        for (place, line) in text.bytes.split(separator: UInt8(ascii: "\n")).enumerated() {
            guard line.contains(where: { $0 > 0x20 }) else { continue }
            do throws(JSONError) {
                documents.append(try JSONDocument(fast: JSONText(copying: UnsafeRawBufferPointer(rebasing: line))))
            } catch {
                throw LoadError(
                    .failed, "The samples are neither one JSON text nor a record a line; line \(place + 1): \(error)")
            }
        }
        return documents
    }

    private static func rest(of record: JSONValue, without identity: String?) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            for (key, value) in record.members {
                let key = String(decoding: key.bytes, as: UTF8.self)
                guard key != identity else { continue }
                writer.key(key)
                writer.value(value)
            }
        }
        return Array(writer.bytes.dropFirst())
    }

    /// Appends the sample whose turn it is.
    ///
    /// - Parameter number: gives the fresh identity.
    func write(_ number: Int, to bytes: inout [UInt8]) {
        let rest = rests[number % rests.count]
        bytes.append(UInt8(ascii: "{"))
        if let identity {
            bytes.append(contentsOf: identityKey)
            bytes.append(UInt8(ascii: ":"))
            switch identity.kind {
            case .integer: bytes.append(decimal: number)
            case .text: bytes.appendText("sample-", number)
            case .uuid: bytes.append(uuid: number, seed: seed)
            }
            if rest.count > 1 { bytes.append(UInt8(ascii: ",")) }
        }
        bytes.append(contentsOf: rest)
    }
}
