internal import BrokerJSON
package import BrokerModel

/// A model that was inferred from samples, or what another one lacks for them.
package struct InferenceResult {
    /// A key path of an entity's records.
    package struct Key {
        package let path: String
        /// The reason why the values identify nothing; nil where they may.
        package let nonidentityReason: String?
    }

    /// The inferred model; without meaning where the samples extend another one.
    package let document: ModelDocument
    /// The parts that the model which the samples extend lacks.
    package let `extension`: ModelExtension
    /// By entity, in the order of the model: what identifies its objects, as a sentence.
    package let identities: [(entity: String, text: String)]
    /// The records have values that the model names.
    package let hasValues: Bool
    /// By entity, its values.
    package let keys: [String: [Key]]
    /// The mapping that reads the records, where their entity alone does not.
    package let mapping: String?
    /// By entity of the model whose identity is a guess, how many objects repeat the identity of an earlier one with other
    /// values.
    package let contradictions: [(entity: String, count: Int)]
}

/// Writes a design as a model, or as changes of the model that the samples extend.
struct DesignWriter {
    private let design: ModelDesign
    private let readsTexts: Bool
    private let style: NameStyle?
    /// Names of tables, in lower case.
    private var tables: Set<String>
    /// By entity, the names of the attributes of its identity, and those that the model's reader adds.
    private var identityNames: [[String]] = []
    private var identities: [(entity: String, text: String)] = []
    private var changes = ModelExtension()
    private var contradictions: [(entity: String, count: Int)] = []

    init(_ design: ModelDesign, readsTexts: Bool, _ style: NameStyle?) {
        (self.design, self.readsTexts, self.style) = (design, readsTexts, style)
        let names = design.model?.model.entities.map(\.table) ?? design.entities.map(\.name)
        tables = Set(names.map { $0.lowercased() })
    }

    consuming func result(of count: Int) -> InferenceResult {
        let root = design.entities[0]
        for entity in design.entities {
            if let known = entity.shape.known, let model = design.model {
                extend(known, of: model, by: entity)
            } else {
                write(entity)
            }
        }
        let known = root.shape.known.flatMap { design.model?.keyMapping(of: $0) }
        let mapping = root.isNested ? known ?? addMapping(of: root) : nil
        var empty = DocumentWriter()
        empty.add(
            "description",
            "Inferred by broker from \(count) record\(count == 1 ? "" : "s") of \(root.name). What is said here of "
                + "each part is a guess: change what is wrong before much is stored.")
        empty.add("evolve", ["columns"])
        empty.add("readableViews", false)
        empty.add("entities", DocumentWriter().object)
        return InferenceResult(
            document: changes.applied(to: ModelDocument(root: empty.object, sources: [""])), extension: changes,
            identities: identities, hasValues: root.isNested || !root.leaves.isEmpty && !root.isDictionary, keys: keys,
            mapping: mapping,
            contradictions: contradictions)
    }

    private var keys: [String: [InferenceResult.Key]] {
        Dictionary(
            uniqueKeysWithValues: design.entities.map { entity in
                let keys = entity.leaves.map { leaf in
                    var reason = leaf.property.nonidentityReason(among: entity.shape.count)
                    if reason == nil, case .json(let form) = leaf.form { reason = "its values are \(form)" }
                    return InferenceResult.Key(path: leaf.name, nonidentityReason: reason)
                }
                return (entity.name, keys)
            })
    }

    /// The attribute that has the hash of a record.
    private static let contentName = "_content"

    /// The name of an entity's table, which SQL says without quotes; nil for that of the entity.
    private mutating func table(for name: String) -> String? {
        var table = style?.table(of: name) ?? name
        if EntityName.isReserved(table) { table = style == .plural ? table + "_" : EntityName.plural(table) }
        guard table != name else { return nil }
        if tables.contains(table.lowercased()), table.lowercased() != name.lowercased() { table += "_" }
        tables.insert(table.lowercased())
        return table
    }

    /// The attribute that has the key of a dictionary.
    private static let nestingKey = "key"

    /// Adds the mapping that reads an entity's objects by their keys, and returns its name.
    private mutating func addMapping(of entity: ModelDesign.Entity) -> String {
        let name = "\(entity.name) by key"
        var writer = DocumentWriter()
        writer.add("entity", entity.name)
        writer.add("nestingKey", Self.nestingKey)
        writer.add("collection", true)
        changes.set(["mappings", name], writer.object)
        return name
    }

