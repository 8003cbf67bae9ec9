import Glibc

/// Searches for the end of a run of bytes, several bytes at a time. Never reads past `end`.
extension UnsafePointer<UInt8> {
    /// Returns the first byte that is no plain byte of a JSON string (a quote, a backslash or a control character), or
    /// `end`.
    ///
    /// - Parameter doubts: noted when there are bytes that are not ASCII.
    @inline(__always)
    func stringEnd(from start: Int, to end: Int, _ doubts: inout RecordDoubts) -> Int {
        var index = start
        while end - index >= 8 {
            let word = UInt64(littleEndian: UnsafeRawPointer(self + index).loadUnaligned(as: UInt64.self))
            let ends = word.bytes(equal: UInt8(ascii: "\"")) | word.bytes(equal: UInt8(ascii: "\\")) | word.controls
            guard ends == 0 else {
                // Only the lowest mark is exact, and the searched byte is below it.
                let below = (ends & (0 &- ends)) &- 1
                if word & UInt64.highBits & below != 0 { doubts.insert(.notASCII) }
                return index + ends.trailingZeroBitCount / 8
            }
            if word & UInt64.highBits != 0 { doubts.insert(.notASCII) }
            index += 8
        }
        while index < end {
            let byte = self[index]
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte < 0x20 { return index }
            if byte >= 0x80 { doubts.insert(.notASCII) }
            index += 1
        }
        return index
    }

    /// Returns the end of the number or literal that begins at `start`: the first byte that cannot belong to one, or
    /// `end`.
    ///
    /// - Parameter doubts: noted when the bytes are neither a number nor a literal of RFC 8259.
    @inline(__always)
    func scalarEnd(from start: Int, to end: Int, _ doubts: inout RecordDoubts) -> Int {
        var index = numberEnd(from: start, to: end) ?? start
        if index > start, index < end, !self[index].isScalar { return index }
        while index < end, self[index].isScalar { index += 1 }
        if !isLiteral(from: start, to: index) { doubts.insert(.anything) }
        return index
    }

    /// Returns the end of a valid number that begins at `start`; nil when there is none.
    @inline(__always)
    private func numberEnd(from start: Int, to end: Int) -> Int? {
        var index = start
        if self[index] == UInt8(ascii: "-") { index += 1 }
        if index < end, self[index] == UInt8(ascii: "0") {
            index += 1
        } else {
            guard passDigits(&index, end) else { return nil }
        }
        guard index < end else { return index }
        if self[index] == UInt8(ascii: ".") {
            index += 1
            guard passDigits(&index, end) else { return nil }
        }
        if index < end, self[index] | 0x20 == UInt8(ascii: "e") {
            index += 1
            if index < end, self[index] == UInt8(ascii: "+") || self[index] == UInt8(ascii: "-") { index += 1 }
            guard passDigits(&index, end) else { return nil }
        }
        return index
    }

    /// False when there is no digit.
    @inline(__always)
    private func passDigits(_ index: inout Int, _ end: Int) -> Bool {
        let first = index
        while index < end, self[index] &- UInt8(ascii: "0") <= 9 { index += 1 }
        return index > first
    }

    private func isLiteral(from start: Int, to end: Int) -> Bool {
        switch (end - start, self[start]) {
        case (4, UInt8(ascii: "t")): isText("true", start)
        case (4, UInt8(ascii: "n")): isText("null", start)
        case (5, UInt8(ascii: "f")): isText("false", start)
        default: false
        }
    }

    private func isText(_ text: StaticString, _ start: Int) -> Bool {
        for index in 0..<text.utf8CodeUnitCount where self[start + index] != text.utf8Start[index] { return false }
        return true
    }
}

extension UInt64 {
    static let highBits: UInt64 = 0x8080_8080_8080_8080
    private static let ones: UInt64 = 0x0101_0101_0101_0101

    /// Marks the bytes equal to this one by their high bits. Above the lowest mark there may be wrong ones.
    fileprivate func bytes(equal byte: UInt8) -> UInt64 {
        let difference = self ^ (UInt64(byte) &* Self.ones)
        return (difference &- Self.ones) & ~difference & Self.highBits
    }

    /// Marks the bytes below 0x20 by their high bits. Above the lowest mark there may be wrong ones.
    fileprivate var controls: UInt64 { (self &- 0x20 &* Self.ones) & ~self & Self.highBits }
}

extension UInt8 {
    /// White space of JSON.
    @inline(__always)
    var isJSONSpace: Bool { self <= 0x20 && Self.spaces &>> UInt64(self) & 1 != 0 }

    /// A byte that may belong to a number or a literal: a letter, a digit, a sign or a dot.
    @inline(__always)
    var isScalar: Bool {
        self < 0x80 && (self < 0x40 ? Self.lowScalars : Self.highScalars) &>> UInt64(self & 0x3F) & 1 != 0
    }

    // One bit for each byte.
    private static let spaces: UInt64 = 1 << 0x20 | 1 << 0x09 | 1 << 0x0A | 1 << 0x0D
    private static let lowScalars: UInt64 = 0x03FF << 0x30 | 1 << 0x2B | 1 << 0x2D | 1 << 0x2E
    private static let highScalars: UInt64 = 0x03FF_FFFF << 1 | 0x03FF_FFFF << 33
}

/// The possible faults of a record whose brackets, keys and commas are valid.
struct RecordDoubts: OptionSet {
    let rawValue: UInt8

    /// Bytes that may not be UTF-8.
    static let notASCII = RecordDoubts(rawValue: 1)
    /// Escapes that may be invalid in JSON.
    static let escapes = RecordDoubts(rawValue: 2)
    /// A number or a literal that may be invalid, or was divided between two pieces.
    static let anything = RecordDoubts(rawValue: 4)

    /// Checks the record again; true when it has no fault. False when only the parser can decide.
    func areDispelled(by json: ArraySlice<UInt8>) -> Bool {
        guard !isEmpty else { return true }
        guard !contains(.anything) else { return false }
        return json.withUnsafeBufferPointer { json in
            (!contains(.notASCII) || utf8FaultOffset(json) == nil) && (!contains(.escapes) || json.hasSoundEscapes)
        }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Every backslash begins an escape of RFC 8259, and surrogates come in pairs. The text's strings must be closed.
    fileprivate var hasSoundEscapes: Bool {
        var index = 0
        while let escape = firstIndex(of: UInt8(ascii: "\\"), from: index) {
            switch self[escape + 1] {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
                UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
                index = escape + 2
            case UInt8(ascii: "u"):
                guard let unit = codeUnit(at: escape), !UTF16.isTrailSurrogate(unit) else { return false }
                index = escape + 6
                guard UTF16.isLeadSurrogate(unit) else { continue }
                guard let trail = codeUnit(at: index), UTF16.isTrailSurrogate(trail) else { return false }
                index += 6
            default: return false
            }
        }
        return true
    }

    private func firstIndex(of byte: UInt8, from start: Int) -> Int? {
        guard let baseAddress, start < count, let found = memchr(baseAddress + start, CInt(byte), count - start) else {
            return nil
        }
        return UnsafeRawPointer(found) - UnsafeRawPointer(baseAddress)
    }

    /// The code unit of `\uXXXX` at that position; nil for any other text.
    private func codeUnit(at start: Int) -> UInt16? {
        guard start + 6 <= count, self[start] == UInt8(ascii: "\\"), self[start + 1] == UInt8(ascii: "u") else {
            return nil
        }
        var unit: UInt16 = 0
        for index in start + 2..<start + 6 {
            guard let digit = Character(UnicodeScalar(self[index])).hexDigitValue else { return nil }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }
}
