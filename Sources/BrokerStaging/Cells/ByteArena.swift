internal import Glibc

/// Memory for the results of conversions (dates, folded strings, blobs), in chunks that never move.
///
/// Append only; the arena frees all chunks at once.
struct ByteArena: ~Copyable {
    /// The first chunk; small, because small jobs need few bytes.
    private static let smallestChunk = 512
    private static let largestChunk = 1 << 20

    /// Nil until memory is needed: many small jobs need none.
    private var chunks: ArenaChunks?
    private var free: UnsafeMutablePointer<UInt8>?
    private var freeCount = 0
    private var nextChunk = ByteArena.smallestChunk
    private var fresh = 0
    /// The budget for the patterns and tombstones of the arena's records.
    var workBudget = WorkBudget.staging
    /// The attribute cannot represent the latest converted value exactly (``ValueConverter/isInexact(_:_:)``). Only
    /// meaningful when the conversion succeeded.
    var isInexact = false

    init() {}

    /// Returns uninitialised memory for `count` bytes, valid until the arena is freed.
    mutating func allocate(_ count: Int) -> UnsafeMutableBufferPointer<UInt8> {
        if count > freeCount || free == nil { addChunk(atLeast: count) }
        let start = free!
        free = start + count
        freeCount -= count
        return UnsafeMutableBufferPointer(start: start, count: count)
    }

    /// Gives back the last `unused` bytes of the latest allocation.
    mutating func giveBack(_ unused: Int) {
        free = free.map { $0 - unused }
        freeCount += unused
    }

    /// Returns the memory in bytes that was allocated since the last call.
    mutating func takeFresh() -> Int {
        defer { fresh = 0 }
        return fresh
    }

    /// Returns a copy of the bytes, valid until the arena is freed.
    mutating func store(_ bytes: some Collection<UInt8>) -> UnsafeBufferPointer<UInt8> {
        let space = allocate(bytes.count)
        _ = space.initialize(fromContentsOf: bytes)
        return UnsafeBufferPointer(space)
    }

    /// Returns the cell with a copy of its bytes in the arena.
    mutating func copy(of cell: Cell) -> Cell {
        switch cell.kind {
        case .text: .text(store(cell.bytes))
        case .blob: .blob(store(cell.bytes))
        default: cell
        }
    }

    /// Retains an object as long as the memory.
    mutating func retain(_ object: any AnyObject & Sendable) {
        let retaining = chunks ?? ArenaChunks(0)
        chunks = retaining
        retaining.retain(object)
    }

    /// The memory; its owner may use cells that point into it. Nil when there is none.
    var memory: ArenaChunks? { chunks }

    private mutating func addChunk(atLeast count: Int) {
        freeCount = max(count, nextChunk)
        nextChunk = min(nextChunk * 2, Self.largestChunk)
        fresh += freeCount
        if let chunks {
            free = chunks.add(freeCount)
        } else {
            let made = ArenaChunks(freeCount)
            chunks = made
            free = made.own
        }
    }
}

/// The memory of an arena, freed with its last copy: its first chunk is in the object itself.
///
/// Only the arena that created it adds chunks, before other threads read them.
struct ArenaChunks: @unchecked Sendable {
    private struct Others {
        var chunks: [UnsafeMutablePointer<UInt8>] = []
        var retained: [any AnyObject & Sendable] = []
    }

    private final class Storage: ManagedBuffer<Others, UInt8> {
        deinit {
            for chunk in header.chunks { free(chunk) }
        }
    }

    private let storage: Storage

    /// - Parameter count: bytes of the first chunk.
    fileprivate init(_ count: Int) {
        storage = unsafeDowncast(Storage.create(minimumCapacity: count) { _ in Others() }, to: Storage.self)
    }

    /// The first chunk; valid as long as this memory.
    fileprivate var own: UnsafeMutablePointer<UInt8> { storage.withUnsafeMutablePointerToElements { $0 } }

    fileprivate func retain(_ object: any AnyObject & Sendable) { storage.header.retained.append(object) }

    fileprivate func add(_ count: Int) -> UnsafeMutablePointer<UInt8> {
        guard let memory = malloc(count) else { preconditionFailure("out of memory for \(count) staged bytes") }
        let chunk = memory.assumingMemoryBound(to: UInt8.self)
        storage.header.chunks.append(chunk)
        return chunk
    }
}

