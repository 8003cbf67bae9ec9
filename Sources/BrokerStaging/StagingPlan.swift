public import BrokerModel

/// The model, compiled for staging: key trees, converters and columns. Immutable, shared by all workers.
public final class StagingPlan: Sendable {
    public let model: Model
    public let layout: RowLayout
    /// Entities whose records may be left out because they are not newer than their objects.
    public let entitiesWithModified: [Int]
    let entities: [EntityPlan]
    /// Nodes of all key trees together; a tree's own begin at its ``EntityPlan/firstNode``.
    let nodeCount: Int

    /// - Throws: `ModelError` with every default, limit, date pattern or regular expression that cannot be used.
    public init(_ model: Model) throws(ModelError) {
        let layout = RowLayout(model)
        var faults: [ModelFault] = []
        var entities: [EntityPlan] = []
        var nodeCount = 0
        for index in model.entities.indices {
            do throws(ModelError) {
                let plan = try EntityPlan(index, layout.entities[index], firstNode: nodeCount, of: model)
                entities.append(plan)
                nodeCount += plan.tree.nodes.count
            } catch {
                faults += error.faults
            }
        }
        guard faults.isEmpty else { throw ModelError(faults: faults) }
        self.model = model
        self.layout = layout
        entitiesWithModified = entities.indices.filter { entities[$0].modified != nil }
        self.entities = entities
        self.nodeCount = nodeCount
    }

    /// The value that an insert gives a missing attribute; nil when it has no default.
    public func defaultCell(entity: Int, attribute: Int) -> Cell? {
        entities[entity].attributes[attribute].converter.defaultCell?.cell
    }
}

/// One entity, compiled.
final class EntityPlan: Sendable {
    /// A class, like its sibling, so that the loop over a record's attributes copies nothing.
    final class AttributePlan: Sendable {
        let converter: ValueConverter
        /// Tree nodes, most preferred first.
        let nodes: [Int]
        let isIdentity: Bool
        let onInvalid: InvalidValuePolicy

        init(_ attribute: Attribute, nodes: [Int], isIdentity: Bool) throws(ModelError) {
            converter = try ValueConverter(attribute)
            self.nodes = nodes
            self.isIdentity = isIdentity
            onInvalid = attribute.onInvalid
        }
    }

    final class RelationshipPlan: Sendable {
        let index: Int
        let nodes: [Int]
        let form: RelationshipForm
        let relationship: Relationship
        /// Of the inverse, if that keeps an order: its index.
        let orderedInverse: Int?

        init(
            _ index: Int, _ relationship: Relationship, nodes: [Int], form: RelationshipForm, inverse: Relationship?
        ) {
            self.index = index
            self.nodes = nodes
            self.form = form
            self.relationship = relationship
            orderedInverse = inverse?.isOrdered ?? false ? relationship.inverse : nil
        }
    }

    let index: Int
    let name: String
    let identity: [Int]
    /// A single integer attribute: its cells need no bytes to compare.
    let hasIntegerIdentity: Bool
    let isIdentityOptional: Bool
    let tree: KeyTree
    /// By node, its children that have children of their own.
    let innerNodes: [[Int]]
    let firstNode: Int
    let attributes: [AttributePlan]
    let relationships: [RelationshipPlan]
    let layout: EntityLayout
    /// Attributes of lists that are unique besides the identity.
    let uniqueColumns: [Int]
    /// Tells whether a record is newer than its object; nil where every record is taken.
    let modified: ModifiedColumn?
    let tombstone: Tombstone?
    var hasUniqueLists: Bool { !uniqueColumns.isEmpty }
    /// By attribute of the identity, what is told of a record that has no value for it.
    let missingIdentityMessages: [Int: String]
    /// Keys that may wrap a record.
    let wrappers: [[UInt8]]

    init(_ index: Int, _ layout: EntityLayout, firstNode: Int, of model: Model) throws(ModelError) {
        let entity = model.entities[index]
        var tree = KeyTree()
        var faults: [ModelFault] = []
        var attributes: [AttributePlan] = []
        for (position, attribute) in entity.attributes.enumerated() {
            let nodes = attribute.keyPaths.map { tree.claim($0) }
            do throws(ModelError) {
                let isIdentity = entity.identity.contains(position)
                attributes.append(try AttributePlan(attribute, nodes: nodes, isIdentity: isIdentity))
            } catch {
                faults += error.faults
            }
        }
        relationships = entity.relationships.enumerated().map { position, relationship in
            RelationshipPlan(
                position, relationship, nodes: relationship.keyPaths.map { tree.claim($0) },
                form: layout.forms[position], inverse: model.inverse(of: relationship))
        }
        var tombstone: Tombstone?
        do throws(ModelError) {
            tombstone = try Tombstone(of: index, in: model)
        } catch {
            faults += error.faults
        }
        self.tombstone = tombstone
        guard faults.isEmpty else { throw ModelError(faults: faults) }
        tree.indexChildren()
        self.index = index
        self.firstNode = firstNode
        self.layout = layout
        self.tree = tree
        innerNodes = tree.innerNodes
        self.attributes = attributes
        name = entity.name
        identity = entity.identity
        modified = entity.modified.map { ModifiedColumn(column: $0, type: entity.attributes[$0].type) }
        uniqueColumns = Set(entity.unique.joined()).sorted()
        isIdentityOptional = entity.isIdentityOptional
        missingIdentityMessages = Dictionary(
            uniqueKeysWithValues: entity.identity.map { ($0, Self.missingIdentityMessage(entity, $0)) })
        hasIntegerIdentity = entity.singleIdentity?.type.isInteger ?? false
        let names = [entity.root, entity.name.prefix(1).lowercased() + entity.name.dropFirst()].compactMap { $0 }
        wrappers = names.filter { !tree.knows($0) }.map { Array($0.utf8) }
    }

    private static func missingIdentityMessage(_ entity: Entity, _ column: Int) -> String {
        let attribute = entity.attributes[column]
        let paths = attribute.keyPaths.map { "\"\($0.joined(separator: "."))\"" }.joined(separator: " or ")
        let keys = paths.isEmpty ? "to which the model gives no key" : "key \(paths)"
        return "A record of \(entity.name) has no value for its identity \(attribute.name) (\(keys)). "
            + "Send it, or set identityOptional in the model."
    }
}
