import Broker
import BrokerFastJSON
import BrokerJSON

/// A JSON value that keeps the order of members and the digits of numbers.
indirect enum JSONTree: Sendable, Equatable {
    case null
    case bool(Bool)
    case number(String)
    case string(String)
    case array([JSONTree])
    case object([Member])

    struct Member: Sendable, Equatable {
        let name: String
        let value: JSONTree
    }

    init(_ json: RawJSON) throws {
        let document = try JSONDocument(fast: JSONText(copying: json.bytes))
        self = withExtendedLifetime(document) { JSONTree(document.root) }
    }

    private init(_ value: JSONValue) {
        switch value.kind {
        case .null: self = .null
        case .true: self = .bool(true)
        case .false: self = .bool(false)
        case .number: self = .number(String(decoding: value.bytes, as: UTF8.self))
        case .string: self = .string(value.string ?? "")
        case .array: self = .array(value.elements.map(JSONTree.init))
        case .object: self = .object(value.members.map { Member(name: $0.string ?? "", value: JSONTree($1)) })
        }
    }

    subscript(_ name: String) -> JSONTree? { members.last { $0.name == name }?.value }

    var members: [Member] { if case .object(let members) = self { members } else { [] } }
    var elements: [JSONTree] { if case .array(let elements) = self { elements } else { [] } }
    var string: String? { if case .string(let text) = self { text } else { nil } }
    var int: Int? { if case .number(let text) = self { Int(text) } else { nil } }
    var bool: Bool? { if case .bool(let value) = self { value } else { nil } }

    /// A text as it is; another value as JSON.
    var shown: String { string ?? json }

    var json: String {
        var writer = JSONWriter()
        write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private func write(to writer: inout JSONWriter) {
        switch self {
        case .null: writer.null()
        case .bool(let value): writer.bool(value)
        case .number(let digits): writer.raw(Array(digits.utf8))
        case .string(let text): writer.string(text)
        case .array(let elements): writer.array { writer in for element in elements { element.write(to: &writer) } }
        case .object(let members):
            writer.object { writer in
                for member in members {
                    writer.key(member.name)
                    member.value.write(to: &writer)
                }
            }
        }
    }
}
