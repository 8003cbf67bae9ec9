internal import BrokerJSON

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

extension BrokerService {
    /// Compares types with the model in force, so that a program fails at its start and not at its first record.
    ///
    /// ```swift
    /// try await broker.check(Customer.self, Order.self)
    /// ```
    ///
    /// A difference is
    /// - a key of the type that the entity does not have;
    /// - a property whose type does not decode the attribute's values, one of its `enum`, or null where the attribute is optional;
    /// - of a type that is also `Encodable`, a required attribute without a default for which the type has no property.
    ///
    /// Types of relationships are compared with the entities at the other end. The keys are those that the type asks a decoder for.
    ///
    /// - Parameter timeout: the maximum time of the call.
    /// - Throws: ``BrokerError`` with ``BrokerError/Code/modelMismatch``, whose message has a line for each difference.
    public func check(_ types: any (BrokerRecord & Decodable).Type..., timeout: Duration? = nil) async throws {
        let model = try await model(timeout: timeout)
        let differences = types.flatMap { RecordCheck.differences(of: $0, from: model) }
        guard differences.isEmpty else { throw BrokerError(.modelMismatch, differences.joined(separator: "\n")) }
    }
}

/// Decodes a type from sample values of the model, and notes each key for which the two differ.
private final class RecordCheck {
    /// What records have at a key.
    enum Member {
        case attribute(String, ModelDescription.Attribute, isOptional: Bool)
        case relationship(ModelDescription.Relationship)
        /// Key paths lead on.
        case members([String: Member])
        /// Any value is read, or ignored.
        case anything
    }

    /// The part of the model from which a value is decoded.
    enum Place {
        case members([String: Member], subject: String)
        case relationship(ModelDescription.Relationship, subject: String, isElement: Bool)
        /// No part of it.
        case anything
    }

    /// The rest of a type cannot be compared: what it has here is noted, or is being compared.
    struct Stop: Error {}

    private let model: ModelDescription
    private let names: Query.Names
    private let entity: String
    private var differences: [String] = []
    private var askedKeys: Set<String> = []
    /// The types that are being compared: those of relationships may lead back to them.
    private var openTypes: Set<ObjectIdentifier> = []

    private init(_ type: any BrokerRecord.Type, _ model: ModelDescription) {
        (self.model, names, entity) = (model, type.names, type.entity)
    }

    static func differences(of type: any (BrokerRecord & Decodable).Type, from model: ModelDescription) -> [String] {
        guard model.entities[type.entity] != nil else {
            let ending = NearMiss.ending(type.entity, among: model.entities.keys.sorted())
            return ["\(type): the model has no entity \"\(type.entity)\"\(ending)"]
        }
        let check = RecordCheck(type, model)
        let isWhole = check.decode(type, from: .members(check.members(of: type.entity), subject: "\(type)")) != nil
        if isWhole, type is any Encodable.Type { check.noteMissing(of: type) }
        return check.differences
    }

    // MARK: - The model

    /// The entity, and those that it inherits from.
    private func line(of entity: String) -> [ModelDescription.Entity] {
        Array(sequence(first: entity) { self.model.entities[$0]?.parent }.compactMap { model.entities[$0] })
    }

    /// Those of the identity are required.
    private func attributes(of entity: String) -> [(name: String, ModelDescription.Attribute, isOptional: Bool)] {
        let line = line(of: entity)
        let identity = line.contains { $0.isIdentityOptional == true } ? [] : line.flatMap(\.identity)
        return line.flatMap(\.attributes).sorted { $0.key < $1.key }.map { name, attribute in
            (name, attribute, isOptional: attribute.isOptional != false && !identity.contains(name))
        }
    }

