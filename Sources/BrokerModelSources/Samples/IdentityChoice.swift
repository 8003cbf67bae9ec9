/// The keys that identify the objects of an entity, and the evidence.
struct IdentityChoice {
    /// Key paths.
    let paths: [[String]]
    let reason: String
    /// No person and no model has said so.
    private(set) var isGuessed = false
    /// A hash of the record identifies it.
    private(set) var isContent = false

    /// - Parameter areRecords: the objects are the input's records, and not nested in others.
    /// - Returns: nil when no key that is named like an identifier, or placed as one, identifies the objects.
    static func guess(of shape: ObjectShape, entity: String, areRecords: Bool) -> IdentityChoice? {
        guard shape.count > 0 else { return nil }
        let named = shape.keys.indices.compactMap { index in
            shape.mayIdentify(index)
                ? IdentityName(shape.keys[index], of: entity).map { (index: index, name: $0) } : nil
        }.sorted { $0.name < $1.name }
        for (index, _) in named {
            if let reason = reason(for: index, in: shape, areRecords) {
                return IdentityChoice(guess: [index], of: shape, reason)
            }
            if areRecords, let partner = partner(of: index, in: shape) {
                let reason = "unique together in \(shape.count) of \(shape.count)"
                return IdentityChoice(guess: [index, partner], of: shape, reason)
            }
        }
        guard areRecords, let (indices, reason) = placed(in: shape) else { return nil }
        return IdentityChoice(guess: indices, of: shape, reason)
    }

    private init(paths: [[String]], reason: String) { (self.paths, self.reason) = (paths, reason) }

    private init(guess indices: [Int], of shape: ObjectShape, _ reason: String) {
        self.init(paths: indices.map(shape.path), reason: reason)
        isGuessed = true
    }

    /// The identity that a person named.
    init(given paths: [[String]], in shape: ObjectShape) {
        let index = paths.count == 1 ? shape.index(of: paths[0][0]) : nil
        let column = index.flatMap { index in
            shape.path(index) != paths[0] || shape.isUnique(index) ? nil : shape.columns[index]
        }
        let repetitions = column.map { shape.rows.repetitions(at: [$0]).all } ?? 0
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

    /// The content of the records.
    static let content: IdentityChoice = {
        var choice = IdentityChoice(paths: [], reason: "a hash of the whole record, as --identity says")
        choice.isContent = true
        return choice
    }()

    /// Whether an identifier identifies the objects, and why.
    private static func reason(for index: Int, in shape: ObjectShape, _ areRecords: Bool) -> String? {
        guard let column = shape.columns[index] else { return nil }
        if !areRecords {
            guard shape.rows.isUniqueInLists(at: column), !shape.rows.areListPositions(at: column) else { return nil }
        }
        if shape.isUnique(index) { return "unique in \(shape.count) of \(shape.count)" }
        // A value that would be replaced is a contradiction.
        let (repetitions, different) = shape.rows.repetitions(at: [column])
        guard different == 0 else { return nil }
        guard repetitions > 0 else {
            // More values than are compared.
            return shape.properties[index].distinct?.hasNoRepetition ?? true ? "in all \(shape.count)" : nil
        }
        return "in all \(shape.count); \(repetitions) repeat an earlier one"
    }

    /// A key that makes a repeated identifier unique: objects of several kinds share identifiers, or are numbered.
    private static func partner(of index: Int, in shape: ObjectShape) -> Int? {
        guard let column = shape.columns[index] else { return nil }
        return shape.keys.indices.first { other in
            let words = EntityName.words(shape.keys[other])
            return (kinds.contains(words) || isOrder(words)) && other != index
                && shape.mayIdentify(other) && shape.properties[other].wrappers.isEmpty
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

    // MARK: - By the place

    /// Names of the first key of records that identify if all values differ.
    private static let firstNames: Set<String> = ["sku", "code", "slug", "key"]

    /// The first keys of the records, by which a table is known: `page_id`, a code; or those of a table that joins others.
    private static func placed(in shape: ObjectShape) -> (indices: [Int], reason: String)? {
        guard shape.count > 1, let first = shape.keys.first else { return nil }
        let isKey = { (index: Int) in
            shape.mayIdentify(index) && shape.properties[index].scalars.isPlainKey
                && shape.properties[index].wrappers.isEmpty
        }
        let isID = { (key: String) in EntityName.words(key).hasSuffix("_id") }
        let leading = Array(shape.keys.indices.prefix { isID(shape.keys[$0]) && isKey($0) })
        if leading.count > 1 {
            let columns = leading.compactMap { shape.columns[$0] }
            guard columns.count == leading.count, shape.rows.areUnique(together: columns) else { return nil }
            return (leading, "unique together in \(shape.count) of \(shape.count)")
        }
        guard isID(first) || firstNames.contains(EntityName.words(first)), isKey(0), shape.isUnique(0) else {
            return nil
        }
        return ([0], "the first key, unique in \(shape.count) of \(shape.count)")
    }
}

extension ObjectShape {
    /// Every object has the key, with values that may identify it.
    fileprivate func mayIdentify(_ index: Int) -> Bool {
        properties[index].count == count && properties[index].mayIdentify
    }

    /// All values of a key differ from each other.
    fileprivate func isUnique(_ index: Int) -> Bool { properties[index].distinct?.areUnique ?? false }

    /// The path of a key, or of what is wrapped in it.
    fileprivate func path(_ index: Int) -> [String] { properties[index].paths(at: [keys[index]])[0] }
}

/// A key that is named like an identifier. Objects with the same value are one object.
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

    /// The value at the key is another one in each version of an object.
    static func isVersion(_ key: String) -> Bool {
        EntityName.words(key).split(separator: "_").contains {
            ["updated", "modified", "changed", "edited", "revised", "version", "revision"].contains($0)
        }
    }

    static func < (one: IdentityName, other: IdentityName) -> Bool { one.rank < other.rank }
}
