internal import BrokerModel
internal import Glibc

/// The memory of one table's cells, row after row, freed with its last reference.
///
/// Only the ``StagedTable`` that created it grows it; after ``StagedTable/freeze()``, which ends that table, it never
/// changes.
final class CellStorage: @unchecked Sendable {
    private(set) var cells: UnsafeMutablePointer<Cell> = UnsafeMutablePointer(bitPattern: MemoryLayout<Cell>.alignment)!
    private var isEmpty = true

    func grow(to count: Int) {
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
