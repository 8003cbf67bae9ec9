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
