public import BrokerModel

/// The model, compiled for staging: key trees, converters and columns. Immutable, shared by all workers.
public final class StagingPlan: Sendable {
    public let model: Model
    public let layout: RowLayout
    /// Entities whose records may be left out because they are not newer than their objects; of a hierarchy the topmost.
    public let entitiesWithModified: [Int]
    /// By entity index: how its records are read where nothing else is said.
    let entities: [EntityPlan]
    /// By mapping index.
    let mappings: [MappingPlan]
    /// Nodes of all key trees together; a tree's own begin at its ``EntityPlan/firstNode``.
    let nodeCount: Int
    /// Little content is staged in little time: no pattern, which a few bytes may keep busy for a second, and no code of
    /// others has a say.
    public let isBrief: Bool
    /// Nil as long as nobody has a say beside the model.
    let hooks: StagingHooks?

    /// - Parameter hooks: code that has a say beside the model.
    /// - Throws: `ModelError` with every default, limit, date pattern or regular expression that cannot be used.
    public init(_ model: Model, hooks: StagingHooks? = nil) throws(ModelError) {
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
                // What is inherited is wrong once.
                faults += error.faults.filter { !faults.contains($0) }
            }
        }
        guard faults.isEmpty else { throw ModelError(faults: faults) }
        mappings = zip(model.mappings, model.selectorKeys).map { mapping, selectors in
            let plan = MappingPlan(mapping, entities, model, firstNode: nodeCount, selectors: selectors)
            nodeCount += plan.nodeCount
            return plan
        }
        self.model = model
        self.hooks = hooks?.completed(for: model)
        isBrief =
            hooks == nil
            && model.entities.allSatisfy { entity in
                entity.tombstone == nil && entity.attributes.allSatisfy { $0.constraints.pattern == nil }
            }
        self.layout = layout
        entitiesWithModified = model.tableEntities.filter { entities[$0].modified != nil }
        self.entities = entities
        self.nodeCount = nodeCount
    }

    /// The value that an insert gives a missing attribute; nil when it has no default.
    public func defaultCell(entity: Int, attribute: Int) -> Cell? {
        guard model.entities[entity].attributeIndices.contains(attribute) else { return nil }
        return entities[entity].attributes[attribute].converter.defaultCell?.cell
    }
}
