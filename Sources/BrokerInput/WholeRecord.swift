/// An object or array that is whole in a piece of JSON, found in one pass.
///
/// It has the grammar of ``RecordCutter``, which reads what is refused here: faults, and what continues in the next piece.
struct WholeRecord {
    private(set) var end: Int
    /// As in ``RecordCutter``: only the parser can decide.
    private(set) var isDoubtful = false
    /// The line ends in it, and the position after the last one.
    private(set) var lines = 0
    private(set) var lineStart = 0

    private let bytes: UnsafeBufferPointer<UInt8>

    private static let deepest = 64

    init?(in piece: UnsafeBufferPointer<UInt8>, from start: Int) {
        (bytes, end) = (piece, start)
        guard next == UInt8(ascii: "{") || next == UInt8(ascii: "["), takeValue() else { return nil }
    }

    /// 0 at the end, which no JSON has outside of a string.
    @inline(__always) private var next: UInt8 { end < bytes.count ? bytes[end] : 0 }

    private mutating func takeValue() -> Bool {
        // A bit for each open container, set for an object; the lowest is that of the innermost.
        var (objects, depth) = (UInt64(0), 0)
        while true {
            switch next {
            case UInt8(ascii: "\""): guard takeString() else { return false }
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                guard depth < Self.deepest else { return false }
                let isObject = next == UInt8(ascii: "{")
                end += 1
                takeSpace()
                if next == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
                    end += 1
                    break
                }
                (objects, depth) = (objects << 1 | (isObject ? 1 : 0), depth + 1)
                guard !isObject || takeKey() else { return false }
                continue
            default: guard takeScalar() else { return false }
            }
            // After a value.
            while depth > 0 {
                takeSpace()
                let (byte, isObject) = (next, objects & 1 == 1)
                end += 1
                if byte == UInt8(ascii: ",") {
                    takeSpace()
                    guard !isObject || takeKey() else { return false }
                    break
                }
                guard byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { return false }
                (objects, depth) = (objects >> 1, depth - 1)
            }
            if depth == 0 { return true }
        }
    }

    @inline(__always) private mutating func takeSpace() {
        while next <= 0x20, next.isJSONSpace {
            end += 1
            if bytes[end - 1] == UInt8(ascii: "\n") { (lines, lineStart) = (lines + 1, end) }
        }
    }

    /// A key with its colon, up to the value.
    @inline(__always) private mutating func takeKey() -> Bool {
        guard next == UInt8(ascii: "\""), takeString() else { return false }
        takeSpace()
        guard next == UInt8(ascii: ":") else { return false }
        end += 1
        takeSpace()
        return true
    }

    @inline(__always) private mutating func takeString() -> Bool {
        end += 1
        while true {
            end = Self.plainEnd(bytes, from: end, &isDoubtful)
            switch next {
            case UInt8(ascii: "\""):
                end += 1
                return true
            case UInt8(ascii: "\\"):
                isDoubtful = true
                end += 1
                guard next >= 0x20 else { return false }
                end += 1
            default: return false
            }
        }
    }

    /// A number or a literal that another byte follows.
    @inline(__always) private mutating func takeScalar() -> Bool {
        let start = end
        if next == UInt8(ascii: "-") { end += 1 }
        let isZero = next == UInt8(ascii: "0")
        var (first, isNumber) = (end, true)
        while next.isDigit { end += 1 }
        if end == first || isZero && end > first + 1 { isNumber = false }
        if next == UInt8(ascii: ".") {
            end += 1
            first = end
            while next.isDigit { end += 1 }
            if end == first { isNumber = false }
        }
        if !isNumber || next.isScalar {
            while next.isScalar { end += 1 }
            guard end > start else { return false }
            if !Self.isSound(bytes[start..<end]) { isDoubtful = true }
        }
        guard end < bytes.count else { return false }
        return true
    }

    /// Moves over bytes that mean nothing in a string, eight at a time: all but control characters, quotes and backslashes.
    ///
    /// - Parameter isDoubtful: set where one of them is not ASCII.
    static func plainEnd(_ piece: UnsafeBufferPointer<UInt8>, from start: Int, _ isDoubtful: inout Bool) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let bytes = UnsafeRawBufferPointer(piece)
        var index = start
        while index + 8 <= bytes.count {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            let (quotes, escapes) = (word ^ ones &* 0x22, word ^ ones &* 0x5C)
            // The highest bit of the first byte that has a meaning is set, and of none before it.
            let quoteOrEscape = ((quotes &- ones) & ~quotes) | ((escapes &- ones) & ~escapes)
            let marks = (quoteOrEscape | ((word &- ones &* 0x20) & ~word)) & ones << 7
            let plain = marks == 0 ? ~0 : (marks & (0 &- marks)) &- 1
            if word & ones << 7 & plain != 0 { isDoubtful = true }
            guard marks == 0 else { return index + marks.trailingZeroBitCount / 8 }
            index += 8
        }
        while index < bytes.count, bytes[index] >= 0x20, bytes[index] != UInt8(ascii: "\""),
            bytes[index] != UInt8(ascii: "\\")
        {
            if bytes[index] >= 0x80 { isDoubtful = true }
            index += 1
        }
        return index
    }

    /// A literal, or a number without an exponent. Of all else the parser decides.
    static func isSound(_ scalar: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        let digits = scalar.first == UInt8(ascii: "-") ? scalar.dropFirst() : scalar
        guard let first = digits.first, first.isDigit else { return literals.contains { scalar.elementsEqual($0) } }
        let whole = digits.prefix { $0 != UInt8(ascii: ".") }
        let fraction = digits[whole.endIndex...].dropFirst()
        return (whole.count == 1 || first != UInt8(ascii: "0")) && digits.last != UInt8(ascii: ".")
            && whole.allSatisfy(\.isDigit) && fraction.allSatisfy(\.isDigit)
    }

    private static let literals = ["true", "false", "null"].map { Array($0.utf8) }
}
