/// A stack of cells for records being converted; an inner record is above the outer ones.
struct ScratchStack: ~Copyable {
    private var cells: UnsafeMutableBufferPointer<Cell>
    private var depth = 0
    private var hasGrown = false

    /// - Parameter cells: initialised; used as long as they suffice, and not freed.
    init(_ cells: UnsafeMutableBufferPointer<Cell>) { self.cells = cells }

    deinit { if hasGrown { cells.deallocate() } }

    /// Pushes `count` absent cells and returns the index of the first.
    mutating func push(_ count: Int) -> Int {
        let base = depth
        depth += count
        if cells.count < depth { grow() }
        for index in base..<depth { cells[index] = .absent }
        return base
    }

    mutating func pop(_ count: Int) { depth -= count }

    private mutating func grow() {
        let larger = UnsafeMutableBufferPointer<Cell>.allocate(capacity: 2 * depth)
        larger.initialize(repeating: .absent)
        _ = larger.update(fromContentsOf: cells)
        if hasGrown { cells.deallocate() }
        cells = larger
        hasGrown = true
    }

    subscript(index: Int) -> Cell {
        @inline(__always) get { cells[index] }
        @inline(__always) nonmutating set { cells[index] = newValue }
    }

    func withCells<Result, Failure: Error>(
        at base: Int, _ body: (UnsafePointer<Cell>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafePointer(cells.baseAddress! + base))
    }
}
