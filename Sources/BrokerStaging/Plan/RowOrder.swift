/// Row numbers of one staged table in the order in which they are merged. Immutable.
public final class RowOrder: Sendable {
    public let count: Int
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) public let rows: UnsafePointer<UInt32>

    /// The order of a table with one row.
    static let single = RowOrder([0])

    init(_ order: [UInt32]) {
        count = order.count
        let rows = UnsafeMutablePointer<UInt32>.allocate(capacity: max(1, order.count))
        rows.initialize(from: order, count: order.count)
        self.rows = UnsafePointer(rows)
    }

    deinit { rows.deallocate() }

    @inlinable public subscript(position: Int) -> Int { Int(rows[position]) }
}
