internal import BrokerModel

/// Writes a design as a model.
struct DesignWriter {
    let design: ModelDesign
    let readsTexts: Bool
    private var model = ImportedModel()
    /// By entity, the names of the attributes of its identity, and those that the model's reader adds.
    var identityNames: [[String]] = []
    private var identities: [(entity: String, text: String)] = []
    var changes = ModelExtension()

    init(_ design: ModelDesign, readsTexts: Bool) {
        self.design = design
        self.readsTexts = readsTexts
    }

    consuming func text(of count: Int) -> InferredText {
        let root = design.entities[0]
        model.description =
            "Inferred by broker from \(count) record\(count == 1 ? "" : "s") of \(root.name). What is said here of "
            + "each part is a guess: change what is wrong before much is stored."
        for index in design.entities.indices { write(entity: index) }
        let mapping = root.isNested ? Self.mapping(of: root) : nil
        if let mapping { changes.addMapping(mapping, of: root.name, nestingKey: Self.nestingKey) }
        model.entities = changes.new.entities
        model.mappings = changes.new.mappings
        return InferredText(
            text: model.text, extension: changes, identities: identities,
            hasValues: !root.leaves.isEmpty || root.isNested, keys: keys, mapping: mapping)
    }

    private var keys: [String: [InferredText.Key]] {
        Dictionary(
            uniqueKeysWithValues: design.entities.map { entity in
                let keys = entity.leaves.map { leaf in
                    var reason = leaf.property.nonidentityReason(among: entity.shape.count)
                    if reason == nil, case .json(let form) = leaf.form { reason = "its values are \(form)" }
                    return InferredText.Key(path: leaf.path.joined(separator: "."), nonidentityReason: reason)
                }
                return (entity.name, keys)
            })
    }

    /// The attribute that has the key of a dictionary.
    private static let nestingKey = "key"

    private static func mapping(of entity: ModelDesign.Entity) -> String { "\(entity.name) by key" }

    private mutating func write(entity index: Int) {
        let source = design.entities[index]
        guard source.known == nil else { return extend(source) }
        var entity = ImportedModel.Entity(name: source.name)
        var names = PropertyNames(reserved: reserved(for: source))
        var identity: [String] = []
        if source.isNested {
            let name = names.name(for: [Self.nestingKey])
            if source.identity != nil { identity = [name] }
            // An answer has the key as such a member, unless the objects have one of their own.
            let isFree = source.shape[Self.nestingKey] == nil
            entity.attributes.append(
                ImportedModel.Property(
                    name: name, members: [("type", "\"string\"")] + (isFree ? [] : [("key", "[]")]),
                    description: "the key under which each object is"))
        }
        let paths = source.isNested ? [] : source.identity?.paths ?? []
        var named: [String?] = paths.map { _ in nil }
        for (position, leaf) in source.leaves.enumerated() {
            let name = names.name(for: leaf.path)
            if let column = paths.firstIndex(of: leaf.path) { named[column] = name }
            if let destination = source.destinations[position] {
                entity.relationships.append(relationship(name, leaf, source, design.entities[destination]))
            } else {
                entity.attributes.append(attribute(name, leaf, source, isIdentity: paths.contains(leaf.path)))
            }
        }
        identity += named.compactMap { $0 }
        if !identity.isEmpty {
            entity.members.append(
                ("identity", identity.count == 1 ? ImportedModel.json(identity[0]) : ImportedModel.json(identity)))
        }
        if !source.ignored.isEmpty {
            entity.members.append(("ignore", ImportedModel.json(source.ignored.map { $0.joined(separator: ".") })))
        }
        if case .owned(let owner) = source.kind {
            let parents = identityNames[owner].map { "parent_\($0)" }
            identityNames.append(parents.isEmpty ? [] : parents + (identity.isEmpty ? ["position"] : identity))
        } else {
            identityNames.append(identity)
        }
        let sentence = self.sentence(source, identity)
        identities.append((source.name, sentence))
        entity.description =
            "Seen \(source.shape.count) times. \(sentence.prefix(1).uppercased())\(sentence.dropFirst())."
        if !source.unnamed.isEmpty {
            let keys = source.unnamed.map { ImportedModel.json($0) }.joined(separator: ", ")
            entity.description += " Skipped, because a path cannot name them: \(keys)."
        }
        changes.add(entity)
    }

    /// The names that the model's reader gives to parts of an owned entity.
    private func reserved(for source: ModelDesign.Entity) -> [String] {
        guard case .owned(let owner) = source.kind else { return [] }
        let name = design.entities[owner].name
        return identityNames[owner].map { "parent_\($0)" } + [
            "position", name.prefix(1).lowercased() + name.dropFirst(),
        ]
    }

