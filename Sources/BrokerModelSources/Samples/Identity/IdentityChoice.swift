internal import BrokerJSON

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
            guard shape.properties[index].count == shape.count, shape.properties[index].mayIdentify,
                PropertyNames.isNameable(shape.keys[index])
            else { return nil }
            return IdentityName(shape.keys[index], of: entity).map { (index, $0) }
        }.sorted { $0.name < $1.name }
        for (index, name) in named {
            if let reason = Self.reason(for: index, name, in: shape, position) {
                if case .records = position, let partner = Self.partner(of: index, name, in: shape) {
                    self.init(
                        paths: [Self.path(shape, index), Self.path(shape, partner)],
                        reason: "unique together in \(shape.count) of \(shape.count)")
                    return
                }
                self.init(paths: [Self.path(shape, index)], reason: reason)
                return
            }
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
            Self.path(shape, index) != paths[0] || shape.properties[index].distinct?.areUnique == true
                ? nil : shape.columns[index]
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

    static func path(_ shape: ObjectShape, _ index: Int) -> [String] {
        let wrapper = shape.properties[index].wrapper.map { [String(decoding: $0, as: UTF8.self)] } ?? []
        return [shape.keys[index]] + wrapper
    }

    /// Whether a key with such a name identifies objects, and why.
    private static func reason(
        for index: Int, _ name: IdentityName, in shape: ObjectShape, _ position: Position
    ) -> String? {
        let isUnique = shape.properties[index].distinct?.areUnique ?? false
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
        guard name.tier == .identifier, !(shape.properties[index].distinct?.areUnique ?? false),
            let column = shape.columns[index]
        else { return nil }
        let areVersions = shape.rows.agreement(at: column).equal >= leastAgreement
        return shape.keys.indices.first { other in
            let isPartner =
                kinds.contains(EntityName.words(shape.keys[other])) || !areVersions && isOrder(shape.keys[other])
            return isPartner && other != index && shape.properties[other].mayIdentify
                && shape.properties[other].count == shape.count && shape.properties[other].wrapper == nil
                && shape.columns[other].map { shape.rows.areUnique(together: [column, $0]) } ?? false
        }
    }

    /// A key, or keys together, whose values are unique in all records.
    private static func unnamed(in shape: ObjectShape) -> IdentityChoice? {
        if shape.count > 1, let nested = nestedUnique(in: shape, []) { return nested }
        guard shape.count >= leastRecords else { return nil }
        let columns = shape.keys.indices.filter { index in
            let property = shape.properties[index]
            let type = property.scalars.type(key: shape.keys[index], readsTexts: shape.readsTexts).name
            return property.count == shape.count && property.mayIdentify && PropertyNames.isNameable(shape.keys[index])
                && !["double", "decimal", "boolean"].contains(type)
        }
        let unique = columns.filter { shape.properties[$0].distinct?.areUnique ?? false }
            .sorted { (weight($0, shape), $0) < (weight($1, shape), $1) }
        let reason = "in \(shape.count) of \(shape.count)"
        if let one = unique.first, weight(one, shape) == 0 || one == columns.first && weight(one, shape) < 3 {
            return IdentityChoice(paths: [path(shape, one)], reason: "unique \(reason)")
        }
        // A number that happens to be unique is a worse key than a name and a year.
        let partners = columns.filter { shape.columns[$0] != nil && !unique.contains($0) }.prefix(mostPartners)
        for size in 2...3 {
            let together = combinations(of: size, from: Array(partners)).filter { indices in
                shape.rows.areUnique(together: indices.compactMap { shape.columns[$0] })
            }
            let best = together.max { likelihood($0, shape) < likelihood($1, shape) }
            if let best {
                return IdentityChoice(paths: best.map { path(shape, $0) }, reason: "unique together \(reason)")
            }
        }
        return unique.first.map { IdentityChoice(paths: [path(shape, $0)], reason: "unique \(reason)") }
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
        let property = shape.properties[index]
        let type = property.scalars.type(key: shape.keys[index], readsTexts: shape.readsTexts).name
        if property.longestText > 100 { return 3 }
        return switch type {
        case "integer64": 1
        case "date", "calendarDate": 2
        default: 0
        }
    }

    /// A unique key of an object that is nested once in each record.
    private static func nestedUnique(in shape: ObjectShape, _ path: [String]) -> IdentityChoice? {
        for (key, property) in zip(shape.keys, shape.properties)
        where property.isObjects && !property.hasLists && property.nulls == 0 && PropertyNames.isNameable(key) {
            guard let nested = property.objects, nested.isSingle, nested.count == shape.count else { continue }
            let named = nested.keys.indices.filter { index in
                let inner = nested.properties[index]
                return inner.count == nested.count && inner.mayIdentify && inner.distinct?.areUnique ?? false
                    && IdentityName(nested.keys[index], of: "") != nil && PropertyNames.isNameable(nested.keys[index])
            }
            let best = named.min {
                IdentityName(nested.keys[$0], of: "")! < IdentityName(nested.keys[$1], of: "")!
            }
            if let best {
                return IdentityChoice(
                    paths: [path + [key] + Self.path(nested, best)],
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

extension RowSample {
    /// The whole numbers at a key number the objects of each array.
    fileprivate func areListPositions(at column: Int) -> Bool {
        hasLists
            && arePositions(at: column) { number in
                let digits = Array("\(number)".utf8)
                return digits.withUnsafeBufferPointer { JSONValue.sampleHash(ofNumber: $0) }
            }
    }
}
