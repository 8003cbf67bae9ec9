/// Reads tokens from the front of a text of bytes. A token that is not there leaves the position as it is.
struct ByteScan {
    private let bytes: UnsafeBufferPointer<UInt8>
    private(set) var index = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    var isAtEnd: Bool { index == bytes.count }

    /// The next byte, 0 at the end.
    var next: UInt8 { index < bytes.count ? bytes[index] : 0 }

    mutating func take(_ byte: UInt8) -> Bool {
        guard index < bytes.count, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    /// Reads an ASCII word in any case.
    ///
    /// - Parameter word: in small letters.
    mutating func takeWord(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard bytes.count - index >= count else { return false }
        for position in 0..<count where bytes[index + position] | 0x20 != word.utf8Start[position] { return false }
        index += count
        return true
    }

    /// Reads one of the words, and returns its position among them.
    mutating func position(in words: [StaticString]) -> Int? {
        for position in words.indices where takeWord(words[position]) { return position }
        return nil
    }

    /// Reads a number of so many digits, and not more.
    mutating func number(_ count: Int, upTo most: Int? = nil) -> Int? {
        var value = 0
        var end = index
        while end < bytes.count, bytes[end].isDigit, end - index < (most ?? count) {
            value = value * 10 + Int(bytes[end] - UInt8(ascii: "0"))
            end += 1
        }
        guard end - index >= count else { return nil }
        index = end
        return value
    }

    /// Reads one digit or more.
    mutating func takeDigits() -> Bool {
        let start = index
        while index < bytes.count, bytes[index].isDigit { index += 1 }
        return index > start
    }

    /// Reads `03:35:21`.
    ///
    /// - Parameter isPrecise: the seconds may be missing, or have a fraction.
    mutating func takeTime(isPrecise: Bool = false) -> Bool {
        let start = index
        guard let hour = number(2), hour < 24, take(UInt8(ascii: ":")), let minute = number(2), minute < 60 else {
            index = start
            return false
        }
        guard take(UInt8(ascii: ":")) else { return isPrecise }
        guard let second = number(2), second < 60 else { return false }
        guard isPrecise, take(UInt8(ascii: ".")) || take(UInt8(ascii: ",")) else { return true }
        return takeDigits()
    }

    /// Reads `+02:00`, `+0200` or `+02`.
    mutating func takeOffset() -> Bool {
        guard take(UInt8(ascii: "+")) || take(UInt8(ascii: "-")), let hours = number(2), hours < 24 else {
            return false
        }
        let hasColon = take(UInt8(ascii: ":"))
        guard let minutes = number(2) else { return !hasColon }
        return minutes < 60
    }
}

extension UInt8 {
    var isDigit: Bool { self &- UInt8(ascii: "0") <= 9 }

    var isHexadecimalDigit: Bool { isDigit || (self | 0x20) &- UInt8(ascii: "a") < 6 }
}
