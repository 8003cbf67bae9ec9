internal import BrokerModel

extension StagingContext {
    /// Notes the object around a record or a bare key, if it has unique values.
    @inline(__always)
    mutating func noteNesting(_ entity: EntityPlan, at offset: Int) throws(StagingFault) {
        guard entity.hasUniqueLists, let enclosing else { return }
        try take(2 * MemoryLayout<StagedNesting>.stride)
        nestings.append(
            StagedNesting(
                offset: UInt32(offset), entity: enclosing.table, row: enclosing.row,
                aroundOffset: enclosing.sourceOffset))
    }
}
