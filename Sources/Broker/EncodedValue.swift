internal import BrokerJSON

/// A value that is being encoded: a text, or an array or an object of further ones. A class, because an encoder's containers may be
/// filled in any order.
final class EncodedValue {
    private var text: [UInt8]?
    private var textDepth = 0
    private var elements: [EncodedValue]?
    private var members: [String: EncodedValue]?
    /// Elements of each entry of a collection without an order; nil where the order of the elements counts.
    private var entryElementCount: Int?

    var isEmpty: Bool { text == nil && elements == nil && members == nil }
    var elementCount: Int { elements?.count ?? 0 }

    func set(_ json: [UInt8], depth: Int = 0) {
        text = json
        textDepth = depth
    }

    func becomeObject() { if members == nil { members = [:] } }

    func becomeArray(unordered entryElementCount: Int?) {
        if elements == nil { elements = [] }
        self.entryElementCount = entryElementCount
    }

    /// A new value of a key; of two with the same key, the last one counts.
    func member(_ key: String) -> EncodedValue {
        let value = EncodedValue()
        members?[key] = value
        return value
    }

    func appendElement() -> EncodedValue {
        let value = EncodedValue()
        elements?.append(value)
        return value
    }

    /// There is an object in it, whose members an encoder wrote.
    var hasMembers: Bool {
        members?.isEmpty == false || elements?.contains(where: \.hasMembers) == true
    }

    /// - Returns: the nested arrays and objects at most.
    func write(to writer: inout JSONWriter) -> Int {
        if let text {
            writer.raw(text)
            return textDepth
        }
        var depth = 0
        if let elements, let count = entryElementCount {
            let entries = stride(from: 0, to: elements.count, by: count).map { start in
                var entry = JSONWriter()
                for element in elements[start..<min(start + count, elements.count)] {
                    depth = max(depth, element.write(to: &entry))
                }
                return entry.bytes
            }
            writer.array { writer in
                for entry in entries.sorted(by: { $0.lexicographicallyPrecedes($1) }) { writer.raw(entry) }
            }
        } else if let elements {
            writer.array { writer in
                for element in elements { depth = max(depth, element.write(to: &writer)) }
            }
        } else {
            writer.object { writer in
                for (key, value) in (members ?? [:]).sorted(by: { $0.key < $1.key }) {
                    writer.key(key)
                    depth = max(depth, value.write(to: &writer))
                }
            }
        }
        return depth + 1
    }
}