    private func members(of entity: String) -> [String: Member] {
        var members: [String: Member] = [:]
        for (name, attribute, isOptional) in attributes(of: entity) {
            for path in paths(name, attribute.key) {
                members.add(.attribute(name, attribute, isOptional: isOptional), at: path[...])
            }
        }
        for entity in line(of: entity) {
            for (name, relationship) in entity.relationships {
                for path in paths(name, relationship.key) { members.add(.relationship(relationship), at: path[...]) }
            }
            if names == .payload { for path in entity.ignore.paths { members.add(.anything, at: path[...]) } }
            if entity.keepsExtraValues == true { members["_extra"] = .anything }
        }
        return members
    }

    /// Without values that come from the record around.
    private func paths(_ name: String, _ key: ModelDescription.KeyPaths?) -> [[String]] {
        let paths = (key?.paths ?? [[name]]).filter { !["@parent", "@record"].contains($0.first) }
        return names == .model && key?.paths.isEmpty != true ? [[name]] : paths
    }

    private func noteMissing(of type: Any.Type) {
        for (name, attribute, isOptional) in attributes(of: entity) {
            let keys = paths(name, attribute.key).compactMap(\.first)
            guard !isOptional, attribute.default == nil, !keys.isEmpty,
                askedKeys.isDisjoint(with: keys)
            else { continue }
            differences.append(
                "\(type): \(entity) requires the attribute \(name), and the type has no property with the key \"\(keys[0])\"."
            )
        }
    }

    // MARK: - Values

    /// The value at a key of a record.
    ///
    /// - Parameter takesNull: the property is optional.
    /// - Throws: ``Stop``
    func value<Value: Decodable>(
        _ type: Value.Type, at key: String, in members: [String: Member], of subject: String, takesNull: Bool
    ) throws -> Value {
        if openTypes.count == 1 { askedKeys.insert(key) }
        let subject = "\(subject).\(key)"
        switch members[key] {
        case nil:
            let ending = NearMiss.ending(key, among: members.keys.sorted())
            differences.append("\(subject): the entity has no key \"\(key)\"\(ending)")
        case .anything: break
        case .attribute(let name, let attribute, let isOptional):
            let takesNull =
                !isOptional || takesNull || type is any ExpressibleByNilLiteral.Type || type == RawJSON.self
            return try value(type, name, attribute, subject, takesNull: takesNull)
        case .relationship(let relationship):
            let place = Place.relationship(relationship, subject: subject, isElement: false)
            if let value = decode(type, from: place) { return value }
        case .members(let members):
            if let value = decode(type, from: .members(members, subject: subject)) { return value }
        }
        return try anyValue(type, subject)
    }

    private func value<Value: Decodable>(
        _ type: Value.Type, _ name: String, _ attribute: ModelDescription.Attribute, _ subject: String, takesNull: Bool
    ) throws -> Value {
        if !takesNull {
            differences.append(
                "\(subject): the attribute \(name) may be null, which \(type) does not decode. Make the property optional, or the "
                    + "attribute required (\"optional\": false).")
        }
        var value: Value?
        for sample in attribute.samples {
            do {
                value = try sample.decode(type)
            } catch {
                // A type of the program may take some of the values only, which a sample cannot know.
                if case DecodingError.dataCorrupted = error, !isScalar(type), attribute.enum == nil { continue }
                differences.append(
                    "\(subject): the attribute \(name) is of the type \(attribute.type), and \(type) does not decode a value such as "
                        + "\(sample).")
            }
        }
        return try value ?? anyValue(type, subject)
    }

    /// - Returns: nil when that is noted, or the type is being compared.
    private func decode<Value: Decodable>(_ type: Value.Type, from place: Place) -> Value? {
        if type == RawJSON.self { return nil }
        guard openTypes.insert(ObjectIdentifier(type)).inserted else { return nil }
        defer { openTypes.remove(ObjectIdentifier(type)) }
        do {
            return try Value(from: SampleDecoder(self, place))
        } catch is Stop {
            return nil
        } catch {
            switch place {
            case .relationship(let relationship, let subject, _):
                let form = relationship.isToMany == true ? "objects or keys" : "an object or its key"
                differences.append(
                    "\(subject): the relationship has \(form) of \(relationship.entity), which \(type) does not decode."
                )
            case .members(_, let subject):
                differences.append("\(subject): \(type) does not decode a record of sample values: \(error)")
            case .anything: break
            }
            return nil
        }
    }

