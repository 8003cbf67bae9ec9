internal import BrokerJSON
internal import BrokerModel

/// Memory on the stack for the records that are being staged, enough for those of most models: most small jobs need no other.
struct StagingSpace {
    /// For ``RecordScanner``.
    let slots: UnsafeMutableBufferPointer<JSONValue?>
    /// For ``ScratchStack``.
    let cells: UnsafeMutableBufferPointer<Cell>

    /// Each at most 1 KiB: Swift allocates more than that on the heap.
    private static let slotCount = 40
    private static let cellCount = 64

    static func with<Result>(_ body: (StagingSpace) -> Result) -> Result {
        withUnsafeTemporaryAllocation(of: JSONValue?.self, capacity: slotCount) { slots in
            slots.initialize(repeating: nil)
            return withUnsafeTemporaryAllocation(of: Cell.self, capacity: cellCount) { cells in
                cells.initialize(repeating: .absent)
                return body(StagingSpace(slots: slots, cells: cells))
            }
        }
    }
}
