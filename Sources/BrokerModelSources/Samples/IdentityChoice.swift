internal import BrokerModel

/// The keys that identify the objects of an entity, and the evidence.
struct IdentityChoice {
    /// Key paths.
    let paths: [[String]]
    let reason: String

    /// The position of the objects whose identity is looked for.
    enum Position {
        /// The input's records.
        ///
        /// - Parameter isComplete: all of the input was seen, so that what is unique in it is unique.
        case records(isComplete: Bool)
        /// Nested in other objects.
        case nested
    }

    private static let leastAgreement = 0.5
    /// The proportion of objects that repeat others, if several parents share them.
    private static let leastShared = 0.2
    private static let leastRepetitions = 3.0

    /// - Returns: nil when nothing identifies the objects.
    init?(of shape: ObjectShape, entity: String, at position: Position) {
        guard shape.count > 0 else { return nil }
        let named = shape.keys.indices.compactMap { index -> (index: Int, name: IdentityName)? in
            shape.mayIdentify(index) ? IdentityName(shape.keys[index], of: entity).map { (index, $0) } : nil
        }.sorted { $0.name < $1.name }
        for (index, name) in named {
            guard let reason = Self.reason(for: index, name, in: shape, position) else { continue }
            if case .records = position, let partner = Self.partner(of: index, name, in: shape) {
                self.init(
                    paths: [shape.path(index), shape.path(partner)],
                    reason: "unique together in \(shape.count) of \(shape.count)")
            } else {
                self.init(paths: [shape.path(index)], reason: reason)
            }
            return
        }
        guard case .records(true) = position, let found = Self.unnamed(in: shape) else { return nil }
        self = found
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

    /// Whether a key with such a name identifies objects, and why.
    private static func reason(
        for index: Int, _ name: IdentityName, in shape: ObjectShape, _ position: Position
    ) -> String? {
        let isUnique = shape.isUnique(index)
        guard let column = shape.columns[index] else { return nil }
        let (repetitions, equal, least) = shape.rows.agreement(at: column)
        let unique = "unique in \(shape.count) of \(shape.count)"
        let what = equal < 1 ? "are other versions of an earlier one" : "repeat an earlier one"
        let repeated = "in all \(shape.count); \(repetitions) \(what)"
        switch (name.tier, position) {
        case (.identifier, .records):
            if isUnique { return unique }
            // One value for all that differ is no identifier.
            guard equal >= leastAgreement || repetitions < max(2, shape.count - 1) else { return nil }
            guard repetitions > 0 else { return "in all \(shape.count)" }
            return repeated
        case (.identifier, .nested):
            guard shape.rows.isUniqueInLists(at: column), !shape.rows.areListPositions(at: column) else { return nil }
            // Two that differ in most values contradict all that agree.
            return isUnique ? unique : least >= leastAgreement ? repeated : nil
        case (.code, .nested), (.label, .nested):
            guard !isPair(shape), shape.rows.isUniqueInLists(at: column) else { return nil }
            // Objects that are repeated because their parents are prove nothing.
            let isShared = Double(repetitions) >= max(leastRepetitions, leastShared * Double(shape.count))
            if isShared, equal == 1 { return repeated }
            let isMuch = shape.rows.listCount > 1 && shape.count >= 10
            return name.tier == .code && isUnique && isMuch ? unique : nil
        case (.suffix, .nested): return nil
        case (.code, .records), (.label, .records(true)):
            if isUnique { return unique }
            return repetitions > 0 && equal == 1 && !shape.rows.isCut ? repeated : nil
        case (.suffix, .records(true)): return isUnique && shape.count > 1 ? unique : nil
        case (.label, .records), (.suffix, .records): return nil
        }
    }

    /// `{"key": "color", "value": "red"}` is a value of its parent, not an object.
    private static func isPair(_ shape: ObjectShape) -> Bool {
        shape.keys.count <= 3 && shape.keys.contains { ["value", "values", "val"].contains(EntityName.words($0)) }
    }

    // MARK: - Keys whose names say nothing

    private static let leastRecords = 5
    /// Keys that are tried together.
    private static let mostPartners = 12

    /// Keys that divide the objects of one identifier, which are no versions of each other then.
    private static let kinds: Set<String> = ["type", "kind", "role", "typename", "lang", "language", "locale"]

    /// A key that makes a repeated identifier unique: objects of several kinds share identifiers, or are numbered.
    private static func partner(of index: Int, _ name: IdentityName, in shape: ObjectShape) -> Int? {
        guard name.tier == .identifier, !shape.isUnique(index), let column = shape.columns[index] else { return nil }
        let areVersions = shape.rows.agreement(at: column).equal >= leastAgreement
        return shape.keys.indices.first { other in
            let isPartner =
                kinds.contains(EntityName.words(shape.keys[other])) || !areVersions && isOrder(shape.keys[other])
            return isPartner && other != index && shape.mayIdentify(other)
                && shape.properties[other].wrapper == nil
                && shape.columns[other].map { shape.rows.areUnique(together: [column, $0]) } ?? false
        }
    }

    /// A key, or keys together, whose values are unique in all records.
    private static func unnamed(in shape: ObjectShape) -> IdentityChoice? {
        if shape.count > 1, let nested = nestedUnique(in: shape, []) { return nested }
        guard shape.count >= leastRecords else { return nil }
        let columns = shape.keys.indices.filter { index in
            shape.mayIdentify(index) && ![.double, .decimal, .boolean].contains(shape.type(index))
        }
        let unique = columns.filter(shape.isUnique)
            .sorted { (weight($0, shape), $0) < (weight($1, shape), $1) }
        let reason = "in \(shape.count) of \(shape.count)"
        if let one = unique.first, weight(one, shape) == 0 || one == columns.first && weight(one, shape) < 3 {
            return IdentityChoice(paths: [shape.path(one)], reason: "unique \(reason)")
        }
        // A number that happens to be unique is a worse key than a name and a year.
        let partners = columns.filter { shape.columns[$0] != nil && !unique.contains($0) }.prefix(mostPartners)
        for size in 2...3 {
            let together = combinations(of: size, from: Array(partners)).filter { indices in
                shape.rows.areUnique(together: indices.compactMap { shape.columns[$0] })
            }
            let best = together.max { likelihood($0, shape) < likelihood($1, shape) }
            if let best {
                return IdentityChoice(paths: best.map { shape.path($0) }, reason: "unique together \(reason)")
            }
        }
        return unique.first.map { IdentityChoice(paths: [shape.path($0)], reason: "unique \(reason)") }
    }

    /// An identifier and what orders its objects is likelier than two of the one or the other.
    private static func likelihood(_ indices: [Int], _ shape: ObjectShape) -> Int {
        let tiers = indices.map { IdentityName(shape.keys[$0], of: "")?.tier }
        let identifier = tiers.contains(.identifier) ? 6 : tiers.contains(.suffix) ? 4 : 0
        return identifier + (indices.contains { isOrder(shape.keys[$0]) } ? 5 : 0)
    }

    /// The key numbers or dates the objects of another one.
    private static func isOrder(_ key: String) -> Bool {
        let words = EntityName.words(key).split(separator: "_")
        return words.contains {
            [
                "sequence", "seq", "index", "position", "number", "no", "date", "year", "month", "day", "time",
                "version",
                "timestamp", "period", "quarter", "week", "start", "begin", "from",
            ].contains($0)
        } && !words.contains { ["updated", "modified", "changed", "last", "fetched"].contains($0) }
    }

    /// Texts before numbers before dates before long texts.
    private static func weight(_ index: Int, _ shape: ObjectShape) -> Int {
        if shape.properties[index].scalars.longestText > 100 { return 3 }
        return switch shape.type(index) {
        case .integer64: 1
        case .date, .calendarDate: 2
        default: 0
        }
    }

    /// A unique key of an object that is nested once in each record.
    private static func nestedUnique(in shape: ObjectShape, _ path: [String]) -> IdentityChoice? {
        for (key, property) in zip(shape.keys, shape.properties)
        where property.isObjects && !property.hasLists && property.nulls == 0 && PropertyNames.isNameable(key) {
            guard let nested = property.objects, nested.isSingle, nested.count == shape.count else { continue }
            let named = nested.keys.indices.compactMap { index in
                nested.mayIdentify(index) && nested.isUnique(index)
                    ? IdentityName(nested.keys[index], of: "").map { (index: index, name: $0) } : nil
            }
            let best = named.min { $0.name < $1.name }?.index
            if let best {
                return IdentityChoice(
                    paths: [path + [key] + nested.path(best)],
                    reason: "unique in \(nested.count) of \(nested.count)")
            }
            if let deeper = nestedUnique(in: nested, path + [key]) { return deeper }
        }
        return nil
    }

    private static func combinations(of size: Int, from columns: [Int]) -> [[Int]] {
        guard size > 0 else { return [[]] }
        return columns.indices.flatMap { index in
            combinations(of: size - 1, from: Array(columns[(index + 1)...])).map { [columns[index]] + $0 }
        }
    }
}

extension ObjectShape {
    /// Every object has the key, with values that may identify it.
    fileprivate func mayIdentify(_ index: Int) -> Bool {
        properties[index].count == count && properties[index].mayIdentify && PropertyNames.isNameable(keys[index])
    }