    /// A value that is not compared, so that decoding goes on.
    ///
    /// - Throws: ``Stop`` when there is none, which is noted.
    private func anyValue<Value: Decodable>(_ type: Value.Type, _ subject: String) throws -> Value {
        if let value = anyValue(type) { return value }
        if !openTypes.contains(ObjectIdentifier(type)) {
            differences.append(
                "\(subject): the properties from here on were not compared, because \(type) decodes no sample value. Let it be "
                    + "CaseIterable, or the property optional.")
        }
        throw Stop()
    }

    func anyValue<Value: Decodable>(_ type: Value.Type) -> Value? {
        for sample in RawJSON.samples { if let value = try? sample.decode(type) { return value } }
        if let type = type as? any CaseIterable.Type { return type.first as? Value }
        return openTypes.contains(ObjectIdentifier(type)) ? nil : try? Value(from: SampleDecoder(self, .anything))
    }

    func isScalar(_ type: Any.Type) -> Bool {
        type is any LosslessStringConvertible.Type
            || [Date.self, Decimal.self, Data.self, URL.self, UUID.self, RawJSON.self].contains { $0 == type }
    }

    // MARK: - Places

    func members(at place: Place) throws -> (members: [String: Member], subject: String)? {
        switch place {
        case .members(let members, let subject): return (members, subject)
        case .relationship(let relationship, let subject, let isElement):
            guard isElement == (relationship.isToMany == true) else { throw Stop.mismatch([String: Any].self) }
            return (members(of: relationship.entity), subject)
        case .anything: return nil
        }
    }

    /// A value of a relationship that is no object with keys.
    func value<Value: Decodable>(_ type: Value.Type, of place: Place) throws -> Value {
        guard isScalar(type) else {
            guard openTypes.insert(ObjectIdentifier(type)).inserted else { throw Stop() }
            defer { openTypes.remove(ObjectIdentifier(type)) }
            return try Value(from: SampleDecoder(self, place))
        }
        switch place {
        case .members: throw Stop.mismatch(type)
        case .anything:
            guard let value = anyValue(type) else { throw Stop() }
            return value
        case .relationship(let relationship, _, let isElement):
            let line = line(of: relationship.entity)
            guard isElement == (relationship.isToMany == true),
                let names = line.map(\.identity).first(where: { !$0.isEmpty }),
                names.count == 1, let attribute = line.compactMap({ $0.attributes[names[0]] }).first
            else { throw Stop.mismatch(type) }
            return try attribute.samples[0].decode(type)
        }
    }
}

extension RecordCheck.Stop {
    static func mismatch(_ type: Any.Type) -> DecodingError {
        .typeMismatch(type, .init(codingPath: [], debugDescription: "The model has no such value here."))
    }
}

extension [String: RecordCheck.Member] {
    fileprivate mutating func add(_ member: RecordCheck.Member, at path: ArraySlice<String>) {
        guard let key = path.first else { return }
        guard path.count > 1 else {
            if case .members? = self[key] { self[key] = .anything } else { self[key] = self[key] ?? member }
            return
        }
        switch self[key] {
        case nil:
            var members: Self = [:]
            members.add(member, at: path.dropFirst())
            self[key] = .members(members)
        case .members(var members)?:
            members.add(member, at: path.dropFirst())
            self[key] = .members(members)
        default: self[key] = .anything
        }
    }
}

extension CaseIterable {
    fileprivate static var first: Any? { allCases.first }
}

extension RawJSON {
    fileprivate static let samples = [
        "1", "\"\"", "[]", "{}", "true", "\"2000-01-01\"", "\"00000000-0000-0000-0000-000000000000\"",
    ].map { RawJSON($0) }
}

