internal import BrokerModel

/// How records become rows of one entity, compiled: as the entity says it, or a mapping.
final class EntityPlan: Sendable {
    /// A class, like its sibling, so that the loop over a record's attributes copies nothing.
    final class AttributePlan: Sendable {
        let converter: ValueConverter
        /// Tree nodes, most preferred first; none of an attribute that only relatives in the same table have.
        let nodes: [Int]
        let isIdentity: Bool
        /// `null` is no value of it.
        private let isRequired: Bool
        /// What a record brings that does not bring the attribute; nil where it then says nothing of it.
        let missingCell: OwnedCell?
        let onInvalid: InvalidValuePolicy

        init(_ attribute: Attribute, _ converter: ValueConverter, nodes: [Int], isIdentity: Bool) {
            self.converter = converter
            self.nodes = nodes
            self.isIdentity = isIdentity
            isRequired = !attribute.isOptional && !isIdentity
            missingCell = attribute.usesDefaultWhenMissing ? converter.defaultCell : nil
            onInvalid = attribute.onInvalid
        }

        /// What `null` becomes.
        @inline(__always)
        func nullCell(of entity: EntityPlan) throws(ValueFault) -> Cell {
            guard isRequired else { return .null }
            throw ValueFault(
                reason: .missing,
                message: "\(self.converter.name) of \(entity.name) is required and may not be null. "
                    + "Send a value, or make the attribute optional.")
        }
    }

    final class RelationshipPlan: Sendable {
        let index: Int
        let nodes: [Int]
        let form: RelationshipForm
        let relationship: Relationship
        /// Index of the mapping of its values; nil reads them as the destination's records.
        let mapping: Int?
        /// Index of the entity in whose table its objects are.
        let destinationTable: Int
        /// Of the inverse, if that keeps an order: its index.
        let orderedInverse: Int?

        init(_ index: Int, _ entity: Entity, _ form: RelationshipForm, nodes: [Int], mapping: Int?, of model: Model) {
            let relationship = entity.relationships[index]
            self.index = index
            self.nodes = nodes
            self.form = form
            self.relationship = relationship
            self.mapping = mapping ?? relationship.mapping
            destinationTable = model.topmost(of: relationship.destination)
            orderedInverse = model.inverse(of: relationship)?.isOrdered ?? false ? relationship.inverse : nil
        }
    }

    /// Of the entity in whose table its rows are: itself, or the topmost one of its hierarchy.
    let index: Int
    /// Of the entity itself.
    let kind: Int
    /// Nil of an entity that stands alone.
    let family: HierarchyPlan?
    let name: String
    let isAbstract: Bool
    let identity: [Int]
    /// A single integer attribute: its cells need no bytes to compare.
    let hasIntegerIdentity: Bool
    let isIdentityOptional: Bool
    let tree: KeyTree
    /// By node, its children that have children of their own.
    let innerNodes: [[Int]]
    let firstNode: Int
    /// By column of the table.
    let attributes: [AttributePlan]
    /// The columns that its records bring, ascending but for inherited ones, which come first.
    let ownColumns: [Int]
    /// By index.
    let relationships: [RelationshipPlan]
    /// Those that its objects have.
    let ownRelationships: [RelationshipPlan]
    let layout: EntityLayout
    /// Of the table, ascending.
    let allColumns: [Int]
    /// Columns of lists that are unique besides the identity.
    let uniqueColumns: [Int]
    /// Tells whether a record is newer than its object; nil where every record is taken.
    let modified: ModifiedColumn?
    let tombstone: Tombstone?
    var hasUniqueLists: Bool { !uniqueColumns.isEmpty }
    /// What becomes of its objects depends on nothing but their rows: no kinds, no ages, no links that end when others begin.
    let isJoinable: Bool
    /// By attribute of the identity, what is told of a record that has no value for it.
    let missingIdentityMessages: [Int: String]
    /// Keys that may wrap a record.
    let wrappers: [[UInt8]]
    /// Where the key of a dictionary is a value of its records.
    let nesting: NestingPlan?

