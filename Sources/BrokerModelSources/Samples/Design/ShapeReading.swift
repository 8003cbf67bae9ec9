internal import BrokerJSON

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

/// A value of an entity's objects: at a key of theirs, or inside of objects that are nested in them.
struct ModelLeaf {
    enum Form {
        case attribute
        /// Stored as JSON, and why.
        case json(String)
        case toOne(ObjectShape)
        case toMany(ObjectShape)
        /// A dictionary of objects.
        case map(ObjectShape, isShared: Bool)
    }

    let path: [String]
    let property: PropertyShape
    var form: Form

    /// The shape of a relationship's objects, or that of the dictionary with them.
    var objects: ObjectShape? {
        switch form {
        case .attribute, .json: nil
        case .toOne(let shape), .toMany(let shape), .map(let shape, _): shape
        }
    }

    var isMap: Bool { if case .map = form { true } else { false } }
}

/// An object whose keys are values: `{"afn": {…}, "aed": {…}}`.
struct ShapeMap {
    enum Content {
        /// The objects under the keys.
        case objects(isShared: Bool)
        /// Plain values, or values of several kinds.
        case values
    }

    let content: Content

    private static let leastLikeness = 0.5
    /// Keys of a single object that cannot be names of properties, because there are so many.
    private static let leastKeys = 8
    /// The same for keys that look like identifiers.
    private static let leastCodes = 3
    /// For plain values: a table may have so many columns.
    private static let leastValues = 40
    private static let mostFilled = 0.5
    /// Objects of equal keys that are equal by chance prove nothing.
    private static let leastRepetitions = 3
    private static let leastShared = 0.2

    /// - Returns: nil for an object with the properties of an entity.
    init?(_ shape: ObjectShape) {
        let (count, keys) = (shape.count, shape.keys.count)
        guard keys > 0, count > 0 else { return nil }
        let filled = Double(shape.properties.reduce(0) { $0 + $1.count }) / Double(count * keys)
        let isMany = shape.further != nil
        let isSparse = count > 2 && filled < Self.mostFilled
        let areCodes = keys >= Self.leastCodes && shape.keys.allSatisfy(Self.isCode)
        if shape.properties.allSatisfy({ $0.isObjects && !$0.hasLists }) {
            let isLike = Self.likeness(shape) >= Self.leastLikeness
            let isMap = isMany || areCodes || (isSparse ? keys >= 5 : count <= 2 && keys >= Self.leastKeys)
            guard isMap, isLike else {
                guard isMany else { return nil }
                content = .values
                return
            }
            // Objects of one key in several parents are the same, as far as was seen.
            let repeated = shape.properties.filter { $0.count > 1 }
            let repetitions = repeated.reduce(0) { $0 + $1.count - 1 }
            let all = shape.properties.reduce(0) { $0 + $1.count }
            let isShared =
                repetitions >= Self.leastRepetitions && Double(repetitions) >= Self.leastShared * Double(all)
                && repeated.allSatisfy { property in
                    guard let objects = property.objects else { return false }
                    return objects.rows.isConstant && !objects.properties.contains(where: \.hasObjects)
                }
            content = .objects(isShared: isShared)
            return
        }
        guard isMany || keys >= Self.leastValues && (isSparse || count <= 2) else { return nil }
        content = .values
    }

    /// The objects under all keys together. Their shapes are merged, so this must be done once.
    static func values(of shape: ObjectShape) -> ObjectShape {
        let all = ObjectShape(
            depth: shape.depth + 1, isSingle: false, readsTexts: shape.readsTexts, budget: shape.rows.budget)
        for property in shape.properties + [shape.further].compactMap({ $0 }) {
            if let objects = property.objects { all.merge(objects) }
        }
        return all
    }

    /// Digits, or a code such as `USD`, a UUID, a version.
    private static func isCode(_ key: String) -> Bool {
        guard !key.isEmpty, key.utf8.allSatisfy({ $0 < 0x80 }) else { return false }
        let hasDigit = key.utf8.contains { (0x30...0x39).contains($0) }
        let hasLower = key.utf8.contains { (0x61...0x7A).contains($0) }
        return hasDigit && !hasLower || hasDigit && key.utf8.count >= 16
            || (!hasLower && (2...4).contains(key.utf8.count))
    }

    /// The mean proportion of the properties that each value has.
    private static func likeness(_ shape: ObjectShape) -> Double {
        var counts: [String: Int] = [:]
        var all = 0
        for property in shape.properties {
            guard let objects = property.objects else { continue }
            all += 1
            for key in objects.keys { counts[key, default: 0] += 1 }
        }
        guard all > 0, !counts.isEmpty else { return 0 }
        let usual = counts.values.filter { Double($0) >= Double(all) * leastLikeness }
        // Most values have the usual keys, and there are some.
        return usual.isEmpty ? 0 : Double(usual.reduce(0, +)) / Double(usual.count * all)
    }
}
