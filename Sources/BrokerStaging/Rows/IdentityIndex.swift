internal import BrokerJSON

/// A hash index from identity to row of one staged table: open addressing over row numbers, with the cells as keys.
/// While the table has only a few rows, a search compares them one by one.
struct IdentityIndex {
    private static let rowsWithoutSlots = 8
    /// Row + 1, zero for a free slot. The count is a power of two, and at most half of them are used.
    private var slots: [UInt32] = []
    /// By row: its hash, never zero; zero for a row without identity.
    private var hashes = ShortList<UInt64>()
    private var count = 0

    @inline(__always)
    static func hash(_ cells: UnsafePointer<Cell>, _ columns: [Int]) -> UInt64 {
        var state = Bytes.seed
        for column in columns { state = hash(cells[column], into: state) }
        return state
    }

    @inline(__always)
    static func hash(_ cell: Cell, into state: UInt64) -> UInt64 {
        cell.kind == .text || cell.kind == .blob
            ? Bytes.hash(cell.bytes, into: state) : Bytes.mix(state, UInt64(bitPattern: cell.integer))
    }

    /// Returns the row for which `isSame` is true; nil when there is none.
    @inline(__always)
    func find(_ hash: UInt64, _ isSame: (Int) -> Bool) -> Int? {
        let hash = max(1, hash)
        guard !slots.isEmpty else {
            return (0..<min(hashes.count, Self.rowsWithoutSlots)).first { hashes[$0] == hash && isSame($0) }
        }
        var position = Int(truncatingIfNeeded: hash) & (slots.count - 1)
        while slots[position] != 0 {
            let row = Int(slots[position]) - 1
            if hashes[row] == hash, isSame(row) { return row }
            position = (position + 1) & (slots.count - 1)
        }
        return nil
    }

    /// - Precondition: rows are inserted in order, 0, 1, 2 …, with ``skip()`` for those without identity.
    mutating func insert(_ hash: UInt64, row: Int) {
        count += 1
        hashes.append(max(1, hash))
        guard !slots.isEmpty || row >= Self.rowsWithoutSlots else { return }
        if count * 2 > slots.count { grow() } else { place(row) }
    }

    mutating func skip() { hashes.append(0) }

    private mutating func place(_ row: Int) {
        var position = Int(truncatingIfNeeded: hashes[row]) & (slots.count - 1)
        while slots[position] != 0 { position = (position + 1) & (slots.count - 1) }
        slots[position] = UInt32(row + 1)
    }

    private mutating func grow() {
        slots = Array(repeating: 0, count: max(4 * Self.rowsWithoutSlots, slots.count * 2))
        for row in hashes.indices where hashes[row] != 0 { place(row) }
    }
}