    private func sentence(_ source: ModelDesign.Entity, _ identity: [String]) -> String {
        let keys = identity.joined(separator: " and ")
        switch (source.kind, source.identity) {
        case (.owned(let owner), nil) where identityNames[owner].isEmpty:
            return "belongs to \(design.entities[owner].name), and nothing identifies either"
        case (.owned(let owner), nil):
            return "belongs to \(design.entities[owner].name), by its position there"
        case (.owned(let owner), _?):
            return "belongs to \(design.entities[owner].name), by its \(keys) there"
        case (_, let choice?):
            return "identified by \(keys) (\(choice.reason))"
        case (_, nil):
            let candidates = source.leaves.filter { leaf in
                if case .attribute = leaf.form { leaf.property.mayIdentify } else { false }
            }.prefix(5).map { $0.path.joined(separator: ".") }
            let hint =
                candidates.isEmpty
                ? "" : " (to name one: --identity KEY; every object has \(candidates.joined(separator: ", ")))"
            return "nothing identifies its objects, so each run adds its records again\(hint)"
        }
    }

    // MARK: - Properties

    private func presence(_ leaf: ModelLeaf, _ source: ModelDesign.Entity) -> (missing: Int, text: String) {
        let missing = max(0, source.shape.count - leaf.property.count + leaf.property.nulls)
        return (
            missing,
            missing == 0 ? "in all \(source.shape.count)" : "missing or null in \(missing) of \(source.shape.count)"
        )
    }

    func attribute(
        _ name: String, _ leaf: ModelLeaf, _ source: ModelDesign.Entity, isIdentity: Bool
    ) -> ImportedModel.Property {
        let (missing, presence) = presence(leaf, source)
        var members: [(key: String, json: String)]
        var reason: String
        if case .json(let why) = leaf.form {
            (members, reason) = ([("type", "\"transformable\"")], "\(why), stored as JSON")
        } else {
            let type = leaf.property.scalars.type(key: leaf.path.last!, readsTexts: readsTexts)
            members = [("type", ImportedModel.json(type.name))] + type.members
            reason = type.reason
        }
        let path = leaf.path.joined(separator: ".")
        if name != path { members.append(("key", ImportedModel.json([path]))) }
        if missing > 0, !isIdentity { members.append(("optional", "true")) }
        reason = [presence, reason].filter { !$0.isEmpty }.joined(separator: "; ")
        return ImportedModel.Property(name: name, members: members, description: reason)
    }

    mutating func relationship(
        _ name: String, _ leaf: ModelLeaf, _ source: ModelDesign.Entity, _ destination: ModelDesign.Entity
    ) -> ImportedModel.Property {
        let presence = presence(leaf, source).text
        let path = leaf.path.joined(separator: ".")
        var members = [("entity", ImportedModel.json(destination.name))]
        var kind = "an object"
        var isToMany = false
        switch leaf.form {
        case .toMany: (isToMany, kind) = (true, "an array of objects")
        case .map:
            (isToMany, kind) = (true, "objects by their keys")
            members.append(("mapping", ImportedModel.json(Self.mapping(of: destination))))
            changes.addMapping(Self.mapping(of: destination), of: destination.name, nestingKey: Self.nestingKey)
        default: break
        }
        if isToMany { members.append(("toMany", "true")) }
        if case .owned = destination.kind {
            members.append(("owned", "true"))
        } else if isToMany {
            members.append(("assignment", "\"replace\""))
        }
        if name != path { members.append(("key", ImportedModel.json([path]))) }
        return ImportedModel.Property(name: name, members: members, description: "\(kind), \(presence)")
    }
}

/// Writes what an entity of a model lacks for the samples.
extension DesignWriter {
    mutating func extend(_ source: ModelDesign.Entity) {
        guard let index = source.known, let model = design.model else { return }
        let entity = model.model.entities[index]
        identityNames.append(entity.identity.map { entity.attributes[$0].name })
        var removed: Set<String> = []
        for leaf in source.leaves {
            guard case .attribute(let index)? = model.part(at: leaf.path, of: index),
                leaf.property.count > leaf.property.nulls, model.isPlaceholder(index, of: source.known!)
            else { continue }
            removed.insert(entity.attributes[index].name)
            changes.add(.removal(attribute: entity.attributes[index].name), to: entity.name)
        }
        var names = PropertyNames(
            reserved: entity.attributeNames.filter { !removed.contains($0) } + entity.relationshipNames)
        var identity: [String] = []
        for (position, leaf) in source.leaves.enumerated() {
            switch model.part(at: leaf.path, of: index) {
            case .attribute(let attribute)? where !removed.contains(entity.attributes[attribute].name):
                let attribute = entity.attributes[attribute]
                if source.identity?.paths.contains(leaf.path) ?? false { identity.append(attribute.name) }
                let isJSON = if case .json = leaf.form { true } else { false }
                let guess = leaf.property.scalars.type(key: leaf.path.last!, readsTexts: readsTexts)
                if let widening = TypeWidening(of: attribute, by: guess, isJSON: isJSON) {
                    widen(attribute.name, of: index, by: widening, in: model.model)
                }
            case .relationship(let relationship)?:
                let relationship = entity.relationships[relationship]
                if case .toMany = leaf.form, !relationship.isToMany {
                    changes.add(.list(relationship: relationship.name), to: entity.name)
                }
            default:
                let name = names.name(for: leaf.path)
                if let destination = source.destinations[position] {
                    let property = relationship(name, leaf, source, design.entities[destination])
                    changes.add(.relationship(property), to: entity.name)
                } else {
                    let property = attribute(name, leaf, source, isIdentity: false)
                    changes.add(.attribute(property), to: entity.name)
                }
            }
        }
        let ignored = source.ignored.filter { !entity.ignoredPaths.contains($0) }
        if !ignored.isEmpty {
            let all = (entity.ignoredPaths + ignored).map { $0.joined(separator: ".") }
            changes.add(.ignored(all), to: entity.name)
        }
        if entity.identity.isEmpty, !identity.isEmpty { changes.add(.identity(identity), to: entity.name) }
    }