    /// An entity's own plan.
    init(_ kind: Int, _ layout: EntityLayout, firstNode: Int, of model: Model) throws(ModelError) {
        let entity = model.entities[kind]
        var faults: [ModelFault] = []
        var converters: [ValueConverter] = []
        for attribute in entity.attributes {
            do throws(ModelError) {
                converters.append(try ValueConverter.compiled(attribute))
            } catch {
                faults += error.faults
            }
        }
        var tombstone: Tombstone?
        do throws(ModelError) {
            tombstone = try Tombstone(of: kind, in: model)
        } catch {
            faults += error.faults
        }
        guard faults.isEmpty, converters.count == entity.attributes.count else { throw ModelError(faults: faults) }
        self.tombstone = tombstone
        let keys = EntityKeys(entity, layout, converters, nil, of: model)
        index = model.topmost(of: kind)
        self.kind = kind
        self.firstNode = firstNode
        self.layout = layout
        allColumns = Array(0..<layout.columnCount)
        (tree, innerNodes) = (keys.tree, keys.tree.innerNodes)
        (attributes, relationships, nesting) = (keys.attributes, keys.relationships, keys.nesting)
        ownColumns = entity.attributeIndices
        ownRelationships = entity.relationshipIndices.map { keys.relationships[$0] }
        family = model.isInHierarchy(kind) ? HierarchyPlan(kind, of: model) : nil
        name = entity.name
        isAbstract = entity.isAbstract
        identity = entity.identity
        modified = entity.modified.map { ModifiedColumn(column: $0, type: entity.attributes[$0].type) }
        uniqueColumns = Set(entity.unique.joined()).sorted()
        isIdentityOptional = entity.isIdentityOptional
        missingIdentityMessages = Dictionary(
            uniqueKeysWithValues: entity.identity.map { ($0, Self.missingIdentityMessage(entity, $0)) })
        hasIntegerIdentity = entity.singleIdentity?.type.isInteger ?? false
        wrappers = keys.wrappers
        isJoinable =
            family == nil && modified == nil && !entity.isIdentityOptional
            && layout.links.allSatisfy { $0.oneToOneColumn == nil }
    }

    /// The plan of a mapping, whose keys are other ones.
    ///
    /// - Parameter selectors: key paths by which the mapping is chosen; keys that it knows, though no attribute has them.
    init(_ mapping: RecordMapping, of plan: EntityPlan, firstNode: Int, selectors: [[String]], in model: Model) {
        let entity = model.entities[plan.kind]
        let keys = EntityKeys(
            entity, plan.layout, plan.attributes.map(\.converter), mapping, selectors: selectors, of: model)
        (index, kind, family, name, isAbstract) = (plan.index, plan.kind, plan.family, plan.name, plan.isAbstract)
        (identity, hasIntegerIdentity) = (plan.identity, plan.hasIntegerIdentity)
        isIdentityOptional = plan.isIdentityOptional
        self.firstNode = firstNode
        (layout, allColumns) = (plan.layout, plan.allColumns)
        (uniqueColumns, modified, tombstone) = (plan.uniqueColumns, plan.modified, plan.tombstone)
        isJoinable = plan.isJoinable
        (tree, innerNodes) = (keys.tree, keys.tree.innerNodes)
        (attributes, relationships, nesting) = (keys.attributes, keys.relationships, keys.nesting)
        ownColumns = plan.ownColumns
        ownRelationships = entity.relationshipIndices.map { keys.relationships[$0] }
        missingIdentityMessages = Dictionary(
            uniqueKeysWithValues: entity.identity.map { ($0, Self.missingIdentityMessage(entity, $0, in: keys)) })
        wrappers = keys.wrappers
    }

    private static func missingIdentityMessage(_ entity: Entity, _ column: Int, in keys: EntityKeys? = nil) -> String {
        let attribute = entity.attributes[column]
        let paths = keys?.paths[column] ?? attribute.keyPaths
        let names = paths.map { "\"\($0.joined(separator: "."))\"" }.joined(separator: " or ")
        let keys = names.isEmpty ? "to which the model gives no key" : "key \(names)"
        return "A record of \(entity.name) has no value for its identity \(attribute.name) (\(keys)). "
            + "Send it, or set identityOptional in the model."
    }
}

/// Where a record's keys lead, as the entity says it or as a mapping does.
private struct EntityKeys {
    private(set) var tree = KeyTree()
    private(set) var attributes: [EntityPlan.AttributePlan] = []
    private(set) var relationships: [EntityPlan.RelationshipPlan] = []
    let nesting: NestingPlan?
    let wrappers: [[UInt8]]
    /// By attribute that a mapping names, its key paths as a person reads them.
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
                nodes = tree.claim(mapped, or: attribute.keyPaths, below: below, nesting)
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
        tree.indexChildren()
        let names = [entity.root, entity.name.prefix(1).lowercased() + entity.name.dropFirst()].compactMap { $0 }
        let tree = tree
        wrappers = nesting == nil ? names.filter { !tree.knows($0) }.map { Array($0.utf8) } : []
    }
}

extension KeyTree {
    /// Claims the paths of a mapping, or those of the entity.
    ///
    /// What follows the entity is below the nesting key, since beside it are other objects' keys; and so is everything of a
    /// collection.
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
    /// The dictionary holds many.
    let isCollection: Bool
    /// Of the key tree, where the paths begin that are below that key.
    let node: Int
}
