import BrokerModel

/// The transforms of an attribute, in their order.
///
/// White space has no case, so trimming comes first, wherever the model lists it.
struct TextTransform: Sendable {
    private enum CaseChange {
        case upper, lower
    }

    private let trims: Bool
    private let caseChanges: [CaseChange]
    /// The effect on ASCII: there only the last change shows.
    private let lastChange: CaseChange?

    /// Returns nil for an empty list.
    init?(_ transforms: [Transform]) {
        guard !transforms.isEmpty else { return nil }
        trims = transforms.contains(.trim)
        caseChanges = transforms.compactMap { transform in
            switch transform {
            case .trim: nil
            case .uppercase: .upper
            case .lowercase: .lower
            }
        }
        lastChange = caseChanges.last
    }

    /// Returns the text itself or a part of it if that suffices; otherwise a copy in the arena.
    func apply(to text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        let text = trims ? WhiteSpace.trim(text) : text
        guard let lastChange else { return text }
        // Letters of one case are one range, and bit 0x20 is the case.
        let first = lastChange == .upper ? UInt8(ascii: "a") : UInt8(ascii: "A")
        var hasLetters = false
        var union: UInt8 = 0
        for byte in text {
            hasLetters = hasLetters || byte &- first < 26
            union |= byte
        }
        guard union < 0x80 else { return unicode(text, arena: &arena) }
        guard hasLetters else { return text }
        let changed = arena.allocate(text.count)
        for index in 0..<text.count {
            let byte = text[index]
            changed[index] = byte &- first < 26 ? byte ^ 0x20 : byte
        }
        return UnsafeBufferPointer(changed)
    }

    private func unicode(
        _ text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena
    ) -> UnsafeBufferPointer<UInt8> {
        var string = String(decoding: text, as: UTF8.self)
        for change in caseChanges { string = change == .upper ? string.uppercased() : string.lowercased() }
        return arena.store(string.utf8)
    }
}

/// Tests for Unicode's White_Space (UCD, PropList.txt) in well-formed UTF-8.
enum WhiteSpace {
    /// Returns the text without white space at both ends; the same bytes, not a copy.
    static func trim(_ text: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        var start = 0
        var end = text.count
        while start < end, case let length = length(in: text, at: start, before: end), length > 0 { start += length }
        while start < end {
            var last = end - 1
            while last > start, text[last] & 0xC0 == 0x80 { last -= 1 }
            guard length(in: text, at: last, before: end) > 0 else { break }
            end = last
        }
        return UnsafeBufferPointer(rebasing: text[start..<end])
    }

    /// Whether the text contains white space or a control character.
    static func orControlCharacter(isIn text: UnsafeBufferPointer<UInt8>) -> Bool {
        for index in 0..<text.count {
            let byte = text[index]
            if byte <= 0x20 || byte == 0x7F { return true }
            guard byte >= 0xC2, byte <= 0xE3 else { continue }
            if length(in: text, at: index, before: text.count) > 0 { return true }
            // U+0080 to U+009F, the other control characters.
            if byte == 0xC2, text[index + 1] < 0xA0 { return true }
        }
        return false
    }

    /// Returns the length in bytes of the white space character at that index; 0 when it is none.
    @inline(__always) private static func length(
        in text: UnsafeBufferPointer<UInt8>, at index: Int, before end: Int
    ) -> Int {
        let byte = text[index]
        if byte < 0x80 { return byte == 0x20 || (byte >= 0x09 && byte <= 0x0D) ? 1 : 0 }
        guard byte >= 0xC2, byte <= 0xE3, index + 1 < end else { return 0 }
        let second = text[index + 1]
        if byte == 0xC2 { return second == 0x85 || second == 0xA0 ? 2 : 0 }
        guard index + 2 < end else { return 0 }
        switch (byte, second, text[index + 2]) {
        case (0xE1, 0x9A, 0x80): return 3  // U+1680
        case (0xE2, 0x80, 0x80...0x8A), (0xE2, 0x80, 0xA8), (0xE2, 0x80, 0xA9), (0xE2, 0x80, 0xAF): return 3
        case (0xE2, 0x81, 0x9F), (0xE3, 0x80, 0x80): return 3  // U+205F, U+3000
        default: return 0
        }
    }
}
