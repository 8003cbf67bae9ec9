internal import BrokerJSON
internal import BrokerModel

/// The compiled rules by which records become rows of one entity: the entity's own rules, or those of a mapping.
final class EntityPlan: Sendable {
    /// A class, like `RelationshipPlan`, so that the loop over a record's attributes copies nothing.
    final class AttributePlan: Sendable {
        let converter: ValueConverter
        /// Tree nodes, most preferred first; empty for an attribute that only other entities of the table have.
        let nodes: [Int]
        /// The only one of them, which most attributes have; otherwise negative.
        let node: Int
        /// The attribute rejects `null`.
        let isRequired: Bool
        /// The value for a record that lacks the attribute; nil leaves the attribute absent.
        let missingCell: OwnedCell?
        let onInvalid: InvalidValuePolicy

        init(_ attribute: Attribute, _ converter: ValueConverter, nodes: [Int], isIdentity: Bool) {
            self.converter = converter
            self.nodes = nodes
            node = nodes.count == 1 ? nodes[0] : -1
            isRequired = !attribute.isOptional && !isIdentity
            missingCell = attribute.usesDefaultWhenMissing ? converter.defaultCell : nil
            onInvalid = attribute.onInvalid
        }

        /// The cell for `null`.
        @inline(__always)
        func nullCell(of entity: EntityPlan) throws(ValueFault) -> Cell {
            guard isRequired else { return .null }
            throw ValueFault(
                "\(self.converter.name) of \(entity.name) is required and may not be null. "
                    + "Send a value, or make the attribute optional.", code: .missingValue)
        }
    }

    final class RelationshipPlan: Sendable {
        let index: Int
        let nodes: [Int]
        /// The only one of them; −1 when there are several.
        let node: Int
        let form: RelationshipForm
        let relationship: Relationship
        /// Values that mean no object, besides null.
        private let none: NoneValues
        /// Index of the mapping of its values; nil reads them as records of the destination.
        let mapping: Int?
        /// Index of the entity whose table has the destination's objects.
        let destinationTable: Int
        /// Index of the inverse, if the inverse is ordered.
        let orderedInverse: Int?
        /// The inverse owns the objects that have this relationship.
        let leadsToOwner: Bool
        /// A value names links that are not in the row of its record's object alone.
        let isElsewhere: Bool

        /// A value may end the links of very many objects, delete them, or look at their positions in a list.
        var mayReachOthers: Bool { relationship.isToMany || relationship.isOwned || orderedInverse != nil }

        init(_ index: Int, _ entity: Entity, _ form: RelationshipForm, nodes: [Int], mapping: Int?, of model: Model) {
            let relationship = entity.relationships[index]
            self.index = index
            self.nodes = nodes
            node = nodes.count == 1 ? nodes[0] : -1
            self.form = form
            self.relationship = relationship
            none = NoneValues(relationship.none)
            self.mapping = mapping ?? relationship.mapping
            destinationTable = model.topmost(of: relationship.destination)
            let inverse = model.inverse(of: relationship)
            leadsToOwner = inverse?.isOwned ?? false
            isElsewhere = relationship.isToMany || inverse.map { !$0.isToMany || $0.isOrdered } ?? false
            orderedInverse = model.inverse(of: relationship)?.isOrdered ?? false ? relationship.inverse : nil
        }

        /// Whether the value means no object.
        @inline(__always)
        func isNone(_ value: JSONValue) -> Bool { value.isNull || !none.isEmpty && none.contains(value) }

        /// Whether an element of an array means no object. A null there is at fault.
        func isNone(element: JSONValue) -> Bool { !none.isEmpty && !element.isNull && none.contains(element) }
    }

