internal import CTape

#if canImport(Glibc)
internal import Glibc
#else
internal import Darwin
#endif

/// The bytes of one JSON text, immutable, followed by the padding that the parser needs.
///
/// Rows staged from a text point into it, so it must exist until they are merged: an owner of a pointer retains the
/// text.
// Immutable after init, and freed with the last copy, so it may be read from any thread.
public struct JSONText: @unchecked Sendable {
    /// Owns the bytes: those after its header, or others.
    private final class Storage: ManagedBuffer<UnsafeMutableRawPointer?, UInt8> {
        deinit { withUnsafeMutablePointerToHeader { free($0.pointee) } }
    }

    /// The number of bytes, without the padding.
    public let count: Int
    private let start: UnsafeMutableRawPointer
    private let storage: Storage

    /// Takes ownership of `start`, which must come from `malloc` and have room for `count` bytes and ``padding`` more.
    fileprivate init(adopting start: UnsafeMutableRawPointer, count: Int) {
        storage = unsafeDowncast(Storage.create(minimumCapacity: 0) { _ in start }, to: Storage.self)
        self.start = start
        self.count = count
    }

    public init(copying bytes: UnsafeRawBufferPointer) {
        let made = Storage.create(minimumCapacity: bytes.count + Self.padding) { _ in nil }
        storage = unsafeDowncast(made, to: Storage.self)
        start = storage.withUnsafeMutablePointerToElements { UnsafeMutableRawPointer($0) }
        count = bytes.count
        if let source = bytes.baseAddress { start.copyMemory(from: source, byteCount: count) }
    }

    public init(copying bytes: [UInt8]) { self = bytes.withUnsafeBytes { JSONText(copying: $0) } }

    /// Bytes of padding after every text.
    public static var padding: Int { Int(BROKER_JSON_PADDING) }

    /// Valid as long as this text.
    public var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: count) }
}

/// A growing buffer for a text of unknown length, at most `maximumCount` bytes.
public struct JSONTextBuilder: ~Copyable {
    /// Bytes by which a large buffer grows: the kernel moves its pages, so that growing copies nothing.
    private static let largestStep = 4 << 20
    private static let smallestStep = 64
    /// The unused bytes from which a text is moved to a smaller allocation.
    private static let worthShrinking = 4 << 10

    public private(set) var count = 0
    public let maximumCount: Int
    private var capacity = 0
    private var start: UnsafeMutableRawPointer?
    private let firstCapacity: Int
    private let allowance: (any MemoryAllowance)?

    /// - Parameters:
    ///   - maximumCount: ``withFreeSpace(atLeast:_:)`` never exceeds this number of bytes.
    ///   - capacity: the bytes of the first allocation, at most `maximumCount`; a hint.
    ///   - allowance: asked for the memory; nil takes memory without asking.
    public init(maximumCount: Int, capacity: Int = 4096, allowance: (any MemoryAllowance)? = nil) {
        self.maximumCount = maximumCount
        self.allowance = allowance
        firstCapacity = max(1, min(capacity, maximumCount))
    }

    deinit {
        free(start)
        allowance?.giveBack(capacity)
    }

    /// Reserves `minimum` more bytes, or the rest up to ``maximumCount``.
    ///
    /// - Returns: false when the allowance was refused, or the system has no memory left.
    public mutating func reserve(_ minimum: Int) -> Bool {
        let wanted = min(minimum, maximumCount - count)
        guard capacity - count < wanted || start == nil else { return true }
        var step = start == nil ? firstCapacity : min(capacity, Self.largestStep)
        // Where there is no memory for a whole step there may be enough for half of it. The step never becomes very
        // small: near the limit each small step would cost as much as a large one.
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

    /// Lets `fill` write after the present bytes, and adds the count that it returns.
    ///
    /// The space has at least `minimum` bytes, or the rest up to ``maximumCount``, which may be 0.
    ///
    /// - Precondition: the memory is available; see ``reserve(_:)``.
    public mutating func withFreeSpace<Failure: Error>(
        atLeast minimum: Int, _ fill: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) {
        guard reserve(minimum), let start else {
            preconditionFailure("out of memory for a JSON text of \(count + minimum) bytes")
        }
        let space = min(capacity, maximumCount) - count
        count += try fill(UnsafeMutableRawBufferPointer(start: start + count, count: space))
    }

    /// Returns the bytes as an immutable text, which owns them.
    ///
    /// The allowance for ``JSONText/count`` bytes stays taken.
    public consuming func finish() -> JSONText {
        guard reserve(0), let start else { preconditionFailure("out of memory for an empty JSON text") }
        var held = start
        if capacity - count > Self.worthShrinking, let shrunk = realloc(start, count + JSONText.padding) {
            held = shrunk
        }
        allowance?.giveBack(capacity - count)
        // Leaves nothing for deinit to free or to give back.
        self.start = nil
        capacity = 0
        return JSONText(adopting: held, count: count)
    }
}

extension JSONText {
    /// A copy in which every comma between a value and a closing bracket is a space, so that all positions stay the
    /// same.
    ///
    /// Commas that follow no value (`[,]`, `[1,,]`, `{"a":,}`) stay, and the parser refuses them. Nil when the text has
    /// no comma to replace.
    public func blankingTrailingCommas() -> JSONText? {
        var commas: [Int] = []
        var lastComma: Int?
        var followsValue = false
        var isInString = false
        var isEscaped = false
        for (offset, byte) in bytes.enumerated() {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"): continue
            case UInt8(ascii: ","):
                lastComma = followsValue ? offset : nil
                followsValue = false
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                if let lastComma { commas.append(lastComma) }
                lastComma = nil
                followsValue = true
            case UInt8(ascii: "["), UInt8(ascii: "{"), UInt8(ascii: ":"):
                lastComma = nil
                followsValue = false
            default:
                isInString = byte == UInt8(ascii: "\"")
                lastComma = nil
                followsValue = true
            }
        }
        guard !commas.isEmpty else { return nil }
        var copy = Array(bytes)
        for comma in commas { copy[comma] = UInt8(ascii: " ") }
        return JSONText(copying: copy)
    }
}

/// An amount of memory that its users may still take. Each asks before it allocates, from any thread.
public protocol MemoryAllowance: AnyObject, Sendable {
    /// Takes `bytes` if they are available; returns whether they were.
    func take(_ bytes: Int) -> Bool

    func giveBack(_ bytes: Int)
}

/// Why a text was not parsed.
public enum JSONRefusal: Error, Sendable {
    case fault(JSONError)
    /// The allowance was refused, or the system has no memory left. No memory stays taken, and the caller may try
    /// again.
    case noRoom
}
