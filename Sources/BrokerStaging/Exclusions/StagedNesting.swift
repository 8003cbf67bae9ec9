internal import BrokerModel

/// A record or bare key of an entity with unique values that is inside another object's record. If the merge excludes
/// that object because of its unique values, the nested record or key does not count.
package struct StagedNesting: Sendable {
    /// Offset of the nested record or key.
    package let offset: UInt32
    /// The nearest enclosing object whose entity has unique values.
    package let entity: Int
    package let row: Int
    /// Offset of that object's record.
    package let aroundOffset: UInt32
}

extension StagingContext {
    /// Notes the object around a record or a bare key, if it has unique values.
    @inline(__always)
    mutating func noteNesting(_ entity: EntityPlan, at offset: Int) throws(StagingFault) {
        guard entity.hasUniqueLists, let enclosing else { return }
        try take(2 * MemoryLayout<StagedNesting>.stride)
        nestings.append(
            StagedNesting(
                offset: UInt32(offset), entity: enclosing.entity.index, row: enclosing.row,
                aroundOffset: enclosing.sourceOffset))
    }
}
