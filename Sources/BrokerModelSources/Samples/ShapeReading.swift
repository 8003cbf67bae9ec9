internal import BrokerModel

/// The meaning of the shapes: identities, dictionaries, and the values of an entity.
final class ShapeReading {
    /// Columns of one table that come from nested objects.
    private static let mostColumns = 1_500

    private var identities: [ObjectIdentifier: IdentityChoice?] = [:]
    /// By entity, the identities that a person named.
    private let given: [String: [String]]
    /// By entity, the key paths that a person ignores.
    private let ignored: [String: [String]]
    let root: ObjectShape
    let rootName: String

    /// The model that the samples extend; nil when there is none.
    let model: KnownModel?
    /// The shapes of the model's entities.
    private var shapes: [Int: ObjectShape] = [:]

    init(
        _ root: ObjectShape, named name: String, given: [String: [String]], ignored: [String: [String]],
        extending model: KnownModel?
    ) {
        self.ignored = ignored
        self.root = root
        self.model = model
        rootName = name
        self.given = given
    }

    /// The keys that identify the objects; nil when none do.
    func identity(of shape: ObjectShape, named name: String) -> IdentityChoice? {
        let id = ObjectIdentifier(shape)
        if let known = identities[id] { return known }
        if let model, let entity = shape.known {
            let paths = model.identity(of: entity)
            if !paths.isEmpty { return IdentityChoice(known: paths) }
            let entity = model.model.entities[entity]
            guard entity.identity.isEmpty, given[entity.name] != nil else { return nil }
        }
        let keys = given.first { EntityName.words($0.key) == EntityName.words(name) }?.value
        let choice: IdentityChoice? =
            switch keys {
            case nil: IdentityChoice.guess(of: shape, entity: name, areRecords: shape === root)
            case [GivenIdentity.none]: nil
            case [GivenIdentity.content]: .content
            case let keys?: IdentityChoice(given: keys.map { shape.path(named: $0) }, in: shape)
            }
        identities[id] = .some(choice)
        return choice
    }

    /// A person names the identity of the entity.
    func isGiven(_ name: String) -> Bool { given[name] != nil }

    /// A person says that each record is a new object.
    func isAppended(_ name: String) -> Bool { given[name] == [GivenIdentity.none] }

    /// The key paths of an entity that a person ignores.
    func ignored(of name: String, _ shape: ObjectShape) -> [[String]] {
        ignored[name]?.map { shape.path(named: $0) } ?? []
    }

    /// Shapes have more observations now.
    func forget() { identities = [:] }

    private func note(_ shape: ObjectShape, _ entity: Int) {
        shapes[entity] = shape
        shape.known = entity
    }

    func isOwned(_ shape: ObjectShape) -> Bool { shape.known.map { model?.isOwned($0) ?? false } ?? false }

    func hasEntity(named name: String) -> Bool {
        model?.model.entities.contains { $0.name.lowercased() == name.lowercased() } ?? false
    }

    /// The values of an entity's objects, those of nested objects without identity among them.
    func leaves(of shape: ObjectShape) -> [ModelLeaf] {
        var leaves: [ModelLeaf] = []
        // What a fetch prints of `_extra` goes there again.
        for (key, property) in zip(shape.keys, shape.properties) where shape.known != nil || key != Attribute.extraName
        {
            let found = self.leaves(at: [key], property, of: shape.known)
            if leaves.count + found.count > Self.mostColumns, found.count > 1 {
                leaves.append(ModelLeaf(path: [key], property: property, form: .json("an object with very many keys")))
            } else {
                leaves += found
            }
        }
        return leaves
    }