    /// Index of the entity whose table has the rows: the entity itself, or the topmost one of its hierarchy.
    let index: Int
    /// Index of the entity itself.
    let ownIndex: Int
    /// Nil for an entity outside of a hierarchy.
    let hierarchy: HierarchyPlan?
    let name: String
    let isAbstract: Bool
    let identity: [Int]
    /// The column of an identity of one attribute, of an entity outside of a hierarchy; otherwise negative.
    let singleKey: Int
    let isIdentityOptional: Bool
    let tree: KeyTree
    /// By node, its children that have children of their own.
    let innerNodes: [[Int]]
    let firstNode: Int
    /// By column of the table.
    let attributes: [AttributePlan]
    private let unretainedAttributes: [Unmanaged<AttributePlan>]
    /// The columns that its records can have, ascending, except that inherited columns come first.
    let ownColumns: [Int]
    /// By index.
    let relationships: [RelationshipPlan]
    /// The relationships that its objects have.
    let ownRelationships: [RelationshipPlan]
    private let unretainedRelationships: [Unmanaged<RelationshipPlan>]
    let layout: EntityLayout
    let columnCount: Int
    /// One of its links is one to one: each object has at most one at either side.
    let hasPairs: Bool
    /// All columns of the table, ascending.
    let allColumns: [Int]
    /// Columns of unique constraints other than the identity.
    let uniqueColumns: [Int]
    /// Attributes without which no object can be made.
    let requiredColumns: [Int]
    /// The column of what no other attribute takes (`extra`); negative without one.
    let extraColumn: Int
    /// By column, the paths in ``extraColumn`` of values that the column's attribute cannot hold; empty where it takes no such
    /// value there. They are those of the topmost entity for all of a hierarchy, and for all mappings.
    let extraPaths: [[UInt8]]
    /// By node of the tree, the keys that lead there from the record; in an entity with such a column only.
    let nodePaths: [[String]]
    /// Compares a record's age with its object's; nil where every record is staged.
    let modified: ModifiedColumn?
    /// Its column; negative without one.
    let modifiedColumn: Int
    /// The condition of records that delete their objects (`tombstone` of the model).
    let tombstone: RecordPredicate?
    var hasUniqueLists: Bool { !uniqueColumns.isEmpty }
    /// The result for its objects depends on their rows alone: no concrete entities to decide, no modified values, no
    /// one-to-one links that end other links.
    let isBatchable: Bool
    /// By attribute of the identity, the message for a record that has no value for it.
    let missingIdentityMessages: [Int: String]
    /// Keys that may wrap a record.
    let wrappers: [[UInt8]]
    /// Set where the key of a dictionary is a value of its records.
    let nesting: NestingPlan?
    /// The columns whose values come from the record that contains a nested one.
    let holderValues: [HolderValuePlan]
    /// The column with the hash of a record; negative without one.
    let contentColumn: Int
    /// Set for an entity whose objects live in those of another one.
    let owner: OwnerPlan?
    /// A nested record is read with the record that contains it.
    let needsHolder: Bool

    /// The plan of an entity's own records.
    ///
    /// - Parameter patterns: those of the model.
    convenience init(
        _ ownIndex: Int, _ layout: EntityLayout, firstNode: Int, of model: Model, _ patterns: ModelPatterns
    ) throws(ModelError) {
        var faults: [ModelFault] = []
        var converters: [ValueConverter] = []
        for attribute in model.entities[ownIndex].attributes {
            do throws(ModelError) {
                converters.append(try ValueConverter.compiled(attribute, patterns))
            } catch {
                faults += error.faults
                // The others would have the same fault.
                if patterns.isRefused { throw ModelError(faults: faults) }
            }
        }
        var tombstone: RecordPredicate?
        if let text = model.entities[ownIndex].tombstone {
            var fault: String?
            do throws(Fault) {
                tombstone = RecordPredicate(try patterns.predicate(text, of: ownIndex, in: model))
                if tombstone == nil {
                    fault =
                        "It asks for relationships, and a record is asked for its own attributes alone. Compare those."
                }
            } catch {
                fault = error.message
            }
            let entity = model.entities[ownIndex]
            if let fault { faults.append(ModelFault("\"tombstone\" of \(entity.name): \(fault)", at: entity.place)) }
        }
        guard faults.isEmpty else { throw ModelError(faults: faults) }
        self.init(ownIndex, layout, converters, tombstone, firstNode: firstNode, of: model)
    }

    /// The plan of a mapping, which has keys of its own.
    ///
    /// - Parameter selectors: key paths by which a `select` chooses the mapping. They count as known keys, though no
    ///   attribute has them.
    convenience init(
        _ mapping: RecordMapping, of plan: EntityPlan, firstNode: Int, selectors: [[String]], in model: Model
    ) {
        self.init(
            plan.ownIndex, plan.layout, plan.attributes.map(\.converter), plan.tombstone, mapping, selectors,
            firstNode: firstNode, of: model)
    }

    /// The plan of records whose keys are the model's names.
    ///
    /// - Parameter model: ``Model/keyedByNames``.
    convenience init(keyedByNames plan: EntityPlan, firstNode: Int, of model: Model) {
        self.init(
            plan.ownIndex, plan.layout, plan.attributes.map(\.converter), plan.tombstone, extraPaths: plan.extraPaths,
            firstNode: firstNode, of: model)
    }

