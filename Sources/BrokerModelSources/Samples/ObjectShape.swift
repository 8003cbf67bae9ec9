internal import BrokerJSON

/// The common shape of the samples' objects at one position.
final class ObjectShape {
    /// An object with more keys is a dictionary whose keys are values, and is stored as JSON.
    static let mostKeys = 300
    /// For the records themselves, which cannot be stored as JSON: the maximum columns of a table.
    static let mostRecordKeys = 2_000
    /// For nested objects; deeper ones are stored as JSON.
    static let deepest = 12

    /// Objects that were seen.
    private(set) var count = 0
    /// In the order in which they were seen first.
    private(set) var keys: [String] = []
    private(set) var properties: [String: PropertyShape] = [:]
    private(set) var hasTooManyKeys = false
    private var identities: [String: IdentityEvidence] = [:]
    private let depth: Int

    init(depth: Int) { self.depth = depth }

    /// - Precondition: the value is an object.
    func observe(_ object: JSONValue) {
        count += 1
        var seen: [String: JSONValue] = [:]
        for (key, value) in object.members {
            // Nothing that could be written in a model.
            guard let key = key.string else { continue }
            seen[key] = value
            if properties[key] == nil {
                guard keys.count < (depth == 0 ? Self.mostRecordKeys : Self.mostKeys) else {
                    hasTooManyKeys = true
                    continue
                }
                keys.append(key)
                properties[key] = PropertyShape()
            }
            properties[key]?.observe(value, depth: depth)
        }
        noteIdentities(seen)
    }

    /// Values that may identify an object, with what else the object has.
    private func noteIdentities(_ object: [String: JSONValue]) {
        var hash: Int?
        for (key, value) in object where Self.mayIdentify(key) {
            guard value.kind == .string || value.kind == .number else { continue }
            let content = hash ?? Self.contentHash(object)
            hash = content
            identities[key, default: IdentityEvidence()].observe(Self.hash(value), content: content)
        }
    }

    private static func mayIdentify(_ key: String) -> Bool {
        let folded = key.lowercased()
        return folded.hasSuffix("id") || folded == "guid" || folded == "key" || folded == "code" || folded == "id_str"
    }

    /// The values other than nested objects, which may be nested in some records only.
    private static func contentHash(_ object: [String: JSONValue]) -> Int {
        var sum = 0
        for (key, value) in object
        where value.kind != .object && !value.elements.contains(where: { $0.kind == .object }) {
            var hasher = Hasher()
            hasher.combine(key)
            hasher.combine(hash(value))
            // Whatever the order of the keys.
            sum &+= hasher.finalize()
        }
        return sum
    }

    private static func hash(_ value: JSONValue) -> Int {
        var hasher = Hasher()
        hasher.combine(value.kind)
        hasher.combine(bytes: UnsafeRawBufferPointer(value.bytes))
        for element in value.elements { hasher.combine(hash(element)) }
        return hasher.finalize()
    }

    /// It is a dictionary of records, or has more keys than an entity may have.
    var isTooWide: Bool {
        hasTooManyKeys || properties.values.count(where: { $0.objects != nil }) > Self.mostKeys
    }

    /// The key that identifies the objects of an entity of that name; nil when none does.
    func identity(of entity: String) -> String? {
        let stem = entity.lowercased()
        let wanted = ["id", "_id", stem + "_id", stem + "id", "uuid", "guid", "id_str"]
        let ranked = keys.filter { wanted.contains($0.lowercased()) }
            .sorted { wanted.firstIndex(of: $0.lowercased())! < wanted.firstIndex(of: $1.lowercased())! }
        return ranked.first { key in
            guard let evidence = identities[key], let property = properties[key] else { return false }
            return evidence.count == count && !evidence.isContradicted && property.canIdentify
        }
    }

