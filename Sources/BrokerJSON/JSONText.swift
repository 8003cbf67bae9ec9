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
public final class JSONText: Sendable {
    /// Bytes, without the padding.
    public let count: Int
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) private let start: UnsafeMutableRawPointer

    /// Takes over `start`, which must come from `malloc` and hold `count` bytes and ``padding`` more.
    fileprivate init(adopting start: UnsafeMutableRawPointer, count: Int) {
        self.start = start
        self.count = count
    }

    public init(copying bytes: UnsafeRawBufferPointer) {
        start = copy(bytes)
        count = bytes.count
    }

    public init(copying bytes: [UInt8]) {
        start = bytes.withUnsafeBytes { copy($0) }
        count = bytes.count
    }

    deinit { free(start) }

    /// Bytes of padding behind every text.
    public static var padding: Int { Int(BROKER_JSON_PADDING) }

    /// Valid while this text lives.
    public var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: count) }
}

/// A growing buffer for a text of unknown length, never longer than `maximumCount`.
public struct JSONTextBuilder: ~Copyable {
    public private(set) var count = 0
    public let maximumCount: Int
    private var capacity: Int
    private var start: UnsafeMutableRawPointer

    /// - Parameters:
    ///   - maximumCount: bytes beyond which ``withFreeSpace(atLeast:_:)`` offers none.
    ///   - capacity: bytes to begin with; only a hint, and no more than `maximumCount` of it is taken.
    public init(maximumCount: Int, capacity: Int = 4096) {
        self.maximumCount = maximumCount
        self.capacity = max(1, min(capacity, maximumCount))
        start = allocate(self.capacity, replacing: nil)
    }

    deinit { free(start) }

    /// Lets `fill` write behind what is there, and counts what it says it wrote.
    ///
    /// The space is at least `minimum` bytes, unless ``maximumCount`` is nearer: then it is what is left, perhaps none.
    public mutating func withFreeSpace<Failure: Error>(
        atLeast minimum: Int, _ fill: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) {
        let wanted = min(minimum, maximumCount - count)
        if capacity - count < wanted {
            capacity = min(maximumCount, max(count + wanted, capacity * 2))
            start = allocate(capacity, replacing: start)
        }
        let space = min(capacity, maximumCount) - count
        count += try fill(UnsafeMutableRawBufferPointer(start: start + count, count: space))
    }

    /// Appends what fits below ``maximumCount``.
    public mutating func append(_ bytes: UnsafeRawBufferPointer) {
        withFreeSpace(atLeast: bytes.count) { free in
            let fitting = bytes.prefix(free.count)
            free.copyBytes(from: fitting)
            return fitting.count
        }
    }

    /// Hands the bytes over as an immutable text.
    public consuming func finish() -> JSONText {
        let text = JSONText(adopting: start, count: count)
        discard self
        return text
    }
}

/// `capacity` bytes and the padding, holding what `old` held; `old` is gone.
private func allocate(_ capacity: Int, replacing old: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer {
    guard let start = realloc(old, capacity + JSONText.padding) else {
        preconditionFailure("out of memory for a JSON text of \(capacity) bytes")
    }
    return start
}

/// A copy of the bytes with the padding behind it.
private func copy(_ bytes: UnsafeRawBufferPointer) -> UnsafeMutableRawPointer {
    let start = allocate(bytes.count, replacing: nil)
    if let source = bytes.baseAddress { start.copyMemory(from: source, byteCount: bytes.count) }
    return start
}