    private mutating func write(_ source: ModelDesign.Entity) {
        var (attributes, relationships) = (DocumentWriter(), DocumentWriter())
        var names = PropertyNames(reserved: reserved(for: source))
        var identity: [String] = []
        if source.identity?.isContent ?? false {
            identity = [Self.contentName]
            var attribute = DocumentWriter()
            attribute.add("type", "string")
            attribute.add("key", paths: [HolderValue.content.path])
            attribute.add("description", "a hash of all that the record contains")
            attributes.add(Self.contentName, attribute.object)
        }
        if source.isNested {
            let name = names.name(for: [Self.nestingKey])
            if source.identity != nil { identity = [name] }
            var attribute = DocumentWriter()
            attribute.add("type", "string")
            // An answer has the key as such a member, unless the objects have one of their own.
            if source.shape[Self.nestingKey] != nil { attribute.add("key", [String]()) }
            attribute.add("description", "the key under which each object is")
            attributes.add(name, attribute.object)
        }
        let paths = source.isNested ? [] : source.identity?.paths ?? []
        var named: [String?] = paths.map { _ in nil }
        for (position, leaf) in source.leaves.enumerated() {
            let name = names.name(for: leaf.path)
            if let column = paths.firstIndex(of: leaf.path) { named[column] = name }
            if let destination = source.destinations[position] {
                relationships.add(name, relationship(name, leaf, source, design.entities[destination]))
            } else {
                attributes.add(name, attribute(name, leaf, source, isIdentity: paths.contains(leaf.path)))
            }
        }
        identity += named.compactMap { $0 }
        if case .owned(let owner) = source.kind {
            let parents = identityNames[owner].map { "parent_\($0)" }
            identityNames.append(parents.isEmpty ? [] : parents + (identity.isEmpty ? ["position"] : identity))
        } else {
            identityNames.append(identity)
        }
        let sentence = self.sentence(source, identity)
        let table = table(for: source.name)
        let place = style == nil ? table.map { "; its table is \($0)" } ?? "" : ""
        identities.append((source.name, sentence + place))
        var text = "Seen \(source.shape.count) times. \(sentence.prefix(1).uppercased())\(sentence.dropFirst())."
        if source.shape.further != nil { text += " Its further keys are not in the model." }
        var entity = DocumentWriter()
        entity.add("description", text)
        entity.add("table", table)
        if identity.count == 1 { entity.add("identity", identity[0]) }
        if identity.count > 1 { entity.add("identity", identity) }
        if source.identity?.isGuessed ?? false { entity.add("identityGuessed", true) }
        if !source.ignored.isEmpty { entity.add("ignore", KeyPathForm.list(source.ignored)) }
        entity.add("extra", true)
        entity.add("attributes", nonEmpty: attributes)
        entity.add("relationships", nonEmpty: relationships)
        changes.set(["entities", source.name], entity.object)
    }