    /// Gives an attribute a wider type, and with it the copies of an identity in owned objects.
    private mutating func widen(_ attribute: String, of entity: Int, by widening: TypeWidening, in model: Model) {
        changes.add(.type(attribute: attribute, widening), to: model.entities[entity].name)
        for (owned, owner) in model.holders.owners where owner.entity == entity {
            for copy in model.entities[owned].attributes where copy.keyPaths.contains(["@parent", attribute]) {
                widen(copy.name, of: owned, by: widening, in: model)
            }
        }
    }
}

/// A model that was inferred, as text.
package struct InferredText {
    /// A key path of an entity's records.
    package struct Key {
        package let path: String
        /// The reason why the values identify nothing; nil where they may.
        package let nonidentityReason: String?
    }

    package let text: String
    /// The parts that the model which the samples extend lacks; all of the model when there is none.
    package let `extension`: ModelExtension
    /// By entity, in the order of the model: what identifies its objects, as a sentence.
    package let identities: [(entity: String, text: String)]
    /// The records have values that the model names.
    package let hasValues: Bool
    /// By entity, its values.
    package let keys: [String: [Key]]
    /// The mapping that reads the records, where their entity alone does not.
    package let mapping: String?
}

/// A type that takes an attribute's values and those of new samples.
struct TypeWidening {
    let type: String
    /// All formats of a date; nil where they do not change.
    let formats: [String]?

    var isDouble: Bool { type == AttributeType.double.rawValue }

    /// - Parameter isJSON: the samples have objects or lists there.
    /// - Returns: nil when the attribute takes the samples as it is.
    init?(of attribute: Attribute, by guess: ScalarShape.TypeGuess, isJSON: Bool) {
        if attribute.type == .transformable || guess.reason.contains(ScalarShape.alwaysNull) && !isJSON { return nil }
        guard !isJSON else {
            (type, formats) = (AttributeType.transformable.rawValue, nil)
            return
        }
        if attribute.type == .date || attribute.type == .calendarDate, guess.name == attribute.type.rawValue {
            guard let new = Self.format(guess), !attribute.dateFormats.contains(new) else { return nil }
            (type, formats) = (guess.name, attribute.dateFormats + [new])
            return
        }
        let isTime = Self.format(guess) == Self.unixTime
        guard let wider = Self.wider(attribute, isTime ? "integer64" : guess.name) else { return nil }
        (type, formats) = (wider, nil)
    }

    /// For values that not all are exact as the type: it has every digit.
    static let decimal = TypeWidening(type: AttributeType.decimal.rawValue, formats: nil)

    private init(type: String, formats: [String]?) { (self.type, self.formats) = (type, formats) }

    private static func format(_ guess: ScalarShape.TypeGuess) -> String? {
        guard let json = guess.members.first(where: { $0.key == "format" })?.json else { return nil }
        return try? ModelDocument(parsing: .init(copying: Array(json.utf8))).root.string
    }

    private static let unixTime = "UnixTime"

    private static func wider(_ attribute: Attribute, _ new: String) -> String? {
        let old = attribute.type
        return switch old {
        case _ where old.rawValue == new: nil
        case .string, .transformable, .binary, .uri: nil
        case .integer16, .integer32, .integer64:
            ["double", "decimal"].contains(new) ? new : new == "integer64" ? nil : "string"
        case .double, .float:
            new == "decimal" ? new : ["integer64", "double"].contains(new) ? nil : "string"
        case .decimal: ["integer64", "double"].contains(new) ? nil : "string"
        // Numbers are seconds since 1970 only where they were before.
        case .date: new == "integer64" && attribute.dateFormats.contains(unixTime) ? nil : "string"
        default: "string"
        }
    }
}
