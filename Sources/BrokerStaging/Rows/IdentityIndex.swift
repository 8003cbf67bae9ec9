/// A hash index from identity to row of one staged table: open addressing over row numbers, with the cells as keys.
/// While the table has only a few rows, a search compares them one by one.
struct IdentityIndex {
    private static let rowsWithoutSlots = 8
    /// Row + 1, zero for a free slot. The count is a power of two, and at most half of them are used.
    private var slots: [UInt32] = []
    /// By row: part of its hash, never zero; zero for a row without identity.
    private var tags: [UInt32] = []
    private var count = 0

    @inline(__always)
    static func hash(_ cells: UnsafePointer<Cell>, _ columns: [Int]) -> UInt64 {
        var state = Bytes.seed
        for column in columns {
            let cell = cells[column]
            state =
                cell.kind == .text || cell.kind == .blob
                ? Bytes.hash(cell.bytes, into: state) : Bytes.mix(state, UInt64(bitPattern: cell.integer))
        }
        return state
    }

    /// Returns the row for which `isSame` is true; nil when there is none.
    @inline(__always)
    func find(_ hash: UInt64, _ isSame: (Int) -> Bool) -> Int? {
        let tag = Self.tag(hash)
        guard !slots.isEmpty else {
            return tags.prefix(Self.rowsWithoutSlots).indices.first { tags[$0] == tag && isSame($0) }
        }
        var position = Int(truncatingIfNeeded: hash) & (slots.count - 1)
        while slots[position] != 0 {
            let row = Int(slots[position]) - 1
            if tags[row] == tag, isSame(row) { return row }
            position = (position + 1) & (slots.count - 1)
        }
        return nil
    }

    /// - Precondition: rows are inserted in order, 0, 1, 2 …, with ``skip()`` for those without identity.
    mutating func insert(_ hash: UInt64, row: Int, rehash: (Int) -> UInt64?) {
        count += 1
        guard !slots.isEmpty || row >= Self.rowsWithoutSlots else { return tags.append(Self.tag(hash)) }
        if count * 2 > slots.count { grow(rehash) }
        tags.append(Self.tag(hash))
        place(hash, row)
    }

    mutating func skip() { tags.append(0) }

    @inline(__always)
    private static func tag(_ hash: UInt64) -> UInt32 { max(1, UInt32(truncatingIfNeeded: hash >> 32)) }

    private mutating func place(_ hash: UInt64, _ row: Int) {
        var position = Int(truncatingIfNeeded: hash) & (slots.count - 1)
        while slots[position] != 0 { position = (position + 1) & (slots.count - 1) }
        slots[position] = UInt32(row + 1)
    }

    private mutating func grow(_ rehash: (Int) -> UInt64?) {
        slots = Array(repeating: 0, count: max(4 * Self.rowsWithoutSlots, slots.count * 2))
        for row in tags.indices where tags[row] != 0 {
            if let hash = rehash(row) { place(hash, row) }
        }
    }
}
