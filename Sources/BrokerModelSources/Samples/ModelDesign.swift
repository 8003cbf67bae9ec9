/// The entities of the samples: which objects are of one entity, what identifies them, and which belong to others.
struct ModelDesign {
    struct Entity {
        enum Kind {
            /// The input's records.
            case records
            /// Other objects name them, perhaps several.
            case shared
            /// They live in one object of the entity of that index.
            case owned(by: Int)
        }

        let name: String
        let shape: ObjectShape
        let kind: Kind
        /// Nil for an owned entity whose objects are known by their position.
        let identity: IdentityChoice?
        /// The key of the dictionary that holds the objects is their identity.
        let isNested: Bool
        var leaves: [ModelLeaf] = []
        /// Key paths that a person ignores.
        var ignored: [[String]] = []
        /// By leaf, the entity of a relationship.
        var destinations: [Int: Int] = [:]

        /// The only record is a dictionary of plain values, which nothing identifies.
        var isDictionary: Bool { identity == nil && shape.known == nil && ShapeMap.isDictionary(shape) }
    }

    /// Entities beyond these are stored as JSON.
    private static let mostEntities = 200
    static let leastLikeness = 0.5
    /// Objects are of one entity whatever their keys are called, if so much of their keys is the same, and so many.
    static let equalLikeness = 0.8
    static let leastEqualKeys = 4

    private(set) var entities: [Entity] = []
    private let reading: ShapeReading
    /// The model that the samples extend; nil when there is none.
    var model: KnownModel? { reading.model }

    /// A person names the identity of the entity.
    func isGiven(_ entity: Entity) -> Bool { reading.isGiven(entity.name) }

    /// A person says that each record of the entity is a new object.
    func isAppended(_ entity: Entity) -> Bool { reading.isAppended(entity.name) }
    private var indices: [ObjectIdentifier: Int] = [:]
    private var different: Set<Comparison> = []
    private var votes: [ObjectIdentifier: [(stem: String, count: Int)]] = [:]

    /// - Parameter isMap: the records are the values of a dictionary, and its keys their identity.
    init(_ root: ObjectShape, _ reading: ShapeReading, isMap: Bool) {
        self.reading = reading
        reading.assignRoot()
        unify(root)
        let identity = isMap ? .nestingKey : reading.identity(of: root, named: reading.rootName)
        add(reading.rootName, root, .records, identity, isNested: isMap)
        var next = 0
        while next < entities.count {
            place(leavesOf: next)
            next += 1
        }
    }

    // MARK: - Equal shapes

    private struct Position {
        let shape: ObjectShape
        let stem: String
        let name: String
        let property: PropertyShape?
    }

    /// Makes one shape of those that are of one entity.
    private mutating func unify(_ root: ObjectShape) {
        while true {
            let positions = positions(below: root)
            func redirect(_ shape: ObjectShape, to kept: ObjectShape) {
                for position in positions where position.shape === shape { position.property?.redirect(to: kept) }
            }
            let match = positions.lazy.compactMap { [reading] position in
                reading.match(for: position.shape, stem: position.stem, named: position.name).map {
                    (shape: position.shape, entity: $0)
                }
            }.first
            if let match {
                reading.assign(match.shape, to: match.entity) { redirect(match.shape, to: $0) }
            } else if let (kept, other) = samePair(in: positions) {
                redirect(other.shape, to: kept.shape)
                kept.shape.merge(other.shape)
                reading.forget()
            } else {
                return
            }
        }
    }

    /// The shapes of objects that have an identity of their own, by their first position.
    private mutating func positions(below root: ObjectShape) -> [Position] {
        votes = [:]
        let stem = EntityName.words(reading.rootName)
        var positions = [Position(shape: root, stem: stem, name: reading.rootName, property: nil)]
        var seen: Set<ObjectIdentifier> = [ObjectIdentifier(root)]
        var queue = [root]
        var next = 0
        while next < queue.count, positions.count < Self.mostEntities {
            for leaf in reading.leaves(of: queue[next]) {
                // The shapes of a dictionary's values are merged when no others are any more.
                guard let shape = leaf.objects, !leaf.isMap else { continue }
                let stem = EntityName.singular(EntityName.words(leaf.path.last!))
                vote(for: shape, stem)
                let name = EntityName.camel(stem)
                if !reading.isOwned(shape), reading.identity(of: shape, named: name) != nil {
                    positions.append(Position(shape: shape, stem: stem, name: name, property: leaf.property))
                }
                if seen.insert(ObjectIdentifier(shape)).inserted { queue.append(shape) }
            }
            next += 1
        }
        return positions
    }

    private mutating func vote(for shape: ObjectShape, _ stem: String) {
        let id = ObjectIdentifier(shape)
        if let index = votes[id]?.firstIndex(where: { $0.stem == stem }) {
            votes[id]![index].count += 1
        } else {
            votes[id, default: []].append((stem, 1))
        }
    }

    /// Two positions that were compared, with the observations that they had then.
    private struct Comparison: Hashable {
        let shapes: [ObjectIdentifier]
        let counts: [Int]
    }

    private mutating func samePair(in positions: [Position]) -> (Position, Position)? {
        for (index, position) in positions.enumerated() {
            for earlier in positions[..<index] where earlier.shape !== position.shape {
                let comparison = Comparison(
                    shapes: [ObjectIdentifier(earlier.shape), ObjectIdentifier(position.shape)],
                    counts: [earlier.shape.count, position.shape.count])
                guard !different.contains(comparison) else { continue }
                if isSame(earlier, position) { return (earlier, position) }
                different.insert(comparison)
            }
        }
        return nil
    }

