internal import BrokerModel

/// A record or bare key of an entity with unique values that stands inside a record of another one: if that object
/// turns out to be left out for its unique values, this was never said.
public struct StagedNesting: Sendable {
    /// Where it begins.
    public let offset: UInt32
    /// The nearest object around it whose entity has unique values.
    public let entity: Int
    public let row: Int
    /// Where that object's record begins.
    public let aroundOffset: UInt32
}

extension StagingContext {
    /// Notes around what a record or a bare key stands, if that may matter.
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
