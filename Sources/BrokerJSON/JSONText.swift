internal import CSimdjson

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

/// The bytes of one JSON text, immutable, with the padding behind them that the parser wants.
///
/// Rows staged from a text point into it, so it lives until their merge is done: whoever holds a pointer holds the text.
package final class JSONText: Sendable {
    /// Bytes, without the padding.
    package let count: Int
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) private let start: UnsafeMutableRawPointer

    /// Takes over `start`, which must come from `malloc` and hold `count` bytes and ``padding`` more.
    fileprivate init(adopting start: UnsafeMutableRawPointer, count: Int) {
        self.start = start
        self.count = count
    }

    package init(copying bytes: UnsafeRawBufferPointer) {
        start = copy(bytes)
        count = bytes.count
    }

    package init(copying bytes: [UInt8]) {
        start = bytes.withUnsafeBytes { copy($0) }
        count = bytes.count
    }

    deinit { free(start) }

    /// Bytes of padding behind every text.
    package static var padding: Int { Int(BROKER_JSON_PADDING) }

    /// Valid while this text lives.
    package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: count) }
}

/// A growing buffer for a text of unknown length, never longer than `maximumCount`.
package struct JSONTextBuilder: ~Copyable {
    /// Bytes by which a large buffer grows: the system moves its pages, so that growing copies nothing.
    private static let largestStep = 4 << 20
    private static let smallestStep = 64
    /// Unused bytes for which a text is moved to a smaller place.
    private static let worthShrinking = 4 << 10

    package private(set) var count = 0
    package let maximumCount: Int
    private var capacity = 0
    private var start: UnsafeMutableRawPointer?
    private let firstCapacity: Int
    private let allowance: (any MemoryAllowance)?

    /// - Parameters:
    ///   - maximumCount: bytes beyond which ``withFreeSpace(atLeast:_:)`` offers none.
    ///   - capacity: bytes to begin with; only a hint, and no more than `maximumCount` of it is taken.
    ///   - allowance: asked for the memory; nil takes what it needs.
    package init(maximumCount: Int, capacity: Int = 4096, allowance: (any MemoryAllowance)? = nil) {
        self.maximumCount = maximumCount
        self.allowance = allowance
        firstCapacity = max(1, min(capacity, maximumCount))
    }

    deinit {
        free(start)
        allowance?.giveBack(capacity)
    }

    /// Makes room for `minimum` bytes more, or for what is left below ``maximumCount``.
    ///
    /// - Returns: false when the allowance was refused, or the system has no memory left.
    package mutating func reserve(_ minimum: Int) -> Bool {
        let wanted = min(minimum, maximumCount - count)
        guard capacity - count < wanted || start == nil else { return true }
        var step = start == nil ? firstCapacity : min(capacity, Self.largestStep)
        // Where there is no room for a whole step there may be for half of it. Never for so little that a text which comes
        // to its limit creeps up to it: each time costs as much as a large one.
        while !grow(to: min(maximumCount, max(count + wanted, capacity + step))) {
            guard step > Self.smallestStep, capacity + step > count + wanted else { return false }
            step /= 2
        }
        return true
    }

    private mutating func grow(to wanted: Int) -> Bool {
        let added = wanted - capacity
        guard allowance?.take(added) ?? true else { return false }
        guard let grown = realloc(start, wanted + JSONText.padding) else {
            allowance?.giveBack(added)
            return false
        }
        start = grown
        capacity = wanted
        return true
    }

    /// Lets `fill` write behind what is there, and counts what it says it wrote.
    ///
    /// The space is at least `minimum` bytes, unless ``maximumCount`` is nearer: then it is what is left, perhaps none.
    ///
    /// - Precondition: the memory can be had; ``reserve(_:)`` tells.
    package mutating func withFreeSpace<Failure: Error>(
        atLeast minimum: Int, _ fill: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) {
        guard reserve(minimum), let start else {
            preconditionFailure("out of memory for a JSON text of \(count + minimum) bytes")
        }
        let space = min(capacity, maximumCount) - count
        count += try fill(UnsafeMutableRawBufferPointer(start: start + count, count: space))
    }

    /// Appends what fits below ``maximumCount``.
    package mutating func append(_ bytes: UnsafeRawBufferPointer) {
        withFreeSpace(atLeast: bytes.count) { free in
            let fitting = bytes.prefix(free.count)
            free.copyBytes(from: fitting)
            return fitting.count
        }
    }

    /// Hands the bytes over as an immutable text.
    ///
    /// What was taken for them stays taken: ``JSONText/count`` bytes.
    package consuming func finish() -> JSONText {
        guard reserve(0), let start else { preconditionFailure("out of memory for an empty JSON text") }
        var held = start
        if capacity - count > Self.worthShrinking, let shrunk = realloc(start, count + JSONText.padding) {
            held = shrunk
        }
        allowance?.giveBack(capacity - count)
        // What is left for deinit to free and give back: nothing.
        self.start = nil
        capacity = 0
        return JSONText(adopting: held, count: count)
    }
}

/// `capacity` bytes and the padding.
private func allocate(_ capacity: Int) -> UnsafeMutableRawPointer {
    guard let start = malloc(capacity + JSONText.padding) else {
        preconditionFailure("out of memory for a JSON text of \(capacity) bytes")
    }
    return start
}

/// A copy of the bytes with the padding behind it.
private func copy(_ bytes: UnsafeRawBufferPointer) -> UnsafeMutableRawPointer {
    let start = allocate(bytes.count)
    if let source = bytes.baseAddress { start.copyMemory(from: source, byteCount: bytes.count) }
    return start
}
