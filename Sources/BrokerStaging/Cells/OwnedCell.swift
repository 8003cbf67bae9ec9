internal import Glibc

/// A cell that owns the bytes it points to.
package final class OwnedCell: Sendable {
    /// Valid while this object lives.
    package let cell: Cell
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) private let start: UnsafeMutablePointer<UInt8>?

    /// Copies the bytes, so that `cell` need not outlive the call.
    package init(copying cell: Cell) {
        guard cell.kind == .text || cell.kind == .blob else {
            self.cell = cell
            start = nil
            return
        }
        // At least one byte, because a null pointer would be bound as NULL.
        guard let memory = malloc(max(Int(cell.count), 1)) else {
            preconditionFailure("out of memory for a constant of \(cell.count) bytes")
        }
        let start = memory.assumingMemoryBound(to: UInt8.self)
        if let source = cell.bytes.baseAddress { start.initialize(from: source, count: Int(cell.count)) }
        let bytes = UnsafeBufferPointer(start: start, count: Int(cell.count))
        self.start = start
        self.cell = cell.kind == .text ? .text(bytes) : .blob(bytes)
    }

    deinit { free(start) }
}
