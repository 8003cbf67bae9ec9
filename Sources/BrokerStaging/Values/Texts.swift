import BrokerJSON
import BrokerModel
import Foundation

/// The transforms of an attribute, in their order.
///
/// White space has no case, so trimming comes first, wherever the model lists it.
struct TextTransform: Sendable {
    private let trims: Bool
    /// Of ASCII letters only the last one shows.
    private let caseChanges: [Transform]

    /// Returns nil for an empty list.
    init?(_ transforms: [Transform]) {
        guard !transforms.isEmpty else { return nil }
        trims = transforms.contains(.trim)
        caseChanges = transforms.filter { $0 != .trim }
    }

    /// Returns the text itself or a part of it if that suffices; otherwise a copy in the arena.
    func apply(to text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        let text = trims ? WhiteSpace.trim(text) : text
        guard let lastChange = caseChanges.last else { return text }
        // Letters of one case are one range, and bit 0x20 is the case.
        let first = lastChange == .uppercase ? UInt8(ascii: "a") : UInt8(ascii: "A")
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
        for change in caseChanges { string = change == .uppercase ? string.uppercased() : string.lowercased() }
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

/// Base64 by RFC 4648: the standard alphabet, padding optional, no other characters.
enum Base64 {
    /// Returns the bytes; nil when the text is not base64, or not the one text of its bytes.
    static func decode(_ text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8>? {
        var padded = Data(text)
        if text.last != UInt8(ascii: "=") { while padded.count % 4 != 0 { padded.append(UInt8(ascii: "=")) } }
        guard let bytes = Data(base64Encoded: padded), bytes.base64EncodedData() == padded else { return nil }
        return arena.store(bytes)
    }

    /// Returns the bytes in the standard alphabet, padded.
    static func encode(_ bytes: UnsafeBufferPointer<UInt8>) -> [UInt8] { Array(Data(bytes).base64EncodedData()) }
}

/// JSON text without white space between its tokens.
enum CompactJSON {
    /// Returns the value's text: its bytes in the document if they are compact, otherwise a copy in the arena.
    static func text(of value: JSONValue, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        switch value.kind {
        case .null, .false, .true, .number: value.bytes
        case .string: quoted(value, arena: &arena)
        case .array, .object: compact(value.bytes, arena: &arena)
        }
    }

    private static func quoted(_ string: JSONValue, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        let content = string.bytes
        guard string.hadEscapes else {
            // In the document, quotes enclose the content.
            return UnsafeBufferPointer(start: content.baseAddress! - 1, count: content.count + 2)
        }
        var writer = JSONWriter(capacity: content.count + content.count / 4 + 2)
        writer.string(content)
        return arena.store(writer.bytes)
    }

    private static func compact(
        _ text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena
    ) -> UnsafeBufferPointer<UInt8> {
        let compactCount = nextSpace(in: text, from: 0)
        guard compactCount < text.count else { return text }
        var compact: [UInt8] = []
        compact.reserveCapacity(text.count)
        var start = 0
        while start < text.count {
            let next = nextSpace(in: text, from: start)
            compact += text[start..<next]
            start = next + 1
        }
        return arena.store(compact)
    }

    /// Returns the index of the first white space outside of strings, from an index outside of strings; the end when
    /// there is none.
    private static func nextSpace(in text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var index = start
        while index < text.count {
            let byte = text[index]
            if byte <= 0x20 { return index }
            index += 1
            guard byte == UInt8(ascii: "\"") else { continue }
            while text[index] != UInt8(ascii: "\"") { index += text[index] == UInt8(ascii: "\\") ? 2 : 1 }
            index += 1
        }
        return index
    }
}
