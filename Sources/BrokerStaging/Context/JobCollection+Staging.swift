internal import BrokerJSON
internal import BrokerModel

extension JobCollection {
    /// Stages the collection in a context of its own. Pure: reads no database and shares no state, so it runs on any
    /// thread.
    ///
    /// - Parameters:
    ///   - allowance: asked for the memory of the rows; nil grants all.
    ///   - exclusions: records and objects that staging ignores, as if the job did not have them.
    /// - Throws: the first fault in the text, with its path, when the policy is `fail`; `noRoom` when the allowance
    ///   refuses the memory.
    package func stage(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: (any StagingAllowance)? = nil,
        without exclusions: StagedExclusions? = nil
    ) throws(StagingRefusal) -> StagedPart {
        try StagingSpace.with { space in
            Result { () throws(StagingRefusal) in
                try context(plan, policy, allowance, exclusions, space).finish()
            }
        }.get()
    }

    /// A context that has staged the collection.
    func context(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: (any StagingAllowance)?,
        _ exclusions: StagedExclusions?, _ space: StagingSpace
    ) throws(StagingRefusal) -> StagingContext {
        var memory = StagingMemory(allowance)
        guard memory.take(StagingContext.memory(plan)) else { throw .noRoom }
        var context = StagingContext(plan, self, policy, memory, exclusions, space)
        for operation in operations { try context.stage(operation) }
        try batch?.stage(in: &context)
        return context
    }
}