    /// The names that the model's reader gives to parts of an owned entity.
    private func reserved(for source: ModelDesign.Entity) -> [String] {
        guard case .owned(let owner) = source.kind else { return [Self.contentName] }
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
        case (_, nil) where design.isAppended(source):
            return "each run adds its records again, as --identity none says"
        case (.records, nil):
            let candidate = source.leaves.first { leaf in
                guard case .attribute = leaf.form, leaf.property.mayIdentify else { return false }
                return source.shape.isWithoutRepetition(leaf.path[0])
            }
            let key = candidate.map { "--identity \($0.name.shellQuoted), " } ?? ""
            return "nothing identifies its objects, so each run adds its records again; to change that: "
                + "\(key)--identity content; --append says that it is meant"
        case (_, nil):
            return "nothing identifies its objects, so each run adds them again"
        }
    }

    // MARK: - Properties

    /// - Returns: the objects that lack the value or have null, and the same as a part of a sentence.
    private func presence(_ leaf: ModelLeaf, _ source: ModelDesign.Entity) -> (missing: Int, text: String) {
        let (property, count) = (leaf.property, source.shape.count)
        let missing = max(0, count - property.count + property.nulls)
        return (missing, missing == 0 ? "in all \(count)" : "missing or null in \(missing) of \(count)")
    }

    private func attribute(
        _ name: String, _ leaf: ModelLeaf, _ source: ModelDesign.Entity, isIdentity: Bool
    ) -> ModelValue {
        let (missing, presence) = presence(leaf, source)
        let guess = leaf.type(readsTexts: readsTexts, isIdentity: isIdentity)
        var writer = DocumentWriter()
        guess.add(to: &writer)
        if leaf.paths != [[name]] { writer.add("key", paths: leaf.paths) }
        if missing > 0, !isIdentity { writer.add("optional", true) }
        let title = leaf.name.utf8.count > ModelLimits.longestName ? "\(leaf.name): " : ""
        writer.add("description", title + (guess.reason.isEmpty ? presence : "\(presence); \(guess.reason)"))
        return writer.object
    }

    private mutating func relationship(
        _ name: String, _ leaf: ModelLeaf, _ source: ModelDesign.Entity, _ destination: ModelDesign.Entity
    ) -> ModelValue {
        var writer = DocumentWriter()
        writer.add("entity", destination.name)
        var (kind, isToMany) = ("an object", false)
        switch leaf.form {
        case .toMany: (kind, isToMany) = ("an array of objects", true)
        case .map:
            (kind, isToMany) = ("objects by their keys", true)
            writer.add("mapping", addMapping(of: destination))
        default: break
        }
        if isToMany { writer.add("toMany", true) }
        if case .owned = destination.kind {
            writer.add("owned", true)
        } else if isToMany {
            writer.add("assignment", "replace")
        }
        if leaf.paths != [[name]] { writer.add("key", paths: leaf.paths) }
        writer.add("description", "\(kind), \(presence(leaf, source).text)")
        return writer.object
    }

    // MARK: - Extending

    /// Adds what an entity of a model lacks for the samples.
    private mutating func extend(_ index: Int, of known: KnownModel, by source: ModelDesign.Entity) {
        let model = known.model
        let entity = model.entities[index]
        let path = ["entities", entity.name]
        identityNames.append(entity.identity.map { entity.attributes[$0].name })
        var removed: Set<String> = []
        for leaf in source.leaves {
            guard case .attribute(let attribute)? = known.part(at: leaf.path, of: index),
                leaf.property.count > leaf.property.nulls, known.isPlaceholder(attribute, of: index)
            else { continue }
            removed.insert(entity.attributes[attribute].name)
            changes.set(path + ["attributes", entity.attributes[attribute].name], nil, isAddition: false)
        }
        if entity.isIdentityGuessed, design.isGiven(source) {
            // A person has said so now.
            changes.set(path + ["identityGuessed"], nil)
        } else if entity.isIdentityGuessed {
            let identity = entity.identity.map { entity.attributes[$0].recordPaths }
            contradictions.append((entity.name, source.shape.contradictions(of: identity)))
        }
        var names = PropertyNames(
            reserved: entity.attributeNames.filter { !removed.contains($0) } + entity.relationshipNames)
        var identity: [String] = []
        for (position, leaf) in source.leaves.enumerated() {
            switch known.part(at: leaf.path, of: index) {
            case .attribute(let attribute)? where !removed.contains(entity.attributes[attribute].name):
                if source.identity?.paths.contains(leaf.path) ?? false {
                    identity.append(entity.attributes[attribute].name)
                }
                extend(attribute, of: index, by: leaf, in: model)
            case .relationship(let relationship)?:
                let relationship = entity.relationships[relationship]
                // One object became several.
                if case .toMany = leaf.form, !relationship.isToMany {
                    let path = path + ["relationships", relationship.name]
                    changes.set(path + ["toMany"], ModelValue(.bool(true), at: .unknown), isAddition: false)
                    changes.set(path + ["assignment"], .text("replace"), isAddition: false)
                }
            default:
                let name = names.name(for: leaf.path)
                if let destination = source.destinations[position] {
                    let value = relationship(name, leaf, source, design.entities[destination])
                    changes.set(path + ["relationships", name], value)
                } else {
                    changes.set(path + ["attributes", name], attribute(name, leaf, source, isIdentity: false))
                }
            }
        }
        let ignored = source.ignored.filter { !entity.ignoredPaths.contains($0) }
        if !ignored.isEmpty {
            changes.set(path + ["ignore"], KeyPathForm.list(entity.ignoredPaths + ignored))
        }
        if entity.identity.isEmpty, !identity.isEmpty {
            changes.set(path + ["identity"], ModelValue(identity), isAddition: false)
        }
    }

    /// Adds the key paths that an attribute of a model lacks, and widens its type.
    private mutating func extend(_ index: Int, of entity: Int, by leaf: ModelLeaf, in model: Model) {
        let attribute = model.entities[entity].attributes[index]
        let new = leaf.paths.filter { !attribute.keyPaths.contains($0) }
        if !new.isEmpty {
            // The value in a wrapper is preferred to the wrapper.
            let paths = new.reduce(into: attribute.keyPaths) { paths, path in
                paths.insert(path, at: paths.firstIndex { path.starts(with: $0) } ?? paths.endIndex)
            }
            changes.set(
                ["entities", model.entities[entity].name, "attributes", attribute.name, "key"],
                KeyPathForm.value(paths), isAddition: false)
        }
        let isIdentity = model.entities[entity].identity.contains(index)
        // An identity has the texts that were sent, or integers that can become such.
        if let widening = TypeWidening(of: attribute, by: leaf.type(readsTexts: readsTexts, isIdentity: isIdentity)),
            !isIdentity || attribute.type.isInteger && widening.type == .string
        {
            widen(attribute.name, of: entity, by: widening, in: model)
        }
    }

    /// Gives an attribute a wider type, and with it the copies of an identity in owned objects.
    private mutating func widen(_ attribute: String, of entity: Int, by widening: TypeWidening, in model: Model) {
        changes.widen(attribute, of: model.entities[entity].name, by: widening)
        for (owned, owner) in model.holders.owners where owner.entity == entity {
            for copy in model.entities[owned].attributes where copy.keyPaths.contains(["@parent", attribute]) {
                widen(copy.name, of: owned, by: widening, in: model)
            }
        }
    }
}

