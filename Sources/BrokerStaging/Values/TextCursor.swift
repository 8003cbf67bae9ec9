/// Reads tokens from the front of a text of bytes; a token that is not there leaves the cursor unchanged.
struct TextCursor {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var index = 0
    /// Digits other than zero, beyond nanoseconds, were dropped.
    private(set) var hasDroppedDigits = false

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    var isAtEnd: Bool { index == bytes.count }

    /// The next byte, 0 at the end.
    var next: UInt8 { index < bytes.count ? bytes[index] : 0 }

    mutating func skip() { index += 1 }

    mutating func take(_ byte: UInt8) -> Bool {
        guard index < bytes.count, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    /// Reads ASCII letters, or only the first of them, in either case.
    mutating func take(anyCase letters: StaticString, first most: Int = .max) -> Bool {
        let count = min(letters.utf8CodeUnitCount, most)
        guard bytes.count - index >= count else { return false }
        for position in 0..<count where bytes[index + position] | 0x20 != letters.utf8Start[position] | 0x20 {
            return false
        }
        index += count
        return true
    }

    /// Reads a number of at least `minimum` and at most `maximum` digits, whatever follows.
    mutating func number(digits minimum: Int, upTo maximum: Int) -> Int? {
        var value = 0
        var end = index
        let limit = min(bytes.count, index + maximum)
        while end < limit {
            let digit = bytes[end] &- UInt8(ascii: "0")
            guard digit <= 9 else { break }
            value = value * 10 + Int(digit)
            end += 1
        }
        guard end - index >= minimum else { return nil }
        index = end
        return value
    }

    mutating func number(digits count: Int) -> Int? { number(digits: count, upTo: count) }

    /// Reads the digits after a decimal point as nanoseconds and drops further digits. At least one digit.
    mutating func nanoseconds(upTo maximum: Int = .max) -> Int? {
        let start = index
        var value = 0
        while index < bytes.count, index - start < maximum {
            let digit = bytes[index] &- UInt8(ascii: "0")
            guard digit <= 9 else { break }
            if index - start < 9 { value = value * 10 + Int(digit) } else if digit != 0 { hasDroppedDigits = true }
            index += 1
        }
        guard index > start else { return nil }
        for _ in min(index - start, 9)..<9 { value *= 10 }
        return value
    }

    /// Reads an offset in seconds east of UTC, written `Z`, `+07:00`, `+0700` or `+07`.
    mutating func zoneOffset() -> Int? {
        if take(UInt8(ascii: "Z")) || take(UInt8(ascii: "z")) { return 0 }
        let start = index
        let isWest = take(UInt8(ascii: "-"))
        guard isWest || take(UInt8(ascii: "+")), let hours = number(digits: 2), hours < 24 else {
            index = start
            return nil
        }
        let hasColon = take(UInt8(ascii: ":"))
        let minutes = number(digits: 2)
        guard let minutes = minutes ?? (hasColon ? nil : 0), minutes < 60 else {
            index = start
            return nil
        }
        return (hours * 3600 + minutes * 60) * (isWest ? -1 : 1)
    }
}
