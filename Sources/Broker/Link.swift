/// A relationship of a record or of a fetched object: the key of an object, or the object itself.
///
/// A fetch gives an object where `include` names the relationship, and else the key. A record may have either.
///
/// ```swift
/// struct Employee: Codable {
///     var id: Int
///     var department: Link<Int, Department>?  // to-one
///     var projects: [Link<String, Project>]?  // to-many
/// }
/// let ada = Employee(id: 1, department: .key(7))
/// let grace = Employee(id: 2, department: .object(Department(id: 8, name: "R&D")))
/// ```
///
/// Where the identity has several attributes, `Key` is a struct with a member for each. JSON that is an object is then read as a
/// `Value` if it can be, and else as a `Key`; so `Value` needs a member that is not optional and that the key lacks.
public struct Link<Key, Value> {
    /// The key; nil when the object itself is here.
    public let key: Key?
    /// The object; nil when only its key is here.
    public let object: Value?

    public static func key(_ key: Key) -> Link { Link(key: key, object: nil) }

    public static func object(_ object: Value) -> Link { Link(key: nil, object: object) }
}

extension Link: Sendable where Key: Sendable, Value: Sendable {}
extension Link: Equatable where Key: Equatable, Value: Equatable {}
extension Link: Hashable where Key: Hashable, Value: Hashable {}

extension Link: Encodable where Key: Encodable, Value: Encodable {
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let object { try container.encode(object) } else { try container.encode(key) }
    }
}

extension Link: Decodable where Key: Decodable, Value: Decodable {
    private struct AnyKey: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard (try? decoder.container(keyedBy: AnyKey.self)) != nil else {
            self = .key(try container.decode(Key.self))
            return
        }
        do {
            self = .object(try container.decode(Value.self))
        } catch {
            // The fault of the object says more, unless it is a key.
            guard let key = try? container.decode(Key.self) else { throw error }
            self = .key(key)
        }
    }
}