extension ModelLeaf {
    /// The key path as a model says it.
    fileprivate var name: String { path.joined(separator: ".") }

    /// The type of the values. JSON may be anything, and an identity has the texts that were sent.
    fileprivate func type(readsTexts: Bool, isIdentity: Bool) -> TypeGuess {
        if case .json(let reason) = form { return TypeGuess(.transformable, "\(reason), stored as JSON") }
        let key = path.contains("$date") ? "date" : path.last { !$0.hasPrefix("$") } ?? path.last!
        let texts = readsTexts || path.contains { $0.hasPrefix("$number") }
        guard isIdentity else { return property.scalars.type(key: key, readsTexts: readsTexts) }
        return TypeGuess(property.scalars.keyType(key: key, readsTexts: texts), "identifies, as it was sent")
    }
}

extension String {
    /// As a shell reads it.
    fileprivate var shellQuoted: String {
        let isPlain =
            !isEmpty
            && unicodeScalars.allSatisfy {
                $0.isASCII && ($0.properties.isAlphabetic || ".-_/@:0123456789".unicodeScalars.contains($0))
            }
        return isPlain
            ? self : "'" + split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }
}

/// Changes of a model, by which it takes new samples.
package struct ModelExtension {
    enum Change {
        /// A part of the document gets a value, or is removed.
        case value(path: [String], ModelValue?, isAddition: Bool)
        case type(entity: String, attribute: String, TypeWidening)

        /// It leaves all parts of the model as they are.
        var isAddition: Bool { if case .value(_, _, true) = self { true } else { false } }
    }

    /// In the model's own order.
    private(set) var changes: [Change] = []

    package var isEmpty: Bool { changes.isEmpty }

    /// Whole numbers become doubles, which hold 53 bits of them.
    package var hasDoubles: Bool {
        changes.contains { if case .type(_, _, let widening) = $0 { widening.type == .double } else { false } }
    }

    package init() {}

    mutating func set(_ path: [String], _ value: ModelValue?, isAddition: Bool = true) {
        changes.append(.value(path: path, value, isAddition: isAddition))
    }

    mutating func widen(_ attribute: String, of entity: String, by widening: TypeWidening) {
        changes.append(.type(entity: entity, attribute: attribute, widening))
    }

    /// The attributes that it adds to an entity. What would be a relationship is JSON.
    package func attributes(of entity: String, where isWanted: (String) -> Bool) -> ModelExtension {
        var added = ModelExtension()
        for case .value(let path, let value?, true) in changes {
            guard path.count == 4, path[1] == entity, isWanted(path[3]) else { continue }
            if path[2] == "attributes" { added.set(path, value) }
            guard path[2] == "relationships" else { continue }
            let name = path[3]
            var attribute = DocumentWriter()
            attribute.add("type", AttributeType.transformable.rawValue)
            attribute.add("description", "objects, or lists of them, stored as JSON")
            var object = attribute.object
            if let key = value["key"] { object.set(["key"], key) }
            added.set(["entities", entity, "attributes", name], object)
        }
        return added
    }

    package func prefix(_ count: Int) -> ModelExtension {
        var first = self
        first.changes = Array(changes.prefix(max(0, count)))
        return first
    }

    package mutating func add(_ other: ModelExtension) { changes += other.changes }

    /// Adds `extra` to the entities of a model that have none.
    package mutating func addExtra(to model: Model) {
        for entity in model.entities where entity.extra == nil && entity.parent == nil {
            set(["entities", entity.name, "extra"], ModelValue(.bool(true), at: .unknown))
        }
    }

    /// Without other types of existing attributes.
    package func retainingTypes() -> ModelExtension {
        var added = self
        added.changes.removeAll { if case .type = $0 { true } else { false } }
        return added
    }

    /// Without the changes of existing parts of the model.
    package func addingOnly() -> ModelExtension {
        var added = self
        added.changes.removeAll { !$0.isAddition }
        return added
    }

    /// With decimals instead of other numbers, for attributes whose values would lose digits.
    ///
    /// - Parameter subjects: `Entity.attribute`.
    package func withDecimals(for subjects: Set<String>) -> ModelExtension {
        var exact = self
        exact.changes = changes.map { change in
            guard case .type(let entity, let attribute, let widening) = change, widening.type == .double,
                subjects.contains("\(entity).\(attribute)")
            else { return change }
            return .type(entity: entity, attribute: attribute, .decimal)
        }
        return exact
    }

    /// The document with the changes. Its other parts are as they were.
    package func applied(to document: ModelDocument) -> ModelDocument {
        var document = document
        for change in changes {
            switch change {
            case .value(let path, let value, _): document.root.set(path, value)
            case .type(let entity, let attribute, let widening):
                widening.apply(at: ["entities", entity, "attributes", attribute], to: &document.root)
            }
        }
        return document
    }
}

