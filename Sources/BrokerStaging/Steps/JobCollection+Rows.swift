internal import BrokerModel

extension JobCollection {
    /// Stages the collection as the only one of its job, as ``stage(_:_:_:without:)`` and ``StagedJobRows`` do.
    package func rows(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: (any StagingAllowance)? = nil
    ) throws(StagingRefusal) -> StagedRows {
        try StagingSpace.with { space in
            Result { () throws(StagingRefusal) in
                var context = try context(plan, policy, allowance, nil, space)
                let facts = PartFacts(&context)
                return StagedJobRows.rows(&context, facts, plan, without: nil)
            }
        }.get()
    }
}