    /// Takes in what was seen at another place.
    func merge(_ other: ObjectShape) {
        count += other.count
        hasTooManyKeys = hasTooManyKeys || other.hasTooManyKeys
        for key in other.keys {
            if let property = properties[key] {
                property.merge(other.properties[key]!)
            } else {
                keys.append(key)
                properties[key] = other.properties[key]!
            }
        }
        for (key, evidence) in other.identities { identities[key, default: IdentityEvidence()].merge(evidence) }
    }

    /// How many of all keys both have, from 0 to 1.
    func likeness(to other: ObjectShape) -> Double {
        let (mine, theirs) = (Set(keys), Set(other.keys))
        let all = mine.union(theirs).count
        return all == 0 ? 0 : Double(mine.intersection(theirs).count) / Double(all)
    }
}

/// Whether a key identifies objects: two with the same value have the same content.
private struct IdentityEvidence {
    /// Objects that have a value.
    private(set) var count = 0
    private(set) var isContradicted = false
    private var contents: [Int: Int] = [:]

    mutating func observe(_ value: Int, content: Int) {
        count += 1
        if let other = contents.updateValue(content, forKey: value), other != content { isContradicted = true }
    }

    mutating func merge(_ other: IdentityEvidence) {
        count += other.count
        isContradicted = isContradicted || other.isContradicted
        for (value, content) in other.contents {
            if let mine = contents.updateValue(content, forKey: value), mine != content { isContradicted = true }
        }
    }
}

/// The samples' values at one key.
final class PropertyShape {
    /// Values that were seen, those that are null among them.
    private(set) var count = 0
    private(set) var nulls = 0
    private(set) var objects: ObjectShape?
    /// An array of objects was seen.
    private(set) var isToMany = false
    private var scalars = ScalarShape()
    /// Arrays of anything else, or mixed ones, or objects that are nested too deep.
    private var others = 0
    private var emptyArrays = 0
    private var singleObjects = 0

    func observe(_ value: JSONValue, depth: Int) {
        count += 1
        switch value.kind {
        case .null: nulls += 1
        case .object:
            singleObjects += 1
            observe(object: value, depth)
        case .array:
            var hasObjects = false
            var hasOthers = false
            for element in value.elements {
                if element.kind == .object { hasObjects = true } else { hasOthers = true }
            }
            switch (hasObjects, hasOthers) {
            case (false, false): emptyArrays += 1
            case (true, false):
                isToMany = true
                for element in value.elements { observe(object: element, depth) }
            default: others += 1
            }
        default: scalars.observe(value)
        }
    }

    private func observe(object: JSONValue, _ depth: Int) {
        guard depth < ObjectShape.deepest else {
            others += 1
            return
        }
        if objects == nil { objects = ObjectShape(depth: depth + 1) }
        objects?.observe(object)
    }

    func merge(_ other: PropertyShape) {
        count += other.count
        nulls += other.nulls
        isToMany = isToMany || other.isToMany
        scalars.merge(other.scalars)
        others += other.others
        emptyArrays += other.emptyArrays
        singleObjects += other.singleObjects
        guard let theirs = other.objects else { return }
        if let objects { objects.merge(theirs) } else { objects = theirs }
    }

    /// Nested objects alone: a relationship.
    var isRelationship: Bool {
        guard let objects, !objects.hasTooManyKeys, !objects.keys.isEmpty else { return false }
        return others == 0 && scalars.count == 0
    }

    var canIdentify: Bool { nulls == 0 && objects == nil && others == 0 && emptyArrays == 0 && scalars.isKey }

    /// The type of an attribute, and why.
    var type: (name: String, members: [(key: String, json: String)], reason: String) {
        guard objects == nil, others == 0, emptyArrays == 0 else {
            let reason =
                switch (objects, others, emptyArrays) {
                case (nil, 0, _): scalars.count == 0 ? "always an empty array" : "an array or a value"
                case (let objects?, 0, _) where objects.hasTooManyKeys: "a dictionary with many keys"
                case (let objects?, 0, _) where objects.keys.isEmpty: "an object without keys"
                case (nil, _, _): "an array of values"
                default: "objects and other values"
                }
            return ("transformable", [], "\(reason), stored as JSON")
        }
        return scalars.type
    }
}
