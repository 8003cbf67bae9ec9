internal import BrokerModel

extension StagingContext {
    /// Returns the decision for a record, or a bare key, of that identity.
    ///
    /// Mutating, though it changes nothing: otherwise Swift copies the context, which is large, for the call.
    mutating func decision(_ entity: EntityPlan, identity: Int?) -> IgnoredRecords.Decision {
        guard let ignoredRecords = exclusions?.ignoredRecords else { return .accepted }
        return decision(entity, identity: identity, ignoredRecords)
    }

    private mutating func decision(_ entity: EntityPlan, identity: Int?, _ ignoredRecords: IgnoredRecords)
        -> IgnoredRecords.Decision
    {
        guard
            entity.ownIndex == ignoredRecords.entity || entity.hierarchy?.inherits(from: ignoredRecords.entity) ?? false
        else {
            return .accepted
        }
        guard let identity else { return ignoredRecords.decision(nil, concreteEntity: entity.ownIndex) }
        return scratch.withCells(at: identity) { ignoredRecords.decision($0, concreteEntity: entity.ownIndex) }
    }
}