    private func leaves(at path: [String], _ property: PropertyShape, of entity: Int?) -> [ModelLeaf] {
        if let entity, let model, let part = model.part(at: path, of: entity),
            let leaves = leaves(at: path, property, of: entity, part, model)
        {
            return leaves
        }
        let leaf = { (form: ModelLeaf.Form) in [ModelLeaf(path: path, property: property, form: form)] }
        if path.count == 1, HolderValue.isReserved(path[0]), property.hasObjects || !property.wrappers.isEmpty {
            return leaf(.json("objects under a key of Broker's own"))
        }
        guard property.hasObjects, let objects = property.objects else {
            return property.hasLists || property.deepObjects > 0
                ? leaf(.json(property.jsonReason)) : [ModelLeaf(wrappedIn: property, at: path)]
        }
        let name = EntityName.camel(EntityName.singular(EntityName.words(path.last!)))
        guard property.wrappers.isEmpty, property.deepObjects == 0, property.otherLists == 0,
            property.objectLists > 0 || property.emptyLists == 0
        else {
            return leaf(.json(property.jsonReason))
        }
        guard property.scalars.count == 0 else {
            // An object, or its bare key.
            guard let identity = identity(of: objects, named: name), identity.paths.count == 1,
                let key = objects.property(at: identity.paths[0]),
                property.scalars.isLike(key.scalars)
            else { return leaf(.json(property.jsonReason)) }
            return leaf(property.hasLists ? .toMany(objects) : .toOne(objects))
        }
        switch objects.map {
        case .objects(let isShared)? where !property.hasLists: return leaf(.map(objects, isShared: isShared))
        case .objects?, .values?: return leaf(.json("a dictionary, whose keys are values"))
        case nil: break
        }
        guard !objects.keys.isEmpty else { return leaf(.json("objects without keys")) }
        if property.objectLists > 0 { return leaf(.toMany(objects)) }
        if identity(of: objects, named: name) != nil { return leaf(.toOne(objects)) }
        return zip(objects.keys, objects.properties).flatMap { leaves(at: path + [$0], $1, of: entity) }
    }

    // MARK: - By the model that the samples extend

    /// The values at a path that the model has; nil where it may become something else.
    private func leaves(
        at path: [String], _ property: PropertyShape, of entity: Int, _ part: KnownModel.Part, _ model: KnownModel
    ) -> [ModelLeaf]? {
        let leaf = { (form: ModelLeaf.Form) in ModelLeaf(path: path, property: property, form: form) }
        switch part {
        case .ignored: return []
        case .attribute(let index):
            if model.isPlaceholder(index, of: entity) { return property.count == property.nulls ? [] : nil }
            // No path leads through a key of Broker's own.
            let isJSON =
                property.hasObjects || property.hasLists || property.deepObjects > 0
                || !property.wrappers.isEmpty && HolderValue.isReserved(path[0])
            if isJSON { return [leaf(.json(property.jsonReason))] }
            let others = property.paths(at: path).filter { $0 != path }
            return [ModelLeaf(path: path, others: others, property: property, form: .attribute)]
        case .relationship(let index):
            guard property.hasObjects, let objects = property.objects else { return [] }
            let relationship = model.model.entities[entity].relationships[index]
            if model.isMapped(relationship) { return [leaf(.map(objects, isShared: true))] }
            return [leaf(relationship.isToMany || property.hasLists ? .toMany(objects) : .toOne(objects))]
        case .inside:
            if !property.wrappers.isEmpty, !property.hasObjects, !property.hasLists {
                return [ModelLeaf(wrappedIn: property, at: path)]
            }
            var leaves: [ModelLeaf] = []
            if property.hasLists || property.scalars.count > 0 { leaves.append(leaf(.json(property.jsonReason))) }
            guard property.singleObjects > 0, let objects = property.objects else { return leaves }
            for (key, inner) in zip(objects.keys, objects.properties) {
                leaves += self.leaves(at: path + [key], inner, of: entity)
            }
            return leaves
        }
    }

    /// The shape of the objects of an entity that the model has and the samples do not know as such.
    func match(for shape: ObjectShape, stem: String, named name: String) -> Int? {
        guard let model, shape !== root, shape.known == nil, let identity = identity(of: shape, named: name) else {
            return nil
        }
        return model.entity(like: shape, stem: stem, identity: identity.paths)
    }

    func assignRoot() {
        if let entity = model?.model.index(ofEntity: rootName) { assign(root, to: entity) { _ in } }
    }

    /// Makes a shape that of an entity of the model, with those that its relationships lead to.
    ///
    /// - Parameter redirect: called with the shape that the entity has already, which gets the observations.
    func assign(_ shape: ObjectShape, to entity: Int, _ redirect: (ObjectShape) -> Void) {
        var work = [(shape, entity)]
        if let kept = shapes[entity], kept !== shape {
            redirect(kept)
            kept.merge(shape)
            work = [(kept, entity)]
        } else {
            note(shape, entity)
        }
        var next = 0
        while next < work.count {
            let (shape, entity) = work[next]
            next += 1
            walk(shape, entity, [], &work)
        }
        forget()
    }

