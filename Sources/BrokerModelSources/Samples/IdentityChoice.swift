internal import BrokerModel

/// The keys that identify the objects of an entity, and the evidence.
struct IdentityChoice {
    /// Key paths.
    let paths: [[String]]
    let reason: String

    private static let leastAgreement = 0.5

    /// - Parameter areRecords: the objects are the input's records, and not nested in others.
    /// - Returns: nil when no key that is named like an identifier identifies the objects.
    init?(of shape: ObjectShape, entity: String, areRecords: Bool) {
        guard shape.count > 0 else { return nil }
        let named = shape.keys.indices.compactMap { index in
            shape.mayIdentify(index)
                ? IdentityName(shape.keys[index], of: entity).map { (index: index, name: $0) } : nil
        }.sorted { $0.name < $1.name }
        for (index, _) in named {
            guard let reason = Self.reason(for: index, in: shape, areRecords) else { continue }
            if areRecords, let partner = Self.partner(of: index, in: shape) {
                self.init(
                    paths: [shape.path(index), shape.path(partner)],
                    reason: "unique together in \(shape.count) of \(shape.count)")
            } else {
                self.init(paths: [shape.path(index)], reason: reason)
            }
            return
        }
        return nil
    }

    private init(paths: [[String]], reason: String) { (self.paths, self.reason) = (paths, reason) }

    /// The identity that a person named.
    init(given paths: [[String]], in shape: ObjectShape) {
        // The rows have hashes of 32 bits, which are equal by chance in many records.
        let index = paths.count == 1 ? shape.index(of: paths[0][0]) : nil
        let column = index.flatMap { index in
            shape.path(index) != paths[0] || shape.isUnique(index) ? nil : shape.columns[index]
        }
        let repetitions = column.map { shape.rows.agreement(at: $0).repetitions } ?? 0
        let repeated =
            repetitions > 0
            ? "; \(shape.rows.isCut ? "at least " : "")\(repetitions) of \(shape.count) repeat an earlier one, and replace it"
            : ""
        self.init(paths: paths, reason: "as --identity says\(repeated)")
    }

    /// A key among siblings.
    init(siblings key: String) { self.init(paths: [[key]], reason: "unique in each list") }

    /// The identity in the model that the samples extend.
    init(known paths: [[String]]) { self.init(paths: paths, reason: "as before") }

    /// The key of a dictionary that holds the objects.
    static let nestingKey = IdentityChoice(paths: [], reason: "the key under which each object is")

    /// Whether an identifier identifies the objects, and why.
    private static func reason(for index: Int, in shape: ObjectShape, _ areRecords: Bool) -> String? {
        let isUnique = shape.isUnique(index)
        guard let column = shape.columns[index] else { return nil }
        let (repetitions, equal, least) = shape.rows.agreement(at: column)
        let unique = "unique in \(shape.count) of \(shape.count)"
        let what = equal < 1 ? "are other versions of an earlier one" : "repeat an earlier one"
        let repeated = "in all \(shape.count); \(repetitions) \(what)"
        guard areRecords else {
            guard shape.rows.isUniqueInLists(at: column), !shape.rows.areListPositions(at: column) else { return nil }
            // Two that differ in most values contradict all that agree.
            return isUnique ? unique : least >= leastAgreement ? repeated : nil
        }
        if isUnique { return unique }
        // One value for all that differ is no identifier.
        guard equal >= leastAgreement || repetitions < max(2, shape.count - 1) else { return nil }
        return repetitions > 0 ? repeated : "in all \(shape.count)"
    }

    /// A key that makes a repeated identifier unique: objects of several kinds share identifiers, or are numbered.
    private static func partner(of index: Int, in shape: ObjectShape) -> Int? {
        guard !shape.isUnique(index), let column = shape.columns[index] else { return nil }
        let areVersions = shape.rows.agreement(at: column).equal >= leastAgreement
        return shape.keys.indices.first { other in
            let words = EntityName.words(shape.keys[other])
            return (kinds.contains(words) || !areVersions && isOrder(words)) && other != index
                && shape.mayIdentify(other) && shape.properties[other].wrapper == nil
                && shape.columns[other].map { shape.rows.areUnique(together: [column, $0]) } ?? false
        }
    }

    /// Keys that divide the objects of one identifier, which are no versions of each other then.
    private static let kinds: Set<String> = ["type", "kind", "role", "typename", "lang", "language", "locale"]

    /// The key numbers or dates the objects of another one.
    private static func isOrder(_ key: String) -> Bool {
        let words = key.split(separator: "_")
        return words.contains {
            [
                "sequence", "seq", "index", "position", "number", "no", "date", "year", "month", "day", "time",
                "version",
                "timestamp", "period", "quarter", "week", "start", "begin", "from",
            ].contains($0)
        } && !words.contains { ["updated", "modified", "changed", "last", "fetched"].contains($0) }
    }
}

extension ObjectShape {
    /// Every object has the key, with values that may identify it.
    fileprivate func mayIdentify(_ index: Int) -> Bool {
        properties[index].count == count && properties[index].mayIdentify && PropertyNames.isNameable(keys[index])
    }

    /// All values of a key differ from each other.
    fileprivate func isUnique(_ index: Int) -> Bool { properties[index].distinct?.areUnique ?? false }

    /// The path of a key, or of what is wrapped in it.
    fileprivate func path(_ index: Int) -> [String] { [keys[index]] + (properties[index].wrapper.map { [$0] } ?? []) }
}

/// A key that is named like an identifier. Objects with the same value are versions of one object.
struct IdentityName: Comparable {
    private let rank: Int

    private static let identifiers = [
        "id", "uuid", "guid", "id_str", "object_id", "gid", "oid", "pk", "sha", "isbn", "isbn13", "isbn_13", "doi",
        "issn", "serial_number", "ean", "gtin", "vin", "node_id",
    ]
    init?(_ key: String, of entity: String) {
        let word = EntityName.words(key)
        let stem = EntityName.words(entity)
        let own = stem.isEmpty ? [] : [stem] + (stem.split(separator: "_").last.map { [String($0)] } ?? [])
        if own.contains(where: { word == $0 + "_id" || word == $0 + "id" }) {
            // After `id` itself, before all others.
            rank = 1
        } else {
            guard let index = Self.identifiers.firstIndex(of: word) else { return nil }
            rank = 2 * index
        }
    }

    /// Whether the key is one for objects of some entity.
    static func isPossible(_ key: String) -> Bool {
        IdentityName(key, of: "") != nil || EntityName.words(key).hasSuffix("id")
    }

    static func < (one: IdentityName, other: IdentityName) -> Bool { one.rank < other.rank }
}