    private init(
        _ ownIndex: Int, _ layout: EntityLayout, _ converters: [ValueConverter], _ tombstone: RecordPredicate?,
        _ mapping: RecordMapping? = nil, _ selectors: [[String]] = [], extraPaths: [[UInt8]]? = nil, firstNode: Int,
        of model: Model
    ) {
        let entity = model.entities[ownIndex]
        let keys = EntityKeys(entity, layout, converters, mapping, selectors: selectors, of: model)
        self.tombstone = tombstone
        index = model.topmost(of: ownIndex)
        self.ownIndex = ownIndex
        self.firstNode = firstNode
        self.layout = layout
        columnCount = layout.columnCount
        hasPairs = layout.links.contains { $0.oneToOneColumn != nil }
        allColumns = Array(0..<columnCount)
        (tree, innerNodes) = (keys.tree, keys.tree.innerNodes)
        (attributes, relationships, nesting) = (keys.attributes, keys.relationships, keys.nesting)
        unretainedAttributes = keys.attributes.map { .passUnretained($0) }
        ownColumns = entity.attributeIndices
        extraColumn = entity.extra ?? -1
        self.extraPaths =
            extraPaths ?? Self.extraPaths(entity, tombstone, model.entities[model.topmost(of: ownIndex)])
        nodePaths = entity.extra == nil ? [] : keys.tree.paths
        ownRelationships = entity.relationshipIndices.map { keys.relationships[$0] }
        unretainedRelationships = ownRelationships.map { .passUnretained($0) }
        hierarchy = model.isInHierarchy(ownIndex) ? HierarchyPlan(ownIndex, of: model) : nil
        name = entity.name
        isAbstract = entity.isAbstract
        identity = entity.identity
        singleKey = !model.isInHierarchy(ownIndex) && entity.identity.count == 1 ? entity.identity[0] : -1
        modified = entity.modified.map { ModifiedColumn(column: $0, converters[$0]) }
        modifiedColumn = entity.modified ?? -1
        uniqueColumns = Set(entity.unique.joined()).sorted()
        requiredColumns = entity.attributeIndices.filter { index in
            !entity.attributes[index].isOptional && !entity.identity.contains(index)
                && keys.attributes[index].converter.defaultCell == nil
        }
        isIdentityOptional = entity.isIdentityOptional
        missingIdentityMessages = Dictionary(
            uniqueKeysWithValues: entity.identity.map { ($0, Self.missingIdentityMessage(entity, $0, in: keys)) })
        wrappers = keys.wrappers
        holderValues = Self.holderValues(ownIndex, mapping, of: model)
        contentColumn = entity.attributeIndices.first { entity.attributes[$0].holderValue == .content } ?? -1
        owner = model.holders.owners[ownIndex].map { OwnerPlan($0, of: model) }
        needsHolder = owner != nil || !holderValues.isEmpty
        isBatchable =
            hierarchy == nil && modified == nil && !entity.isIdentityOptional
            && !hasPairs
    }

    /// Calls `body` with each attribute that its records can have, and counts no references. All workers share the plan,
    /// so each count would move a cache line from one processor to the other, for every value of every record.
    @inline(__always)
    func forEachOwnAttribute(_ body: (_ column: Int, AttributePlan) -> Void) {
        for index in ownColumns.indices {
            let column = ownColumns[index]
            unretainedAttributes[column]._withUnsafeGuaranteedRef { body(column, $0) }
        }
    }

    /// Calls `body` with each relationship that its objects have, and counts no references either.
    @inline(__always)
    func forEachOwnRelationship<Failure: Error>(
        _ body: (RelationshipPlan) throws(Failure) -> Void
    ) throws(Failure) {
        for index in unretainedRelationships.indices { try unretainedRelationships[index].withoutCounting(body) }
    }

    /// What decides about the record has no such path: its identity, its age, and whether it is a tombstone.
    private static func extraPaths(_ entity: Entity, _ tombstone: RecordPredicate?, _ topmost: Entity) -> [[UInt8]] {
        guard let extra = entity.extra else { return [] }
        return entity.attributes.indices.map { column in
            let isDeciding =
                entity.identity.contains(column) || entity.modified == column
                || tombstone?.attributes.contains(column) ?? false
            guard column != extra, !isDeciding, let path = topmost.attributes[column].recordPaths.first else {
                return []
            }
            return ExtraValues.path(path)
        }
    }

