package import BrokerModel
internal import Glibc

/// Memory for the results of conversions (dates, folded strings, blobs), in chunks that never move.
///
/// Append only; the arena frees all chunks at once.
struct ByteArena: ~Copyable {
    /// The first chunk; small, because small jobs need few bytes.
    private static let smallestChunk = 512
    private static let largestChunk = 1 << 20

    /// The memory; its owner may use cells that point into it. Nil until some is needed: many small jobs need none.
    private(set) var memory: ArenaMemory?
    private var free: UnsafeMutablePointer<UInt8>?
    private var freeCount = 0
    private var nextChunk = ByteArena.smallestChunk
    private var fresh = 0
    /// The budget for the patterns and tombstones of the arena's records.
    var workBudget = WorkBudget.staging
    /// The attribute cannot represent the latest converted value exactly (``ValueConverter/isInexact(_:_:)``). Only
    /// meaningful when the conversion succeeded.
    var isInexact = false
    /// The latest converted value is a text of a number with a plus or leading zeros, such as a postal code, which its number
    /// does not have.
    var isPadded = false

    init() {}

    /// Returns uninitialised memory for `count` bytes, valid until the arena is freed.
    mutating func allocate(_ count: Int) -> UnsafeMutableBufferPointer<UInt8> {
        if count > freeCount || free == nil { addChunk(atLeast: count) }
        let start = free!
        free = start + count
        freeCount -= count
        return UnsafeMutableBufferPointer(start: start, count: count)
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
    mutating func retain(_ object: any AnyObject & Sendable) { chunks().retained.append(object) }

    private mutating func chunks() -> ArenaMemory {
        let chunks = memory ?? ArenaMemory()
        memory = chunks
        return chunks
    }

    private mutating func addChunk(atLeast count: Int) {
        freeCount = max(count, nextChunk)
        nextChunk = min(nextChunk * 2, Self.largestChunk)
        fresh += freeCount
        free = chunks().add(freeCount)
    }
}

/// The chunks of an arena, freed together.
// Only the arena that created it adds chunks, before other threads read them.
final class ArenaMemory: @unchecked Sendable {
    private var chunks: [UnsafeMutablePointer<UInt8>] = []
    fileprivate(set) var retained: [any AnyObject & Sendable] = []

    deinit {
        for chunk in chunks { free(chunk) }
    }

    fileprivate func add(_ count: Int) -> UnsafeMutablePointer<UInt8> {
        guard let memory = malloc(count) else { preconditionFailure("out of memory for \(count) staged bytes") }
        let chunk = memory.assumingMemoryBound(to: UInt8.self)
        chunks.append(chunk)
        return chunk
    }
}

/// A limit on work, in units that are the same on every machine.
///
/// A unit is about one instruction of SQLite's virtual machine, 10 to 20 ns. Work is counted, not timed: a job that is replayed
/// must end as it did before.
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

    /// The share of one step of a job, by the bytes of its text: together the steps have the limit of the job.
    static func staging(_ bytes: Int, of total: Int) -> WorkBudget {
        guard bytes < total else { return staging }
        return WorkBudget(limit: total.dividingFullWidth(bytes.multipliedFullWidth(by: staging.limit)).quotient)
    }

    package var isSpent: Bool { spent > limit }

    package var remaining: Int { max(0, limit - spent) }

    package mutating func charge(_ units: Int) {
        spent = spent.saturatingAdd(units)
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

/// Counts the memory of a staging context, and asks the allowance in steps, so that a row costs no call.
struct StagingMemory {
    /// The first step, and the largest step beyond the memory that is needed: small jobs use little.
    private static let firstStep = 1 << 10
    private static let largestStep = 64 << 10

    private let allowance: (any StagingAllowance)?
    private var granted = 0
    private var used = 0

    /// - Parameter allowance: nil grants all.
    init(_ allowance: (any StagingAllowance)?) { self.allowance = allowance }

    /// Whether so much more may be used.
    @inline(__always)
    mutating func take(_ bytes: Int) -> Bool {
        used += bytes
        return used <= granted || ask()
    }

    private mutating func ask() -> Bool {
        guard let allowance else {
            granted = .max
            return true
        }
        let wanted = max(min(Self.largestStep, max(Self.firstStep, granted)), used - granted)
        guard allowance.take(wanted) else { return false }
        granted += wanted
        return true
    }
}

/// The memory that one job may still use. The threads that stage the job ask for it in steps, before they use it. Its
/// owner gives back the granted memory when it releases the job's rows.
package protocol StagingAllowance: AnyObject, Sendable {
    /// Whether `bytes` more may be used. If not, staging ends with `StagingRefusal.noRoom`.
    func take(_ bytes: Int) -> Bool
}

/// The reason why a job, or a part of it, was not staged.
package enum StagingRefusal: Error, Sendable {
    /// The job has a fault, and its policy is `fail`.
    case fault(Fault)
    /// The allowance refused the memory. Nothing was staged; a later attempt may succeed.
    case noRoom
}

/// A value that its attribute rejects. The caller adds the offset.
// Created, read and released on one thread while the value lives; an Error must be Sendable.
struct ValueFault: Error, @unchecked Sendable {
    let code: FaultCode
    private let sentence: () -> String

    /// - Parameters:
    ///   - message: built when it is read, because of a million bad values only the first are reported.
    ///   - code: `invalidValue` for a value of the wrong type, or one whose conversion would lose information;
    ///     `validationFailed` for one outside of the attribute's constraints.
    init(_ message: @autoclosure @escaping () -> String, code: FaultCode = .invalidValue) {
        self.code = code
        sentence = message
    }

    /// The value, the expected type, and the remedy where there is one.
    var message: String { sentence() }
}
