/// Identity → row of one staged table: open addressing over row numbers, the cells themselves are the keys.
struct IdentityIndex {
    /// Row + 1, zero where free; a power of two of them, at most half full.
    private var slots: [UInt32] = []
    private var hashes: [UInt32] = []
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

    /// The row whose identity `isSame` recognises, nil when there is none.
    @inline(__always)
    func find(_ hash: UInt64, _ isSame: (Int) -> Bool) -> Int? {
        guard !slots.isEmpty else { return nil }
        let tag = UInt32(truncatingIfNeeded: hash >> 32)
        var position = Int(truncatingIfNeeded: hash) & (slots.count - 1)
        while slots[position] != 0 {
            let row = Int(slots[position]) - 1
            if hashes[row] == tag, isSame(row) { return row }
            position = (position + 1) & (slots.count - 1)
        }
        return nil
    }

    /// - Precondition: rows are inserted in order, 0, 1, 2 …, with ``skip()`` for those without identity.
    mutating func insert(_ hash: UInt64, row: Int, rehash: (Int) -> UInt64?) {
        if (count + 1) * 2 > slots.count { grow(rehash) }
        hashes.append(UInt32(truncatingIfNeeded: hash >> 32))
        place(hash, row)
        count += 1
    }

    mutating func skip() { hashes.append(0) }

    private mutating func place(_ hash: UInt64, _ row: Int) {
        var position = Int(truncatingIfNeeded: hash) & (slots.count - 1)
        while slots[position] != 0 { position = (position + 1) & (slots.count - 1) }
        slots[position] = UInt32(row + 1)
    }

    private mutating func grow(_ rehash: (Int) -> UInt64?) {
        slots = Array(repeating: 0, count: max(16, slots.count * 2))
        for row in hashes.indices {
            if let hash = rehash(row) { place(hash, row) }
        }
    }
}