    /// All values of a key differ from each other.
    fileprivate func isUnique(_ index: Int) -> Bool { properties[index].distinct?.areUnique ?? false }

    fileprivate func type(_ index: Int) -> AttributeType {
        properties[index].scalars.type(key: keys[index], readsTexts: readsTexts).type
    }

    /// The path of a key, or of what is wrapped in it.
    fileprivate func path(_ index: Int) -> [String] { [keys[index]] + (properties[index].wrapper.map { [$0] } ?? []) }
}

/// How far the name of a key says that its values identify objects.
struct IdentityName: Comparable {
    enum Tier: Int {
        /// `id` and the like: objects with the same value are versions of one object.
        case identifier
        /// Codes and addresses, which usually identify.
        case code
        /// Names, which often identify.
        case label
        /// Ends like an identifier or a code, perhaps of another object.
        case suffix
    }

    let tier: Tier
    private let rank: Int

    private static let identifiers = [
        "id", "", "uuid", "guid", "id_str", "object_id", "gid", "oid", "pk", "sha", "isbn", "isbn13", "isbn_13", "doi",
        "issn", "serial_number", "ean", "gtin", "vin", "node_id",
    ]
    private static let codes = [
        "alpha_3", "cca3", "iso_a3", "iso3", "alpha_2", "cca2", "iso_a2", "iso2", "alpha_4", "code", "key", "slug",
        "symbol", "iata", "icao", "ident", "identifier", "handle", "login", "username", "user_name", "screen_name",
        "email", "abbreviation", "uri", "url", "href", "link", "self", "permalink", "domain", "hostname",
    ]
    private static let labels = [
        "name", "", "title", "full_name", "label", "path", "filename", "file", "file_name", "number", "date",
        "datetime",
        "timestamp", "time", "day", "month", "year",
    ]
    private static let suffixes = ["_id", "_uuid", "_guid", "_code", "_key", "_slug", "_sha", "_str", "_no", "_number"]

