internal import BrokerModel
internal import Glibc

/// The memory of one table's cells, row after row.
struct CellStorage: ~Copyable, @unchecked Sendable {
    // Only the owner reaches it: a ``StagedTable``, which grows it, then a ``FrozenTable``, which changes nothing.
    private(set) var cells: UnsafeMutablePointer<Cell> = UnsafeMutablePointer(bitPattern: MemoryLayout<Cell>.alignment)!
    private var isEmpty = true

    mutating func grow(to count: Int) {
        guard let grown = realloc(isEmpty ? nil : cells, max(1, count) * MemoryLayout<Cell>.stride) else {
            preconditionFailure("out of memory for \(count) staged cells")
        }
        cells = grown.assumingMemoryBound(to: Cell.self)
        isEmpty = false
    }

    deinit {
        if !isEmpty { free(cells) }
    }
}