extension ModelDescription.Attribute {
    /// Each value of `enum`, or one of its type.
    fileprivate var samples: [RawJSON] {
        if let allowed = self.enum { return allowed }
        switch type {
        case "integer16", "integer32", "integer64": return [RawJSON("1")]
        case "decimal", "double", "float": return [RawJSON("0.5")]
        case "boolean": return [RawJSON("true")]
        case "date": return [RawJSON("\"2000-01-01T00:00:00.000Z\"")]
        case "calendarDate": return [RawJSON("\"2000-01-01\"")]
        case "uuid": return [RawJSON("\"00000000-0000-0000-0000-000000000000\"")]
        case "uri": return [RawJSON("\"https://example.org\"")]
        case "binary": return [RawJSON("\"AA==\"")]
        case "string": return [RawJSON("\"a\"")]
        default: return []
        }
    }
}

// MARK: - Decoding

/// Gives a type the values of a place in the model, whatever keys it asks for.
private struct SampleDecoder: Decoder {
    let check: RecordCheck
    let place: RecordCheck.Place
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]

    init(_ check: RecordCheck, _ place: RecordCheck.Place) { (self.check, self.place) = (check, place) }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(SampleMembers(decoder: self, place: try check.members(at: place)))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        switch place {
        case .relationship(let relationship, let subject, false) where relationship.isToMany == true:
            let element = RecordCheck.Place.relationship(relationship, subject: subject, isElement: true)
            return SampleElements(decoder: SampleDecoder(check, element), count: 1)
        case .anything: return SampleElements(decoder: self, count: 0)
        default: throw RecordCheck.Stop.mismatch([Any].self)
        }
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }
}

extension SampleDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { false }
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try check.value(type, of: place) }
}

private final class SampleMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    private let decoder: SampleDecoder
    /// Nil: any members.
    private let place: (members: [String: RecordCheck.Member], subject: String)?
    /// Keys of optional properties: only those are asked for null.
    private var optionalKeys: Set<String> = []

    init(decoder: SampleDecoder, place: (members: [String: RecordCheck.Member], subject: String)?) {
        (self.decoder, self.place) = (decoder, place)
    }

    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { place.map { $0.members.keys.sorted().compactMap(Key.init(stringValue:)) } ?? [] }

    func contains(_ key: Key) -> Bool { true }

    func decodeNil(forKey key: Key) throws -> Bool {
        optionalKeys.insert(key.stringValue)
        return false
    }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        guard let place else {
            guard let value = decoder.check.anyValue(type) else { throw RecordCheck.Stop() }
            return value
        }
        return try decoder.check.value(
            type, at: key.stringValue, in: place.members, of: place.subject,
            takesNull: optionalKeys.contains(key.stringValue))
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        optionalKeys.insert(key.stringValue)
        return place == nil ? nil : try? decode(type, forKey: key)
    }

    private func decoder(at key: Key) throws -> SampleDecoder {
        switch place?.members[key.stringValue] {
        case .members(let members): SampleDecoder(decoder.check, .members(members, subject: place?.subject ?? ""))
        default: SampleDecoder(decoder.check, .anything)
        }
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try decoder(at: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try decoder(at: key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { decoder }
    func superDecoder(forKey key: Key) throws -> any Decoder { try decoder(at: key) }
}

private struct SampleElements: UnkeyedDecodingContainer {
    let decoder: SampleDecoder
    let count: Int?
    private(set) var currentIndex = 0

    init(decoder: SampleDecoder, count: Int) { (self.decoder, self.count) = (decoder, count) }

    var codingPath: [any CodingKey] { [] }
    var isAtEnd: Bool { currentIndex == count }

    private mutating func next() -> SampleDecoder {
        currentIndex += 1
        return decoder
    }

    mutating func decodeNil() -> Bool { false }
    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try next().decode(type) }
    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) throws -> KeyedDecodingContainer<Nested>
    {
        try next().container(keyedBy: type)
    }
    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { try next().unkeyedContainer() }
    mutating func superDecoder() throws -> any Decoder { next() }
}
