internal import BrokerJSON
package import BrokerModel

/// Changes of a model, by which it takes new samples.
package struct ModelExtension {
    enum Change {
        case attribute(ImportedModel.Property)
        case relationship(ImportedModel.Property)
        case type(attribute: String, TypeWidening)
        /// It was always null.
        case removal(attribute: String)
        /// A to-one relationship that had several objects.
        case list(relationship: String)
        case identity([String])
        /// All key paths that are ignored.
        case ignored([String])

        /// It leaves all parts of the model as they are.
        var isAddition: Bool {
            switch self {
            case .attribute, .relationship, .ignored: true
            case .type, .removal, .list, .identity: false
            }
        }
    }

    /// In the model's own order; an entity that is new has none.
    private(set) var changes: [(entity: String, change: Change)] = []
    private(set) var new = ImportedModel()

    package var isEmpty: Bool { changes.isEmpty && new.entities.isEmpty && new.mappings.isEmpty }

    /// Whole numbers become doubles, which hold 53 bits of them.
    package var hasDoubles: Bool {
        changes.contains { if case .type(_, let widening) = $0.change { widening.isDouble } else { false } }
    }

    mutating func add(_ change: Change, to entity: String) { changes.append((entity, change)) }
    mutating func add(_ entity: ImportedModel.Entity) { new.entities.append(entity) }
    mutating func addMapping(_ name: String, of entity: String, nestingKey: String) {
        guard !new.mappings.contains(where: { $0.name == name }) else { return }
        new.mappings.append((name, entity, nestingKey))
    }

    /// Without the changes of existing parts of the model.
    package func addingOnly() -> ModelExtension {
        var added = self
        added.changes = changes.filter(\.change.isAddition)
        return added
    }

    /// With decimals instead of other numbers, for attributes whose values would lose digits.
    ///
    /// - Parameter subjects: `Entity.attribute`.
    package func withDecimals(for subjects: Set<String>) -> ModelExtension {
        var exact = self
        exact.changes = changes.map { entity, change in
            guard case .type(let attribute, let widening) = change, widening.isDouble,
                subjects.contains("\(entity).\(attribute)")
            else { return (entity, change) }
            return (entity, .type(attribute: attribute, .decimal))
        }
        return exact
    }

    /// The document with the changes. Its other parts are as they were.
    package func applied(to document: ModelDocument) throws(ModelError) -> ModelDocument {
        let added = try ModelDocument(parsing: JSONText(copying: Array(new.text.utf8))).root
        var document = document
        for (entity, change) in changes {
            let part = ["entities", entity]
            switch change {
            case .attribute(let property): try Self.add(property, to: part + ["attributes"], of: &document.root)
            case .relationship(let property): try Self.add(property, to: part + ["relationships"], of: &document.root)
            case .removal(let attribute): document.root.set(part + ["attributes", attribute], nil)
            case .list(let relationship):
                document.root.set(part + ["relationships", relationship, "toMany"], .made(.bool(true)))
                document.root.set(part + ["relationships", relationship, "assignment"], .made(.string("replace")))
            case .ignored(let paths): document.root.set(part + ["ignore"], .made(paths))
            case .identity(let names): document.root.set(part + ["identity"], .made(names))
            case .type(let attribute, let widening):
                Self.widen(part + ["attributes", attribute], widening, &document.root)
            }
        }
        for kind in ["entities", "mappings"] {
            for member in added[kind]?.members ?? [] { document.root.set([kind, member.key], member.value) }
        }
        return document
    }

    private static func add(
        _ property: ImportedModel.Property, to path: [String], of root: inout ModelValue
    ) throws(ModelError) {
        let text = "{\(ImportedModel.text(property))}"
        let members = try ModelDocument(parsing: JSONText(copying: Array(text.utf8))).root.members
        for member in members { root.set(path + [member.key], member.value) }
    }

    private static func widen(_ path: [String], _ widening: TypeWidening, _ root: inout ModelValue) {
        // The model's reader adds the copies of an identity in owned objects, where they are not written.
        guard let attribute = root.value(at: path) else { return }
        guard attribute.kind == .object else { return root.set(path, .made(.string(widening.type))) }
        root.set(path + ["type"], .made(.string(widening.type)))
        root.set(path + ["format"], nil)
        root.set(path + ["formats"], widening.formats.map { .made($0) })
        guard widening.type != "date" else { return }
        for field in ["storage", "scale", "precision", "timeZone", "min", "max"] { root.set(path + [field], nil) }
    }
}

extension ModelValue {
    fileprivate static func made(_ content: Content) -> ModelValue { ModelValue(content, at: .unknown) }

    fileprivate static func made(_ texts: [String]) -> ModelValue {
        made(.array(texts.map { made(.string($0)) }))
    }

    fileprivate func value(at path: [String]) -> ModelValue? { path.reduce(self) { $0?[$1] } }

    /// Gives a member a value, or removes it; objects on the way are made.
    package mutating func set(_ path: [String], _ value: ModelValue?) {
        guard let key = path.first else { return }
        var members = members
        let index = members.firstIndex { $0.key.hasSameBytes(as: key) }
        if path.count == 1 {
            switch (index, value) {
            case (let index?, let value?): members[index].value = value
            case (let index?, nil): members.remove(at: index)
            case (nil, let value?): members.append(Member(key, at: .unknown, value))
            case (nil, nil): return
            }
        } else if let index {
            members[index].value.set(Array(path.dropFirst()), value)
        } else {
            guard value != nil else { return }
            var inner = ModelValue.made(.object([]))
            inner.set(Array(path.dropFirst()), value)
            members.append(Member(key, at: .unknown, inner))
        }
        content = .object(members)
    }
}
