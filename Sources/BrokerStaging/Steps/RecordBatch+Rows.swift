internal import BrokerJSON
internal import BrokerModel

extension RecordBatch {
    /// Stages these records alone, on the calling thread.
    ///
    /// - Parameter allowance: asked for the memory of the rows, which the caller gives back when it releases the rows.
    package func staged(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: any StagingAllowance
    ) throws(StagingRefusal) -> StagedRows {
        var collection = JobCollection(
            [], in: document, keepsPayload: keepsPayload, refusesUnknownKeys: refusesUnknownKeys)
        collection.batch = self
        return try collection.rows(plan, policy, allowance)
    }
}

extension StagedRows {
    /// The records that were staged, to be staged again in smaller batches.
    package var batch: RecordBatch { RecordBatch(collections) }
}
