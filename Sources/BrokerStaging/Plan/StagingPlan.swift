internal import BrokerJSON
package import BrokerModel

/// The model, compiled for staging: key trees, converters and columns. Immutable, shared by all workers.
package final class StagingPlan: Sendable {
    package let model: Model
    package let layout: RowLayout
    /// Entities whose records may be skipped because they are not newer than their objects; in a hierarchy the topmost
    /// entity.
    package let entitiesWithModified: [Int]
    /// By entity index, the column of the link to its owner; nil for an entity that is not owned.
    package let ownerColumns: [Int?]
    /// By entity index, the plan of its records without a mapping.
    let entities: [EntityPlan]
    /// The same, for those who count no references to them.
    let unretainedEntities: [Unmanaged<EntityPlan>]
    /// By mapping index.
    let mappings: [MappingPlan]
    let linkKeys: LinkKeys
    /// The consequences of a record may be undone because a rule of the model is broken at last.
    package var mayFailLast: Bool { linkKeys.mayFailLast }

    /// Whether a value of that relationship of the entity may have consequences for very many objects.
    func mayReachOthers(_ entity: Int, _ relationship: JSONValue) -> Bool {
        entities[entity].ownRelationships.contains { plan in
            plan.mayReachOthers && plan.relationship.name == relationship.string
        }
    }
    /// Nodes of all key trees together; a tree's own begin at its ``EntityPlan/firstNode``.
    let nodeCount: Int
    /// Little content is staged in little time: the model has no pattern, which few bytes can keep busy for a second,
    /// no tombstone, and no hooks.
    package let isBrief: Bool
    /// Nil without hooks.
    let hooks: StagingHooks?

    /// - Parameter hooks: code of an embedding program that takes part in staging.
    /// - Throws: `ModelError` with every default, limit, date pattern or regular expression that cannot be used.
    package init(_ model: Model, hooks: StagingHooks? = nil) throws(ModelError) {
        let layout = RowLayout(model)
        var faults: [ModelFault] = []
        var entities: [EntityPlan] = []
        var nodeCount = 0
        let patterns = ModelPatterns()
        var known: Set<ModelFault> = []
        for index in model.entities.indices {
            do throws(ModelError) {
                let plan = try EntityPlan(index, layout.entities[index], firstNode: nodeCount, of: model, patterns)
                entities.append(plan)
                nodeCount += plan.tree.nodes.count
            } catch {
                // A fault of an inherited attribute is reported once.
                faults += error.faults.filter { known.insert($0).inserted }
                if patterns.isRefused { break }
            }
        }
        guard faults.isEmpty else { throw ModelError(faults: faults) }
        mappings = zip(model.mappings, model.selectorKeys).map { mapping, selectors in
            let plan = MappingPlan(mapping, entities, model, firstNode: nodeCount, selectors: selectors)
            nodeCount += plan.nodeCount
            return plan
        }
        linkKeys = LinkKeys(entities, mappings, of: model)
        self.model = model
        self.hooks = hooks?.completed(for: model)
        isBrief =
            hooks == nil
            && model.entities.allSatisfy { entity in
                entity.tombstone == nil && entity.attributes.allSatisfy { $0.constraints.pattern == nil }
            }
        self.layout = layout
        ownerColumns = model.entities.indices.map { entity in
            guard let owner = model.holders.owners[entity],
                let inverse = model.entities[owner.entity].relationships[owner.relationship].inverse,
                case .column(let column) = layout.entities[entity].forms[inverse]
            else { return nil }
            return column
        }
        entitiesWithModified = model.tableEntities.filter { entities[$0].modified != nil }
        self.entities = entities
        unretainedEntities = entities.map { .passUnretained($0) }
        self.nodeCount = nodeCount
    }

    /// The value that an insert gives a missing attribute; nil when it has no default.
    package func defaultCell(entity: Int, attribute: Int) -> Cell? {
        guard model.entities[entity].attributeIndices.contains(attribute) else { return nil }
        return entities[entity].attributes[attribute].converter.defaultCell?.cell
    }
}
