/// The meaning of the shapes: identities, dictionaries, and the values of an entity.
final class ShapeReading {
    /// Columns of one table that come from nested objects.
    private static let mostColumns = 1_500

    private var identities: [ObjectIdentifier: IdentityChoice?] = [:]
    /// With the shapes, so that no other one gets their identifier.
    private var maps: [ObjectIdentifier: (shape: ObjectShape, map: ShapeMap?)] = [:]
    private var mapValues: [ObjectIdentifier: (shape: ObjectShape, values: ObjectShape)] = [:]
    /// By entity, the identities that a person named.
    let given: [String: [String]]
    /// By entity, the key paths that a person ignores.
    let ignored: [String: [[String]]]
    let root: ObjectShape
    let rootName: String
    private let isComplete: Bool

    /// The model that the samples extend; nil when there is none.
    let model: KnownModel?
    /// The shapes of the model's entities.
    private var shapes: [Int: ObjectShape] = [:]
    private var assigned: [ObjectIdentifier: Int] = [:]

    /// - Parameter isComplete: the samples are the whole input.
    init(
        _ root: ObjectShape, named name: String, isComplete: Bool, given: [String: [String]],
        ignored: [String: [String]], extending model: KnownModel?
    ) {
        self.ignored = ignored.mapValues { $0.map { $0.split(separator: ".").map(String.init) } }
        self.root = root
        self.model = model
        rootName = name
        self.isComplete = isComplete
        self.given = given
    }

    /// The keys that identify the objects; nil when none do.
    func identity(of shape: ObjectShape, named name: String) -> IdentityChoice? {
        let id = ObjectIdentifier(shape)
        if let known = identities[id] { return known }
        if let model, let entity = assigned[id] {
            let paths = model.identity(of: entity)
            if !paths.isEmpty || !model.model.entities[entity].identity.isEmpty {
                return paths.isEmpty ? nil : IdentityChoice(known: paths)
            }
            guard given[model.model.entities[entity].name] != nil else { return nil }
        }
        let keys = given.first { EntityName.words($0.key) == EntityName.words(name) }?.value
        let choice =
            keys.map { IdentityChoice(given: $0.map { $0.split(separator: ".").map(String.init) }, in: shape) }
            ?? IdentityChoice(
                of: shape, entity: name, at: shape === root ? .records(isComplete: isComplete) : .nested)
        identities[id] = .some(choice)
        return choice
    }

    /// Shapes have more observations now.
    func forget() {
        identities = [:]
    }

    /// The entity of a shape in the model that the samples extend; nil for a new one.
    func known(_ shape: ObjectShape) -> Int? { assigned[ObjectIdentifier(shape)] }

    /// The shape of an entity of that model.
    func shape(of entity: Int) -> ObjectShape? { shapes[entity] }

    func note(_ shape: ObjectShape, _ entity: Int) {
        shapes[entity] = shape
        assigned[ObjectIdentifier(shape)] = entity
    }

    func isOwned(_ shape: ObjectShape) -> Bool { known(shape).map { model?.isOwned($0) ?? false } ?? false }

    func hasEntity(named name: String) -> Bool {
        model?.model.entities.contains { $0.name.lowercased() == name.lowercased() } ?? false
    }

    /// The objects under the keys of a dictionary.
    func mapValues(_ shape: ObjectShape) -> ObjectShape {
        let id = ObjectIdentifier(shape)
        if let known = mapValues[id] { return known.values }
        let values = ShapeMap.values(of: shape)
        mapValues[id] = (shape, values)
        return values
    }

    func setMapValues(_ shape: ObjectShape, _ values: ObjectShape) {
        mapValues[ObjectIdentifier(shape)] = (shape, values)
    }

    func leaves(inside shape: ObjectShape, at path: [String], of entity: Int) -> [ModelLeaf] {
        zip(shape.keys, shape.properties).flatMap { key, property in
            PropertyNames.isNameable(key) ? leaves(at: path + [key], property, of: entity) : []
        }
    }

