package import BrokerJSON

/// Infers a model from sample records.
///
/// Not for several threads at once. Memory: a hash for each identity that was seen, and the shapes, which are bounded.
package struct SampleInference {
    private let entity: String
    private let shape = ObjectShape(depth: 0)

    /// - Parameter entity: the name that the records' entity gets.
    package init(entity: String) { self.entity = entity }

    /// Records that were seen.
    package private(set) var recordCount = 0

    /// The records have more keys than a model can name, or contain other records by their keys: a model would skip
    /// their contents.
    package var isTooWide: Bool { shape.isTooWide }

    /// Adds a record, or each record of an array. Values that are not objects are ignored.
    ///
    /// The value is not needed any more when this returns.
    package mutating func observe(_ value: JSONValue) {
        switch value.kind {
        case .object:
            shape.observe(value)
            recordCount += 1
        case .array: for element in value.elements where element.kind == .object { observe(element) }
        default: break
        }
    }

    /// A key that holds many records of that entity, as `statuses` does of `Status`.
    package static func isPlural(_ key: String, of entity: String) -> Bool {
        let stem = EntityShapes.words(key)
        return EntityShapes.singular(stem) == EntityShapes.words(entity) && stem != EntityShapes.words(entity)
    }

    /// The model in its JSON form, with a `description` on each guess. This ends the inference.
    package consuming func modelText() -> String {
        EntityShapes(entity, shape).model(of: recordCount).text
    }
}

/// Which of the samples' objects are of one entity, and what the entities are called.
struct EntityShapes {
    private struct Found {
        let name: String
        /// In small letters, `_` between words.
        let stem: String
        let shape: ObjectShape
    }

    /// Objects are of one entity when they have at least so many of their keys in common, and their names say so.
    private static let leastLikeness = 0.5

    private var found: [Found] = []
    private var indices: [ObjectIdentifier: Int] = [:]

    init(_ name: String, _ shape: ObjectShape) {
        add(name, Self.words(name), shape)
        var next = 0
        while next < found.count {
            let parent = found[next]
            for key in parent.shape.keys {
                guard let property = parent.shape.properties[key], property.isRelationship,
                    let nested = property.objects
                else { continue }
                place(nested, key, parent)
            }
            next += 1
        }
    }

    private mutating func add(_ name: String, _ stem: String, _ shape: ObjectShape) {
        indices[ObjectIdentifier(shape)] = found.count
        found.append(Found(name: name, stem: stem, shape: shape))
    }

    private mutating func place(_ shape: ObjectShape, _ key: String, _ parent: Found) {
        guard indices[ObjectIdentifier(shape)] == nil else { return }
        let stem = Self.singular(Self.words(key))
        // `retweeted_status` is a status.
        let same = found.firstIndex {
            ($0.stem == stem || stem.hasSuffix("_" + $0.stem)) && $0.shape.likeness(to: shape) >= Self.leastLikeness
        }
        if let same {
            indices[ObjectIdentifier(shape)] = same
            found[same].shape.merge(shape)
            // The new samples are visited in their new position: later, if the entity was visited already.
            for key in shape.keys {
                guard let property = found[same].shape.properties[key], property.isRelationship,
                    let nested = property.objects
                else { continue }
                place(nested, key, found[same])
            }
            return
        }
        let name = Self.camel(stem)
        let taken = { (name: String, found: [Found]) in
            found.contains { $0.name.lowercased() == name.lowercased() }
        }
        var candidate = taken(name, found) || name.isEmpty ? parent.name + name : name
        if candidate.isEmpty || taken(candidate, found) {
            let first = candidate
            var number = 2
            while taken(candidate, found) {
                candidate = "\(first)\(number)"
                number += 1
            }
        }
        add(candidate, stem, shape)
    }

    // MARK: - Names

    /// `screenName`, `screen-name` and `ScreenName` are `screen_name`.
    static func words(_ key: String) -> String {
        var words = ""
        var wasLower = false
        for character in key {
            guard character.isLetter || character.isNumber else {
                if !words.isEmpty, words.last != "_" { words.append("_") }
                wasLower = false
                continue
            }
            if character.isUppercase, wasLower { words.append("_") }
            words += character.lowercased()
            wasLower = character.isLowercase || character.isNumber
        }
        return words.last == "_" ? String(words.dropLast()) : words
    }