/// A type that takes an attribute's values and those of new samples.
struct TypeWidening {
    let type: AttributeType
    /// All formats of a date; nil where they do not change.
    private let formats: [String]?

    /// - Returns: nil when the attribute takes the samples as it is.
    init?(of attribute: Attribute, by guess: TypeGuess) {
        if attribute.type == .transformable || guess.reason.contains(ScalarShape.alwaysNull) { return nil }
        if attribute.type.isDate, guess.type == attribute.type {
            guard let new = guess.format, !attribute.dateFormats.contains(new) else { return nil }
            self.init(guess.type, formats: attribute.dateFormats + [new])
            return
        }
        var type = guess.format == TypeGuess.unixTime ? .integer64 : guess.type
        if type == .integer64, guess.hasBigIntegers, attribute.type == .double { type = .decimal }
        guard let wider = type == .transformable ? type : Self.wider(attribute, type) else { return nil }
        self.init(wider)
    }

    /// For values that not all are exact as the type: it has every digit.
    static let decimal = TypeWidening(.decimal)

    private init(_ type: AttributeType, formats: [String]? = nil) { (self.type, self.formats) = (type, formats) }

    private static func wider(_ attribute: Attribute, _ new: AttributeType) -> AttributeType? {
        switch attribute.type {
        case new, .string, .transformable, .binary, .uri: nil
        case .integer16, .integer32, .integer64:
            new == .double || new == .decimal ? new : new == .integer64 ? nil : .string
        case .double, .float: new == .decimal ? new : new == .integer64 || new == .double ? nil : .string
        case .decimal: new == .integer64 || new == .double ? nil : .string
        // Numbers are seconds since 1970 only where they were before.
        case .date: new == .integer64 && attribute.dateFormats.contains(TypeGuess.unixTime) ? nil : .string
        default: .string
        }
    }

    fileprivate func apply(at path: [String], to root: inout ModelValue) {
        // The model's reader adds the copies of an identity in owned objects, where they are not written.
        guard let attribute = root.value(at: path) else { return }
        guard attribute.kind == .object else { return root.set(path, .text(type.rawValue)) }
        root.set(path + ["type"], .text(type.rawValue))
        root.set(path + ["format"], nil)
        root.set(path + ["formats"], formats.map { ModelValue($0) })
        guard type != .date else { return }
        for field in ["storage", "scale", "precision", "timeZone", "min", "max"] { root.set(path + [field], nil) }
    }
}
