internal import Glibc

/// Bytes that conversions make (dates, folded strings, blobs), kept in chunks so that they never move.
///
/// Append only; everything is freed at once with the arena.
struct ByteArena: ~Copyable {
    /// Small jobs make few bytes, and many chunks.
    private static let smallestChunk = 512
    private static let largestChunk = 1 << 20

    private let chunks = ArenaChunks()
    private var free: UnsafeMutablePointer<UInt8>?
    private var freeCount = 0
    private var nextChunk = ByteArena.smallestChunk
    private var fresh = 0
    /// For the patterns and tombstones of the records whose values lie here.
    var workBudget = WorkBudget.staging
    /// A value was converted that its attribute does not hold exactly (``ValueConverter/isInexact(_:_:)``). Cleared by the
    /// caller of the conversion.
    var isInexact = false

    init() {}

    /// Room for `count` bytes, uninitialised, at a place that stays until the arena goes.
    mutating func allocate(_ count: Int) -> UnsafeMutableBufferPointer<UInt8> {
        if count > freeCount || free == nil { addChunk(atLeast: count) }
        let start = free!
        free = start + count
        freeCount -= count
        return UnsafeMutableBufferPointer(start: start, count: count)
    }

    /// Gives back the end of the newest allocation: `unused` bytes of it were not needed.
    mutating func giveBack(_ unused: Int) {
        free = free.map { $0 - unused }
        freeCount += unused
    }

    /// Bytes of memory that were taken since this was asked last.
    mutating func takeFresh() -> Int {
        defer { fresh = 0 }
        return fresh
    }

    /// A copy of the bytes that stays until the arena goes.
    mutating func store(_ bytes: some Collection<UInt8>) -> UnsafeBufferPointer<UInt8> {
        let space = allocate(bytes.count)
        _ = space.initialize(fromContentsOf: bytes)
        return UnsafeBufferPointer(space)
    }

    /// The same value; what it points at lies here.
    mutating func copy(of cell: Cell) -> Cell {
        switch cell.kind {
        case .text: .text(store(cell.bytes))
        case .blob: .blob(store(cell.bytes))
        default: cell
        }
    }

    /// Keeps something as long as the memory.
    func hold(_ object: any AnyObject & Sendable) { chunks.hold(object) }

    /// Hands the memory over; whoever holds it may use what points into it.
    consuming func release() -> ArenaChunks { chunks }

    private mutating func addChunk(atLeast count: Int) {
        freeCount = max(count, nextChunk)
        nextChunk = min(nextChunk * 2, Self.largestChunk)
        fresh += freeCount
        guard let chunk = malloc(freeCount) else { preconditionFailure("out of memory for \(freeCount) staged bytes") }
        free = chunk.assumingMemoryBound(to: UInt8.self)
        chunks.append(free!)
    }
}

/// The memory of an arena, freed with its last holder.
///
/// Grown by the one arena that made it; from ``ByteArena/release()`` on, which ends that arena, it never changes.
final class ArenaChunks: @unchecked Sendable {
    private var chunks: [UnsafeMutablePointer<UInt8>] = []

    private var held: [any AnyObject & Sendable] = []

    fileprivate func hold(_ object: any AnyObject & Sendable) { held.append(object) }

    fileprivate func append(_ chunk: UnsafeMutablePointer<UInt8>) { chunks.append(chunk) }

    deinit {
        for chunk in chunks { free(chunk) }
    }
}