    static func singular(_ stem: String) -> String {
        if stem.hasSuffix("ies"), stem.count > 4 { return stem.dropLast(3) + "y" }
        if stem.hasSuffix("sses") || stem.hasSuffix("uses") || stem.hasSuffix("xes") || stem.hasSuffix("ches") {
            return String(stem.dropLast(2))
        }
        if stem.hasSuffix("s"), !stem.hasSuffix("ss"), !stem.hasSuffix("us"), stem.count > 2 {
            return String(stem.dropLast())
        }
        return stem
    }

    private static func camel(_ stem: String) -> String {
        stem.split(separator: "_").map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    }

    // MARK: - The model

    func model(of count: Int) -> ImportedModel {
        var model = ImportedModel()
        model.description =
            "Inferred by broker from \(count) record\(count == 1 ? "" : "s") of \(found[0].name). What is said here of "
            + "each part is a guess: change what is wrong before much is stored."
        model.entities = found.map(entity)
        return model
    }

    private func entity(_ found: Found) -> ImportedModel.Entity {
        let shape = found.shape
        var entity = ImportedModel.Entity(name: found.name)
        var names = PropertyNames()
        var leftOut: [String] = []
        let identity = shape.identity(of: found.name)
        for key in shape.keys {
            guard let property = shape.properties[key] else { continue }
            guard let name = names.name(for: key) else {
                leftOut.append(ImportedModel.json(key))
                continue
            }
            var members: [(key: String, json: String)] = []
            if name != key { members.append(("key", ImportedModel.json([key]))) }
            let missing = shape.count - property.count + property.nulls
            let presence =
                missing == 0 ? "in all \(shape.count)" : "missing or null in \(missing) of \(shape.count)"
            if property.isRelationship, let nested = property.objects, let index = indices[ObjectIdentifier(nested)] {
                members.insert(("entity", ImportedModel.json(self.found[index].name)), at: 0)
                if property.isToMany { members.append(("toMany", "true")) }
                let hasIdentity = self.found[index].shape.identity(of: self.found[index].name) != nil
                // No key identifies its objects, so each record makes new ones.
                if property.isToMany, !hasIdentity { members.append(("assignment", "\"replace\"")) }
                let kind = property.isToMany ? "an array of objects" : "an object"
                entity.relationships.append(
                    ImportedModel.Property(name: name, members: members, description: "\(kind), \(presence)"))
            } else {
                let type = property.type
                members.insert(("type", ImportedModel.json(type.name)), at: 0)
                members += type.members
                if missing > 0, key != identity { members.append(("optional", "true")) }
                let reasons = [presence, type.reason].filter { !$0.isEmpty }.joined(separator: "; ")
                entity.attributes.append(ImportedModel.Property(name: name, members: members, description: reasons))
            }
            if key == identity { entity.members.append(("identity", ImportedModel.json(name))) }
        }
        entity.description = Self.description(shape, identity, leftOut)
        return entity
    }

    private static func description(_ shape: ObjectShape, _ identity: String?, _ leftOut: [String]) -> String {
        var text = "Seen \(shape.count) times. "
        if let identity {
            text += "Identified by \(identity): every object has it, and those with the same one are the same."
        } else {
            text += "Nothing identifies its objects, so each record makes a new one."
        }
        if !leftOut.isEmpty {
            text += " Skipped, because a path cannot name them: \(leftOut.joined(separator: ", "))."
        }
        return text
    }
}

/// Names for attributes and relationships: the keys, unless the model or SQLite would take them for something else.
struct PropertyNames {
    private var taken: Set<String> = []

    /// Nil when no key path leads there.
    mutating func name(for key: String) -> String? {
        guard !key.isEmpty, !key.contains("."), key.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F })
        else { return nil }
        let first = key.lowercased() == "_pk" ? "pk" : key
        var name = first
        var number = 2
        // SQLite takes names for the same that differ in the case of ASCII letters.
        while !taken.insert(name.lowercased()).inserted {
            name = "\(first)\(number)"
            number += 1
        }
        return name
    }
}
