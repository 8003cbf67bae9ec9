extension StagingContext {
    /// Notes the link's list positions at this side and at the other side.
    ///
    /// - Parameters:
    ///   - destination: nil ends the link.
    ///   - linkOffset: the source offset of the link.
    @inline(__always)
    mutating func noteListPositions(
        _ plan: EntityPlan.RelationshipPlan, _ linkSource: LinkSource, _ destination: Int?, at offset: Int,
        linkOffset: UInt32
    ) throws(StagingFault) {
        if plan.relationship.isOrdered, let destination {
            try note(
                StagedListPosition(
                    entity: linkSource.table, relationship: plan.index, row: linkSource.row,
                    element: destination,
                    sourceOffset: linkSource.sourceOffset, linkOffset: linkOffset,
                    operation: operationOffset, offset: UInt32(offset)))
        }
        if let inverse = plan.orderedInverse {
            try note(
                StagedListPosition(
                    entity: plan.destinationTable, relationship: inverse, row: destination,
                    element: linkSource.row, sourceOffset: linkSource.sourceOffset, linkOffset: linkOffset,
                    operation: operationOffset, offset: UInt32(offset)))
        }
    }

    private mutating func note(_ position: StagedListPosition) throws(StagingFault) {
        try take(2 * MemoryLayout<StagedListPosition>.stride)
        listPositions.append(position)
    }
}
