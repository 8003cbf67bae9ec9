internal import BrokerModel
internal import Glibc

/// The memory of one table's cells, row after row.
struct CellStorage: ~Copyable, @unchecked Sendable {
    // Only the owner reaches it: a ``StagedTable``, which grows it until it is frozen.
    private(set) var cells: UnsafeMutablePointer<Cell>
    private var isAllocated = false

    init() { cells = UnsafeMutablePointer(bitPattern: MemoryLayout<Cell>.alignment)! }

    /// - Parameter space: the first memory, which another object owns.
    init(in space: UnsafeMutablePointer<Cell>) { cells = space }

    /// - Parameter used: cells to retain.
    mutating func grow(from used: Int, to count: Int) {
        let bytes = max(1, count) * MemoryLayout<Cell>.stride
        guard let grown = isAllocated ? realloc(cells, bytes) : malloc(bytes) else {
            preconditionFailure("out of memory for \(count) staged cells")
        }
        if !isAllocated { memcpy(grown, cells, used * MemoryLayout<Cell>.stride) }
        cells = grown.assumingMemoryBound(to: Cell.self)
        isAllocated = true
    }

    deinit {
        if isAllocated { free(cells) }
    }
}