    /// A mapping's own keys for an attribute take the place of all others.
    private static func holderValues(_ index: Int, _ mapping: RecordMapping?, of model: Model) -> [HolderValuePlan] {
        let entity = model.entities[index]
        let values = entity.attributeIndices.compactMap { column -> (Int, HolderValue)? in
            guard mapping?.attributes[column] == nil, mapping?.nesting?.attribute != column,
                entity.attributes[column].holderValue != .content
            else { return nil }
            return entity.attributes[column].holderValue.map { (column, $0) }
        }
        return values.map { HolderValuePlan($0, $1, of: index, model) }
    }

    private static func missingIdentityMessage(_ entity: Entity, _ column: Int, in keys: EntityKeys) -> String {
        let attribute = entity.attributes[column]
        let paths = keys.paths[column] ?? attribute.keyPaths
        let names = paths.map { "\"\($0.joined(separator: "."))\"" }.joined(separator: " or ")
        let keys = names.isEmpty ? "to which the model gives no key" : "key \(names)"
        let remedy =
            attribute.recordPaths.isEmpty && attribute.holderValue != nil
            ? "Send the record nested in one that has it." : "Send it, or set identityOptional in the model."
        return "A record of \(entity.name) has no value for its identity \(attribute.name) (\(keys)). \(remedy)"
    }
}

/// The key tree of an entity or of a mapping.
private struct EntityKeys {
    private(set) var tree = KeyTree()
    private(set) var attributes: [EntityPlan.AttributePlan] = []
    private(set) var relationships: [EntityPlan.RelationshipPlan] = []
    let nesting: NestingPlan?
    let wrappers: [[UInt8]]
    /// By attribute that a mapping names, its key paths for messages.
    private(set) var paths: [Int: [[String]]] = [:]

    init(
        _ entity: Entity, _ layout: EntityLayout, _ converters: [ValueConverter], _ mapping: RecordMapping?,
        selectors: [[String]] = [], of model: Model
    ) {
        let below = mapping?.nesting == nil ? nil : tree.addNode()
        nesting = mapping?.nesting.map {
            NestingPlan(column: $0.attribute, isCollection: $0.isCollection, node: below!)
        }
        let ownColumns = Set(entity.attributeIndices)
        for (column, attribute) in entity.attributes.enumerated() {
            var nodes: [Int] = []
            if ownColumns.contains(column), column != mapping?.nesting?.attribute {
                let mapped = mapping?.attributes[column]
                nodes = tree.claim(mapped, or: attribute.recordPaths, below: below, nesting)
                paths[column] = mapped?.map(\.keys)
            }
            attributes.append(
                EntityPlan.AttributePlan(
                    attribute, converters[column], nodes: nodes, isIdentity: entity.identity.contains(column)))
        }
        let own = Set(entity.relationshipIndices)
        for (index, relationship) in entity.relationships.enumerated() {
            let mapped = mapping?.relationships[index]
            let nodes =
                own.contains(index) ? tree.claim(mapped?.paths, or: relationship.keyPaths, below: below, nesting) : []
            relationships.append(
                EntityPlan.RelationshipPlan(
                    index, entity, layout.forms[index], nodes: nodes, mapping: mapped?.mapping, of: model))
        }
        // A nested record has its selector where the mapping finds the record: beside the nesting key, or at the top.
        for path in selectors { _ = tree.claim(path) }
        for path in entity.ignoredPaths { _ = tree.claim(path, below: below ?? 0) }
        tree.indexChildren()
        let names = [entity.root, entity.name.prefix(1).lowercased() + entity.name.dropFirst()].compactMap { $0 }
        let tree = tree
        wrappers = nesting == nil ? names.filter { !tree.knows($0) }.map { Array($0.utf8) } : []
    }
}

extension KeyTree {
    /// Claims the paths of a mapping, or those of the entity.
    ///
    /// Paths of the entity are below the nesting key, because keys of other objects are beside it. In a collection, all
    /// paths are below it.
    fileprivate mutating func claim(
        _ mapped: [MappedPath]?, or entity: [[String]], below: Int?, _ nesting: NestingPlan?
    ) -> [Int] {
        guard let mapped else { return entity.map { claim($0, below: below ?? 0) } }
        return mapped.map { path in
            claim(path.keys, below: path.isBelowKey || nesting?.isCollection ?? false ? below ?? 0 : 0)
        }
    }
}

/// A record whose key in a dictionary is one of its values.
struct NestingPlan: Sendable {
    /// The attribute that takes the key.
    let column: Int
    /// The dictionary holds many records.
    let isCollection: Bool
    /// The node of the key tree at which the paths below that key begin.
    let node: Int
}