    private func map(_ shape: ObjectShape) -> ShapeMap? {
        let id = ObjectIdentifier(shape)
        if let known = maps[id] { return known.map }
        let map = ShapeMap(shape)
        maps[id] = (shape, map)
        return map
    }

    /// The values of an entity's objects, those of nested objects without identity among them.
    ///
    /// - Returns: `unnamed` has the keys that no key path can name.
    func leaves(of shape: ObjectShape) -> (leaves: [ModelLeaf], unnamed: [String]) {
        var leaves: [ModelLeaf] = []
        var unnamed: [String] = []
        for (key, property) in zip(shape.keys, shape.properties) {
            guard PropertyNames.isNameable(key) else {
                unnamed.append(key)
                continue
            }
            let found = self.leaves(at: [key], property, of: assigned[ObjectIdentifier(shape)])
            if leaves.count + found.count > Self.mostColumns, found.count > 1 {
                leaves.append(ModelLeaf(path: [key], property: property, form: .json("an object with very many keys")))
            } else {
                leaves += found
            }
        }
        return (leaves, unnamed)
    }

    /// - Parameter entity: the entity in the model that the samples extend.
    private func leaves(at path: [String], _ property: PropertyShape, of entity: Int?) -> [ModelLeaf] {
        if let entity, let model, let part = model.part(at: path, of: entity),
            let leaves = leaves(at: path, property, of: entity, part, model)
        {
            return leaves
        }
        let leaf = { (form: ModelLeaf.Form) in [ModelLeaf(path: path, property: property, form: form)] }
        guard property.hasObjects, let objects = property.objects else {
            if let wrapper = property.wrapper {
                let path = path + [String(decoding: wrapper, as: UTF8.self)]
                return [ModelLeaf(path: path, property: property, form: .attribute)]
            }
            return property.hasLists || property.deepObjects > 0 ? leaf(.json(Self.reason(property))) : leaf(.attribute)
        }
        let name = EntityName.camel(EntityName.singular(EntityName.words(path.last!)))
        guard property.wrapper == nil, property.deepObjects == 0, property.otherLists == 0 else {
            return leaf(.json(Self.reason(property)))
        }
        guard property.scalars.count == 0 else {
            // An object, or its bare key.
            guard let identity = identity(of: objects, named: name), identity.paths.count == 1,
                identity.paths[0].count == 1, let key = objects[identity.paths[0][0]],
                property.scalars.isLike(key.scalars)
            else { return leaf(.json(Self.reason(property))) }
            return leaf(property.hasLists ? .toMany(objects) : .toOne(objects))
        }
        if let map = map(objects) {
            switch map.content {
            case .objects(let isShared) where !property.hasLists:
                return leaf(.map(objects, isShared: isShared))
            default: return leaf(.json("a dictionary, whose keys are values"))
            }
        }
        guard objects.keys.allSatisfy(PropertyNames.isNameable), !objects.keys.isEmpty else {
            return leaf(
                .json(objects.keys.isEmpty ? "objects without keys" : "objects with keys that no path can name"))
        }
        if property.objectLists > 0 { return leaf(.toMany(objects)) }
        if identity(of: objects, named: name) != nil { return leaf(.toOne(objects)) }
        return zip(objects.keys, objects.properties).flatMap { leaves(at: path + [$0], $1, of: entity) }
    }

    static func reason(_ property: PropertyShape) -> String {
        switch (property.hasObjects || property.deepObjects > 0, property.hasLists) {
        case (true, true): "objects and lists of several kinds"
        case (true, false): property.scalars.count > 0 ? "objects and other values" : "deeply nested objects"
        case (false, true):
            property.otherLists == 0
                ? "always an empty list" : property.scalars.count > 0 ? "lists and values" : "lists"
        case (false, false): "several kinds of values"
        }
    }
}