/// A limit on work, in units that are the same on every machine.
///
/// A unit is about one instruction of SQLite's virtual machine, 10 to 20 ns. Work is counted, not timed: a job that is
/// replayed from the journal must end as it did before.
package struct WorkBudget: Sendable {
    /// Compiling a regular expression takes 5 us for each of its instructions.
    package static let unitsPerCompiledInstruction = 250

    package let limit: Int
    package private(set) var spent = 0

    package init(limit: Int) { self.limit = limit }

    /// For work with another limit, such as the time allowance of a fetch.
    package static var unlimited: WorkBudget { WorkBudget(limit: .max) }

    /// The budget for patterns and tombstones while a job is staged: some seconds of a worker.
    static var staging: WorkBudget { WorkBudget(limit: 250_000_000) }

    /// The share of one part of a job. Parts are staged at the same time and in any order, so each has a limit of its
    /// own, and together they have the limit of the job.
    ///
    /// - Parameters:
    ///   - bytes: size of the part's text.
    ///   - total: size of the job's text.
    static func staging(_ bytes: Int, of total: Int) -> WorkBudget {
        guard bytes < total else { return staging }
        return WorkBudget(limit: total.dividingFullWidth(bytes.multipliedFullWidth(by: staging.limit)).quotient)
    }

    package var isSpent: Bool { spent > limit }

    package var remaining: Int { max(0, limit - spent) }

    package mutating func charge(_ units: Int) {
        let (sum, isBeyondCounting) = spent.addingReportingOverflow(units)
        spent = isBeyondCounting ? .max : sum
    }

    /// Adds the units for the bytes of the job itself.
    package mutating func raise(by units: Int) { self = WorkBudget(limit: limit.saturatingAdd(units), spent: spent) }

    private init(limit: Int, spent: Int) {
        self.limit = limit
        self.spent = spent
    }
}

extension Int {
    fileprivate func saturatingAdd(_ other: Int) -> Int {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }
}

/// One column's value of one staged row: sixteen bytes, no ownership.
///
/// Text and blobs point into memory that the staged rows own: the job's text, its unescaped strings or the context's
/// own `ByteArena`. A cell is therefore valid exactly as long as its ``StagedRows``.
///
/// A link's cell also has the source offset of its record, so that the later assertion wins in whichever order staging
/// reads them.
// Public only for speed, like the types of rows and of JSON values: as `package`, a load that changes nothing was 20 % slower.
@frozen public struct Cell {
    @frozen public enum Kind: UInt8 {
        /// The record lacks the value: the column does not change.
        case absent = 0
        case null = 1
        case integer = 2
        case real = 3
        case text = 4
        case blob = 5
        /// A link: the payload is the row of the destination's staged table.
        case object = 6
    }

    public let kind: Kind
    /// Number of bytes of text or blob; for a link, the source offset.
    public let count: UInt32
    @usableFromInline let payload: UInt64

    @inlinable init(kind: Kind, count: UInt32 = 0, payload: UInt64 = 0) {
        self.kind = kind
        self.count = count
        self.payload = payload
    }

    @inlinable public static var absent: Cell { Cell(kind: .absent) }
    @inlinable public static var null: Cell { Cell(kind: .null) }
    @inlinable public static func integer(_ value: Int64) -> Cell {
        Cell(kind: .integer, payload: UInt64(bitPattern: value))
    }
    /// Zero has one form, as in SQLite's comparisons: -0.0 becomes 0.0.
    @inlinable public static func real(_ value: Double) -> Cell {
        Cell(kind: .real, payload: value == 0 ? 0 : value.bitPattern)
    }
    @inlinable public static func text(_ bytes: UnsafeBufferPointer<UInt8>) -> Cell {
        Cell(kind: .text, count: UInt32(bytes.count), payload: UInt64(UInt(bitPattern: bytes.baseAddress)))
    }
    @inlinable public static func blob(_ bytes: UnsafeBufferPointer<UInt8>) -> Cell {
        Cell(kind: .blob, count: UInt32(bytes.count), payload: UInt64(UInt(bitPattern: bytes.baseAddress)))
    }
    /// A link to the destination's staged row.
    @inlinable static func object(row: Int, sourceOffset: UInt32) -> Cell {
        Cell(kind: .object, count: sourceOffset, payload: UInt64(row))
    }
    /// A link that ended.
    @inlinable static func unlinked(sourceOffset: UInt32) -> Cell { Cell(kind: .null, count: sourceOffset) }

    @inlinable public var integer: Int64 { Int64(bitPattern: payload) }
    @inlinable public var real: Double { Double(bitPattern: payload) }
    @inlinable public var row: Int { Int(payload) }
    /// For a link: the offset in the text of the record that asserted it.
    @inlinable var sourceOffset: UInt32 { count }
    /// For text and blob only.
    @inlinable public var bytes: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: UnsafePointer(bitPattern: UInt(payload)), count: Int(count))
    }
}

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