/// The relations of one entity to the other entities of its hierarchy, which share one table.
final class HierarchyPlan: Sendable {
    /// The topmost of the entities that share the entity's identity.
    let identityHead: Int
    /// The identities of the hierarchy: the topmost entity's alone, or those that entities below it declare.
    let identities: [[Int]]
    /// By entity index, the index of its identity in `identities`.
    private let identityNumbers: [Int: Int]

    init(_ entity: Int, of model: Model) {
        let line = [entity] + model.ancestors(of: entity)
        identityHead = line.last { !model.entities[$0].identity.isEmpty } ?? entity
        var identities: [[Int]] = []
        var numbers: [Int: Int] = [:]
        /// By the entity that declares an identity, the index of that identity.
        var byHead: [Int: Int] = [:]
        for member in model.subentities(of: model.topmost(of: entity)) {
            let path = [member] + model.ancestors(of: member)
            guard let head = path.last(where: { !model.entities[$0].identity.isEmpty }) else { continue }
            let number = byHead[head] ?? identities.count
            if number == identities.count { identities.append(model.entities[head].identity) }
            byHead[head] = number
            numbers[member] = number
        }
        self.identities = identities
        identityNumbers = numbers
    }

    func identityNumber(of entity: Int) -> Int? { identityNumbers[entity] }
}

/// The `modified` attribute of an entity, and how its values compare.
struct ModifiedColumn: Sendable {
    let column: Int
    private let isDecimal: Bool
    /// Set for dates.
    private let dates: ValueConverter.Dates?

    init(column: Int, _ converter: ValueConverter) {
        self.column = column
        isDecimal = converter.type == .decimal
        dates = converter.type == .date ? converter.dates : nil
    }

    /// Whether a record with `value` is not newer than the record that brought `known`. False if one of them is no
    /// value.
    func isStale(_ value: Cell, against known: Cell) -> Bool {
        guard !value.isNil, !known.isNil else {
            return false
        }
        if isDecimal, value.kind == .text, known.kind == .text {
            return DecimalText(normal: value.bytes) <= DecimalText(normal: known.bytes)
        }
        // Times with all their digits beside stored ones.
        if let dates, value.kind != known.kind || value.kind == .text && value.count != known.count,
            let sent = instant(value, dates), let stored = instant(known, dates)
        {
            return sent <= stored
        }
        return !known.precedes(value)
    }

    private func instant(_ cell: Cell, _ dates: ValueConverter.Dates) -> Instant? {
        cell.kind == .text ? ISO8601.instant(cell.bytes, zone: .utc) : dates.instant(cell)
    }

    /// A value with all the digits that were sent, of which the attribute stores some; nil for a type without such values.
    func whole(_ value: JSONValue, _ converter: ValueConverter, arena: inout ByteArena) throws(ValueFault) -> Cell? {
        guard dates != nil else { return nil }
        let instant = try converter.instant(value, arena: &arena)
        return .text(ISO8601.write(instant, digits: Self.wholeDigits, arena: &arena))
    }

    /// Nanoseconds.
    private static let wholeDigits = 9
}

/// The values of a relationship that mean no object (`none` of the model), besides null.
struct NoneValues: Sendable {
    private var texts: [[UInt8]] = []
    private var numbers: [Int64] = []
    private var kinds: Set<JSONValue.Kind> = []
    let isEmpty: Bool

    /// - Parameter values: as the model's reader takes them: texts, whole numbers, booleans and empty arrays.
    init(_ values: [JSONFragment]) {
        isEmpty = values.isEmpty
        for value in values {
            guard let document = try? JSONDocument(parsing: JSONText(copying: Array(value.text.utf8))) else {
                preconditionFailure("the model's reader has read it")
            }
            let root = document.root
            switch root.kind {
            case .string: texts.append(Array(root.bytes))
            case .number: if let number = root.int64 { numbers.append(number) }
            default: kinds.insert(root.kind)
            }
        }
    }

    func contains(_ value: JSONValue) -> Bool {
        switch value.kind {
        case .string: texts.contains { $0.elementsEqual(value.bytes) }
        case .number: NumberText(value.bytes)?.int64.map(numbers.contains) ?? false
        case .array: kinds.contains(.array) && value.elementCount == 1
        default: kinds.contains(value.kind)
        }
    }
}

extension Unmanaged {
    /// Calls `body` with the object, and counts no reference. All workers share the plans, so each count would move a cache
    /// line from one processor to the other, for every record.
    @inline(__always)
    func withoutCounting<Value, Failure: Error>(
        _ body: (Instance) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try _withUnsafeGuaranteedRef { object in
            do throws(Failure) {
                return Result<Value, Failure>.success(try body(object))
            } catch {
                return .failure(error)
            }
        }.get()
    }
}
