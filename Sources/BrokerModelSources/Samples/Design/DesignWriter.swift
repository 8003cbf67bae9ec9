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
