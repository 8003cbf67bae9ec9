import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerModelSources

/// Stops a load whose records contradict an identity that inference has guessed, before they replace anything.
///
/// Two rules show that. Records of one load have the same identity and other values, and no date says that one is a later version.
/// Or the first records of a load have the identities of stored objects, and hardly any other value of these: the identity
/// restarts in each input.
struct GuessedIdentity {
    private let entity: Entity
    private let root: String
    private let store: String
    private let mayReject: Bool
    /// The first records, JSON.
    private var first: [[UInt8]] = []
    private var firstBytes = 0

    /// So many records are compared with stored objects.
    private static let mostFirst = 100
    private static let mostFirstBytes = 4 << 20
    /// Fewer objects prove nothing.
    private static let leastObjects = 3
    /// The same for the other values of an object.
    private static let leastValues = 2
    /// In a later version of an object, more of the values are as they were.
    private static let leastEqual = 0.2

    /// Nil unless the entity's identity is a guess.
    ///
    /// - Parameters:
    ///   - identities: those that a person names, which are no guesses.
    ///   - mayReject: a record without an identity is rejected by itself.
    init?(
        of name: String, in model: Model, identities: [String: [String]], store: String, mayReject: Bool,
        root: String? = nil
    ) {
        guard let index = model.index(ofEntity: name), identities[name] == nil else { return nil }
        (self.store, self.mayReject) = (store, mayReject)
        entity = model.entities[index]
        self.root = root ?? name
        guard entity.isIdentityGuessed else { return nil }
    }

    /// Keys that are compared.
    var keys: Set<String> { Set(entity.identity.flatMap { entity.attributes[$0].recordPaths.compactMap(\.first) }) }

    mutating func note(_ record: JSONValue) {
        guard first.count < Self.mostFirst, firstBytes < Self.mostFirstBytes else { return }
        first.append(Array(record.bytes))
        firstBytes += record.bytes.count
    }

    /// - Throws: when the records that were observed contradict each other, or some have no identity.
    func check(_ inference: SampleInference) throws(CommandFailure) {
        try check(inference.contradictions(of: entity))
        let missing = mayReject ? 0 : inference.missing(of: entity)
        guard missing > 0 else { return }
        throw failure(
            "\(Program.counted(missing, "record")) of this input \(missing == 1 ? "has" : "have") no \(names)",
            "If another key identifies them: `\(setKey.shellText) KEY`. If none does: load all into another store, "
                + "with --identity none, which --append says too. To load the others: --on-invalid skip.")
    }

    /// - Parameter count: records that contradict others.
    func check(_ count: Int) throws(CommandFailure) {
        guard count > 0 else { return }
        throw failure(
            "\(Program.counted(count, "record")) of this input \(count == 1 ? "repeats" : "repeat") the \(names) of an "
                + "earlier one with other values")
    }

    /// Says that a first load has replaced objects of its own, beyond the records at which the identity was chosen.
    func report(replaced changes: [String: Completion.Changes]) {
        guard let count = changes[entity.name]?.updated, count > 0 else { return }
        Program.report(
            "broker: \(entity.name) is identified by \(names), which was a guess, and \(Program.counted(count, "record")) of "
                + "this input replaced others. If they are not later versions of these, load all into another store, with "
                + "--identity KEY,KEY, --identity content or --append.", .warning)
    }

    /// - Throws: when the first records have the identities of stored objects, and other values.
    func check(against broker: RemoteBroker) async throws {
        let identity = entity.identity.map { entity.attributes[$0] }
        let plain = entity.attributeIndices.map { entity.attributes[$0] }.filter { attribute in
            !identity.contains { $0.name.hasSameBytes(as: attribute.name) } && attribute.keyPaths.count == 1
                && [.string, .integer64, .double, .boolean].contains(attribute.type)
        }
        guard first.count >= Self.leastObjects, plain.count >= Self.leastValues, identity.count == 1,
            let path = identity[0].recordPaths.first
        else { return }
        var (objects, compared, equal) = (0, 0, 0)
        for bytes in first {
            let sent = try JSONDocument(parsing: JSONText(copying: bytes))
            guard let key = sent.root.at(path), let stored = try await object(key, broker) else { continue }
            let values = plain.compactMap { attribute -> Bool? in
                guard let sent = sent.root.at(attribute.keyPaths[0]), let value = stored.root[attribute.name],
                    !sent.isNull, !value.isNull
                else { return nil }
                return sent.hasBytes(value.bytes)
            }
            withExtendedLifetime((sent, stored)) {}
            guard values.count >= Self.leastValues else { continue }
            objects += 1
            compared += values.count
            equal += values.count { $0 }
        }
        guard objects >= Self.leastObjects, Double(equal) < Self.leastEqual * Double(compared) else { return }
        throw failure(
            "\(objects) of the first \(first.count) records have the \(names) of stored objects, and hardly any other value "
                + "of these")
    }

    private func object(_ key: JSONValue, _ broker: RemoteBroker) async throws -> JSONDocument? {
        var query = Query(entity.name)
        var writer = JSONWriter()
        if key.kind == .string { writer.string(key.bytes) } else { writer.raw(key.bytes) }
        query.key = RawJSON(writer.bytes)
        query.names = .model
        query.resultForm = .object
        // An object that is not there, or a value that is no key of any.
        guard let found = try? await broker.fetch(query, timeout: nil),
            let document = try? JSONDocument(parsing: JSONText(copying: found.objects.bytes))
        else { return nil }
        return document
    }

    private var setKey: [String] { ["broker", "model", "set-key", "--store", store, entity.name] }

    private var names: String { entity.identity.map { entity.attributes[$0].name }.joined(separator: " and ") }

    /// - Parameter remedy: nil where the objects have other values.
    private func failure(_ what: String, _ remedy: String? = nil) -> CommandFailure {
        let keys =
            (root.hasSameBytes(as: entity.name) ? "" : "\(entity.name)=")
            + entity.identity.map { entity.attributes[$0].keyPaths[0].joined(separator: ".") }.joined(separator: ",")
        let others =
            "If they are to replace the objects: --identity \(keys), once. If they are others: load all into another store, with "
            + "--identity KEY,KEY, --identity content or --append."
        return CommandFailure(
            .rejected,
            "\(entity.name) is identified by \(names), which was a guess, and \(what). These records were not loaded. "
                + (remedy ?? others))
    }
}