    private func walk(_ shape: ObjectShape, _ entity: Int, _ path: [String], _ work: inout [(ObjectShape, Int)]) {
        guard let model else { return }
        for (key, property) in zip(shape.keys, shape.properties) {
            guard let objects = property.objects, let part = model.part(at: path + [key], of: entity) else { continue }
            switch part {
            case .attribute, .ignored: break
            case .inside: walk(objects, entity, path + [key], &work)
            case .relationship(let index):
                let relationship = model.model.entities[entity].relationships[index]
                let isMapped = model.isMapped(relationship)
                let values = isMapped ? objects.mapValues : objects
                guard let kept = shapes[relationship.destination] else {
                    note(values, relationship.destination)
                    work.append((values, relationship.destination))
                    continue
                }
                guard kept !== values else { continue }
                kept.merge(values)
                if isMapped { objects.mapValues = kept } else { property.redirect(to: kept) }
                work.append((kept, relationship.destination))
            }
        }
    }
}

extension PropertyShape {
    /// Why the values are stored as JSON.
    fileprivate var jsonReason: String {
        switch (hasObjects || deepObjects > 0, hasLists) {
        case (true, true): "objects and lists of several kinds"
        case (true, false): scalars.count > 0 ? "objects and other values" : "deeply nested objects"
        case (false, true): otherLists == 0 ? "always an empty list" : scalars.count > 0 ? "lists and values" : "lists"
        case (false, false): "several kinds of values"
        }
    }
}

/// Words in the place of the keys that identify.
package enum GivenIdentity {
    /// Each record is a new object.
    package static let none = "none"
    /// A record is identified by all that it contains.
    package static let content = "content"
}

extension ObjectShape {
    /// The key path that a text names: a key that is written so, or keys with dots between them.
    func path(named text: String) -> [String] { index(of: text) == nil ? text.keyPath : [text] }

    /// The values at a path, also at one that leads through wrappers.
    func property(at path: [String]) -> PropertyShape? {
        guard let first = path.first, let property = self[first] else { return nil }
        let rest = Array(path.dropFirst())
        return rest.isEmpty || property.wrappers.contains(rest) ? property : property.objects?.property(at: rest)
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

    /// The preferred key path first.
    let paths: [[String]]
    let property: PropertyShape
    var form: Form

    var path: [String] { paths[0] }

    init(path: [String], others: [[String]] = [], property: PropertyShape, form: Form) {
        (paths, self.property, self.form) = ([path] + others, property, form)
    }

    /// The value in objects with one key that begins with `$`, or beside such objects.
    init(wrappedIn property: PropertyShape, at path: [String]) {
        (paths, self.property, form) = (property.paths(at: path), property, .attribute)
    }

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
enum ShapeMap {
    /// The objects under the keys.
    case objects(isShared: Bool)
    /// Plain values, or values of several kinds.
    case values

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
        let areObjects = shape.properties.allSatisfy { $0.isObjects && !$0.hasLists }
        let isMap = isMany || areCodes || (isSparse ? keys >= 5 : count <= 2 && keys >= Self.leastKeys)
        guard areObjects, isMap, Self.likeness(shape) >= Self.leastLikeness else {
            let areMany = !areObjects && keys >= Self.leastValues && (isSparse || count <= 2)
            guard isMany || areMany else { return nil }
            self = .values
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
        self = .objects(isShared: isShared)
    }

    /// One object with very many keys that are codes or versions.
    static func isDictionary(_ shape: ObjectShape) -> Bool {
        shape.count == 1 && shape.keys.count >= leastValues
            && shape.keys.allSatisfy { isCode($0) || $0.first?.isNumber ?? false }
    }

    /// Digits, or a code such as `USD`, a UUID, a version.
    private static func isCode(_ key: String) -> Bool {
        guard !key.isEmpty, key.utf8.allSatisfy({ $0 < 0x80 }) else { return false }
        let hasDigit = key.utf8.contains { (0x30...0x39).contains($0) }
        let hasLower = key.utf8.contains { (0x61...0x7A).contains($0) }
        return hasDigit && !hasLower || hasDigit && key.utf8.count >= 16
            || (!hasLower && (2...4).contains(key.utf8.count))
    }

    /// The mean proportion of the usual properties that each value has.
    private static func likeness(_ shape: ObjectShape) -> Double {
        let objects = shape.properties.compactMap(\.objects)
        var counts: [String: Int] = [:]
        for key in objects.flatMap(\.keys) { counts[key, default: 0] += 1 }
        // Most values have the usual keys, and there are some.
        let usual = counts.values.filter { Double($0) >= Double(objects.count) * leastLikeness }
        return usual.isEmpty ? 0 : Double(usual.reduce(0, +)) / Double(usual.count * objects.count)
    }
}