    private func isSame(_ one: Position, _ other: Position) -> Bool {
        guard one.shape.known == nil, other.shape.known == nil else { return false }
        let areNamed =
            one.stem == other.stem || one.stem.hasSuffix("_" + other.stem) || other.stem.hasSuffix("_" + one.stem)
        let likeness = one.shape.likeness(to: other.shape)
        guard likeness >= Self.leastLikeness else { return false }
        let areEqual =
            likeness >= Self.equalLikeness && one.shape.commonKeys(with: other.shape) >= Self.leastEqualKeys
        guard areNamed || areEqual, let identity = reading.identity(of: one.shape, named: one.name),
            let second = reading.identity(of: other.shape, named: other.name), identity.paths == second.paths,
            identity.paths.count == 1, let key = identity.paths[0].first,
            let mine = one.shape[key], let theirs = other.shape[key], mine.scalars.isLike(theirs.scalars)
        else { return false }
        // Objects with the same identity are the same, as far as was seen.
        guard let column = one.shape.index(of: key).flatMap({ one.shape.columns[$0] }) else { return false }
        return one.shape.rows.agrees(with: other.shape.rows, one.shape.columns(of: other.shape), at: column)
    }

    // MARK: - Entities

    @discardableResult
    private mutating func add(
        _ name: String, _ shape: ObjectShape, _ kind: Entity.Kind, _ identity: IdentityChoice?, isNested: Bool = false
    ) -> Int {
        indices[ObjectIdentifier(shape)] = entities.count
        entities.append(Entity(name: name, shape: shape, kind: kind, identity: identity, isNested: isNested))
        return entities.count - 1
    }

    private mutating func place(leavesOf index: Int) {
        entities[index].leaves = reading.leaves(of: entities[index].shape)
        let ignored = reading.ignored(of: entities[index].name, entities[index].shape)
        entities[index].leaves.removeAll { leaf in ignored.contains { leaf.path.starts(with: $0) } }
        entities[index].ignored = ignored
        addIdentity(of: index)
        for (position, leaf) in entities[index].leaves.enumerated() {
            guard let objects = leaf.objects else { continue }
            let shape = leaf.isMap ? objects.mapValues : objects
            if let destination = destination(of: leaf, shape, index) {
                entities[index].destinations[position] = destination
            } else {
                entities[index].leaves[position].form = .json("lists of objects in each other, or too many entities")
            }
        }
    }

    /// The identity may be a value of an object that is another entity's: `author.id`.
    private mutating func addIdentity(of index: Int) {
        let entity = entities[index]
        for path in entity.identity?.paths ?? [] where !entity.leaves.contains(where: { $0.path == path }) {
            guard let property = entity.shape.property(at: path) else { continue }
            entities[index].leaves.append(ModelLeaf(path: path, property: property, form: .attribute))
        }
    }

    private mutating func destination(of leaf: ModelLeaf, _ shape: ObjectShape, _ owner: Int) -> Int? {
        let stem = EntityName.singular(EntityName.words(leaf.path.last!))
        if let known = indices[ObjectIdentifier(shape)] {
            if case .owned = entities[known].kind { return nil }
            return known
        }
        guard entities.count < Self.mostEntities else { return nil }
        if let known = shape.known, let model = reading.model {
            return add(
                model.model.entities[known].name, shape, model.isOwned(known) ? .owned(by: owner) : .shared,
                reading.identity(of: shape, named: ""), isNested: leaf.isMap)
        }
        if case .map(_, let isShared) = leaf.form {
            return add(
                name(stem, entities[owner].name), shape, isShared ? .shared : .owned(by: owner),
                isShared || hasIdentity(owner) ? .nestingKey : nil, isNested: true)
        }
        if let identity = reading.identity(of: shape, named: EntityName.camel(stem)) {
            let voted = votes[ObjectIdentifier(shape)]?.max { $0.count < $1.count }?.stem
            return add(name(voted ?? stem, entities[owner].name), shape, .shared, identity)
        }
        guard !isWithinItself(shape, owner) else { return nil }
        // Objects that nothing identifies do not identify their own.
        let key = hasIdentity(owner) ? siblingKey(shape, stem) : nil
        return add(name(stem, entities[owner].name), shape, .owned(by: owner), key)
    }

    private func hasIdentity(_ index: Int) -> Bool {
        if case .owned(let owner) = entities[index].kind { return hasIdentity(owner) }
        return entities[index].identity != nil
    }

    /// An owner has objects of the same shape: lists in each other of any depth.
    private func isWithinItself(_ shape: ObjectShape, _ owner: Int) -> Bool {
        var owner = owner
        while true {
            if entities[owner].shape.likeness(to: shape) >= Self.equalLikeness { return true }
            guard case .owned(let next) = entities[owner].kind else { return false }
            owner = next
        }
    }

    /// An identifier that no two objects of one list share.
    private func siblingKey(_ shape: ObjectShape, _ stem: String) -> IdentityChoice? {
        for (index, key) in shape.keys.enumerated() {
            guard IdentityName(key, of: EntityName.camel(stem)) != nil,
                shape.properties[index].count == shape.count, shape.properties[index].mayIdentify,
                shape.properties[index].wrappers.isEmpty, let column = shape.columns[index],
                shape.rows.isUniqueInLists(at: column), !shape.rows.isCut
            else { continue }
            return IdentityChoice(siblings: key)
        }
        return nil
    }

    private func name(_ stem: String, _ owner: String) -> String {
        let name = EntityName.camel(stem)
        let isTaken = { [reading] (name: String) in
            entities.contains { $0.name.lowercased() == name.lowercased() } || reading.hasEntity(named: name)
        }
        guard name.isEmpty || isTaken(name) else { return name }
        let longer = owner + name
        guard name.isEmpty || isTaken(longer) else { return longer }
        return (2...).lazy.map { "\(longer)\($0)" }.first { !isTaken($0) }!
    }
}