    /// - Parameter entity: the name of the objects' entity; empty when it is not known.
    init?(_ key: String, of entity: String) {
        let word = EntityName.words(key)
        let stem = EntityName.words(entity)
        let own = stem.isEmpty ? [] : [stem] + (stem.split(separator: "_").last.map { [String($0)] } ?? [])
        if let rank = Self.identifiers.firstIndex(of: word), !word.isEmpty {
            (tier, self.rank) = (.identifier, rank)
        } else if own.contains(where: { word == $0 + "_id" || word == $0 + "id" }) {
            (tier, rank) = (.identifier, 1)
        } else if let rank = Self.codes.firstIndex(of: word) {
            (tier, self.rank) = (.code, rank)
        } else if own.contains(where: { word == $0 + "_code" || word == $0 + "_key" || word == $0 }) {
            (tier, rank) = (.code, Self.codes.count)
        } else if let rank = Self.labels.firstIndex(of: word), !word.isEmpty {
            (tier, self.rank) = (.label, rank)
        } else if own.contains(where: { word == $0 + "_name" }) {
            (tier, rank) = (.label, 1)
        } else if let rank = Self.suffixes.firstIndex(where: word.hasSuffix) {
            (tier, self.rank) = (.suffix, rank)
        } else {
            return nil
        }
    }

    static func < (one: IdentityName, other: IdentityName) -> Bool {
        (one.tier.rawValue, one.rank) < (other.tier.rawValue, other.rank)
    }
}
