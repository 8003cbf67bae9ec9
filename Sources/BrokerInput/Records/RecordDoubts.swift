import Glibc

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
