package import CTape

#if canImport(Glibc)
internal import Glibc
#else
internal import Darwin
#endif

/// A fault of a text, and the offset of the byte at fault.
package struct TapeFault: Error, Equatable {
    package let status: broker_json_status
    package let offset: Int

    package init(_ status: broker_json_status, at offset: Int) {
        self.status = status
        self.offset = offset
    }
}

/// Builds the tape over a text in one pass: the parser of clients, which link no C++.
///
/// The result is that of `CSimdjson`, also for what is refused.
struct TapeBuilder: ~Copyable {
    private let text: UnsafePointer<UInt8>
    private let length: Int
    private let maximumDepth: Int
    private var position = 0
    private var tape = broker_json_tape()
    private var capacity = 0
    /// The open containers' places on the tape.
    private var open: [UInt32] = []

    /// - Parameter text: must outlive the builder.
    private init(_ text: JSONText, maximumDepth: Int) {
        self.text = text.bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
        length = text.count
        self.maximumDepth = maximumDepth
    }

    /// - Returns: the tape, which the caller then owns.
    static func build(_ text: JSONText, maximumDepth: Int) throws(TapeFault) -> broker_json_tape {
        // Twice the length must still fit the 32-bit offsets of the unescaped strings.
        guard text.count <= Int(UInt32.max / 2) - JSONText.padding else {
            throw TapeFault(BROKER_JSON_TOO_LARGE, at: 0)
        }
        var builder = TapeBuilder(text, maximumDepth: maximumDepth)
        do throws(TapeFault) {
            try builder.document()
            builder.shrink()
            return builder.tape
        } catch {
            free(builder.tape.elements)
            free(builder.tape.unescaped)
            guard error.status != BROKER_JSON_OUT_OF_MEMORY else { throw error }
            // A lexical fault comes first, wherever it is.
            throw withExtendedLifetime(text) { LexicalFaults.first(in: text.bytes) } ?? error
        }
    }

    private mutating func document() throws(TapeFault) {
        skipSpace()
        guard position < length else { throw TapeFault(BROKER_JSON_EMPTY, at: length) }
        try value()
        while let container = open.last {
            skipSpace()
            try memberOrEnd(Int(container))
        }
        skipSpace()
        guard position == length else { throw TapeFault(BROKER_JSON_TRAILING_CONTENT, at: position) }
    }

    /// One step inside the innermost container, right after a value or its opening bracket.
    @inline(__always)
    private mutating func memberOrEnd(_ container: Int) throws(TapeFault) {
        let opened = tape.elements + container
        guard position < length else {
            throw TapeFault(BROKER_JSON_UNCLOSED_CONTAINER, at: Int(opened.pointee.offset))
        }
        let isObject = opened.pointee.kind == UInt8(BROKER_JSON_OBJECT)
        if text[position] == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
            position += 1
            opened.pointee.length = UInt32(position) - opened.pointee.offset
            opened.pointee.span = UInt32(tape.count - container)
            open.removeLast()
            return
        }
        if tape.count != container + 1 {
            guard text[position] == UInt8(ascii: ",") else {
                throw TapeFault(BROKER_JSON_EXPECTED_COMMA_OR_END, at: position)
            }
            position += 1
            skipSpace()
        }
        if isObject {
            guard position < length, text[position] == UInt8(ascii: "\"") else {
                throw TapeFault(BROKER_JSON_EXPECTED_KEY, at: position)
            }
            try string()
            skipSpace()
            guard position < length, text[position] == UInt8(ascii: ":") else {
                throw TapeFault(BROKER_JSON_EXPECTED_COLON, at: position)
            }
            position += 1
            skipSpace()
        }
        try value()
    }

    @inline(__always)
    private mutating func skipSpace() {
        while position < length, text[position] <= 0x20, text[position].isSpace { position += 1 }
    }

    /// - Precondition: white space has been skipped.
    @inline(__always)
    private mutating func value() throws(TapeFault) {
        guard position < length else { throw TapeFault(BROKER_JSON_EXPECTED_VALUE, at: length) }
        switch text[position] {
        case UInt8(ascii: "\""): try string()
        case UInt8(ascii: "{"): try openContainer(BROKER_JSON_OBJECT)
        case UInt8(ascii: "["): try openContainer(BROKER_JSON_ARRAY)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): try number()
        case UInt8(ascii: "t"): try literal(BROKER_JSON_TRUE, "true")
        case UInt8(ascii: "f"): try literal(BROKER_JSON_FALSE, "false")
        case UInt8(ascii: "n"): try literal(BROKER_JSON_NULL, "null")
        case UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "]"), UInt8(ascii: "}"):
            throw TapeFault(BROKER_JSON_EXPECTED_VALUE, at: position)
        default: throw TapeFault(BROKER_JSON_BAD_LITERAL, at: position)
        }
    }

    private mutating func openContainer(_ kind: Int) throws(TapeFault) {
        guard open.count < maximumDepth else { throw TapeFault(BROKER_JSON_TOO_DEEP, at: position) }
        open.append(UInt32(tape.count))
        try push(kind, position, 0)
        position += 1
    }

    private mutating func literal(_ kind: Int, _ word: StaticString) throws(TapeFault) {
        let size = word.utf8CodeUnitCount
        guard length - position >= size, memcmp(text + position, word.utf8Start, size) == 0,
            position + size == length || text[position + size].endsScalar
        else { throw TapeFault(BROKER_JSON_BAD_LITERAL, at: position) }
        try push(kind, position, size)
        position += size
    }

    private mutating func number() throws(TapeFault) {
        let start = position
        var flags = BROKER_JSON_INTEGRAL
        if text[position] == UInt8(ascii: "-") { position += 1 }
        if position < length, text[position] == UInt8(ascii: "0") {
            position += 1
        } else {
            try digits(ofNumberAt: start)
        }
        if position < length, text[position] == UInt8(ascii: ".") {
            position += 1
            flags = 0
            try digits(ofNumberAt: start)
        }
        if position < length, text[position] | 0x20 == UInt8(ascii: "e") {
            position += 1
            flags = 0
            if position < length, text[position] == UInt8(ascii: "+") || text[position] == UInt8(ascii: "-") {
                position += 1
            }
            try digits(ofNumberAt: start)
        }
        guard position == length || text[position].endsScalar else {
            throw TapeFault(BROKER_JSON_BAD_NUMBER, at: start)
        }
        try push(BROKER_JSON_NUMBER, start, position - start, flags)
    }

    /// One digit at least.
    @inline(__always)
    private mutating func digits(ofNumberAt start: Int) throws(TapeFault) {
        let first = position
        while position < length, text[position] &- UInt8(ascii: "0") <= 9 { position += 1 }
        guard position > first else { throw TapeFault(BROKER_JSON_BAD_NUMBER, at: start) }
    }

    // MARK: - Strings

    /// - Precondition: the opening quote is at ``position``.
    @inline(__always)
    private mutating func string() throws(TapeFault) {
        let quote = position
        var hasEscape = false
        var end = quote + 1
        while true {
            end = plainEnd(from: end)
            guard end < length else { throw TapeFault(BROKER_JSON_UNCLOSED_STRING, at: quote) }
            let byte = text[end]
            if byte == UInt8(ascii: "\"") { break }
            if byte == UInt8(ascii: "\\") {
                hasEscape = true
                // The escape is checked when the string is unescaped.
                end += (0x20..<0x80).contains(text[end + 1]) ? 2 : 1
            } else if byte < 0x20 {
                throw TapeFault(BROKER_JSON_CONTROL_CHARACTER, at: end)
            } else {
                let size = UTF8Sequence.length(text + end, text + length)
                guard size > 0 else { throw TapeFault(BROKER_JSON_NOT_UTF8, at: end) }
                end += size
            }
        }
        position = end + 1
        if hasEscape {
            try unescape(quote + 1, end)
        } else {
            try push(BROKER_JSON_STRING, quote + 1, end - quote - 1)
        }
    }

    /// Returns the offset of the first byte that is a quote, a backslash, a control character or beyond ASCII, or of the
    /// text's end or later.
    @inline(__always)
    private func plainEnd(from start: Int) -> Int {
        var offset = start
        while offset &+ 8 <= length {
            let word = UInt64(littleEndian: UnsafeRawPointer(text + offset).loadUnaligned(as: UInt64.self))
            // In the high bit of each byte; bytes above a true one may be marked wrongly, and only the lowest is used.
            let quotes = word ^ 0x2222_2222_2222_2222
            let slashes = word ^ 0x5C5C_5C5C_5C5C_5C5C
            let found =
                ((quotes &- 0x0101_0101_0101_0101) & ~quotes) | ((slashes &- 0x0101_0101_0101_0101) & ~slashes)
                | ((word &- 0x2020_2020_2020_2020) & ~word) | word
            let marks = found & 0x8080_8080_8080_8080
            if marks != 0 { return offset &+ marks.trailingZeroBitCount >> 3 }
            offset &+= 8
        }
        while offset < length {
            let byte = text[offset]
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte < 0x20 || byte >= 0x80 { break }
            offset &+= 1
        }
        return offset
    }

    /// Appends the content to the unescaped strings, after its offset in the text.
    private mutating func unescape(_ start: Int, _ end: Int) throws(TapeFault) {
        let header = MemoryLayout<UInt32>.size
        let wanted = tape.unescaped_length + header + end - start + JSONText.padding
        if wanted > tape.unescaped_capacity {
            let grown = max(wanted, tape.unescaped_capacity * 2)
            guard let memory = realloc(tape.unescaped, grown) else { throw TapeFault(BROKER_JSON_OUT_OF_MEMORY, at: 0) }
            tape.unescaped = memory.assumingMemoryBound(to: UInt8.self)
            tape.unescaped_capacity = grown
        }
        UnsafeMutableRawPointer(tape.unescaped + tape.unescaped_length).storeBytes(of: UInt32(start), as: UInt32.self)
        let content = tape.unescaped_length + header
        let count = try Unescaping.copy(text, from: start, to: end, into: tape.unescaped + content)
        tape.unescaped_length = content + count
        try push(BROKER_JSON_STRING, content, count, BROKER_JSON_UNESCAPED)
    }

    // MARK: - The tape

    @inline(__always)
    private mutating func push(_ kind: Int, _ offset: Int, _ size: Int, _ flags: Int = 0) throws(TapeFault) {
        if tape.count == capacity { try grow() }
        (tape.elements + tape.count).initialize(
            to: broker_json_element(
                offset: UInt32(truncatingIfNeeded: offset), length: UInt32(truncatingIfNeeded: size), span: 1,
                kind: UInt8(truncatingIfNeeded: kind), flags: UInt8(truncatingIfNeeded: flags), reserved: 0))
        tape.count += 1
    }

    private mutating func grow() throws(TapeFault) {
        let grown = max(16, capacity * 2)
        let memory = realloc(tape.elements, grown * MemoryLayout<broker_json_element>.stride)
        guard let memory else { throw TapeFault(BROKER_JSON_OUT_OF_MEMORY, at: 0) }
        tape.elements = memory.assumingMemoryBound(to: broker_json_element.self)
        capacity = grown
    }

    private mutating func shrink() {
        guard capacity > tape.count,
            let memory = realloc(tape.elements, tape.count * MemoryLayout<broker_json_element>.stride)
        else { return }
        tape.elements = memory.assumingMemoryBound(to: broker_json_element.self)
    }
}

extension UInt8 {
    @inline(__always)
    fileprivate var isSpace: Bool { self == 0x20 || self == 0x0A || self == 0x0D || self == 0x09 }

    /// Whether the byte may follow a number or a literal.
    @inline(__always)
    fileprivate var endsScalar: Bool {
        isSpace || self == UInt8(ascii: ",") || self == UInt8(ascii: "]") || self == UInt8(ascii: "}")
            || self == UInt8(ascii: ":")
    }
}

/// Copies a string's content, with its escapes replaced.
enum Unescaping {
    /// - Parameter target: has room for as many bytes as the content; unescaping never lengthens.
    /// - Returns: the bytes written.
    /// - Throws: a bad escape: one that RFC 8259 does not know, or a surrogate without its partner.
    static func copy(
        _ text: UnsafePointer<UInt8>, from start: Int, to end: Int, into target: UnsafeMutablePointer<UInt8>
    ) throws(TapeFault) -> Int {
        var count = 0
        var offset = start
        while offset < end {
            guard text[offset] == UInt8(ascii: "\\") else {
                target[count] = text[offset]
                count += 1
                offset += 1
                continue
            }
            if let byte = simple(text[offset + 1]) {
                target[count] = byte
                count += 1
                offset += 2
                continue
            }
            guard let (scalar, size) = scalar(text, offset, end) else {
                throw TapeFault(BROKER_JSON_BAD_ESCAPE, at: offset)
            }
            for byte in UTF8.encode(scalar)! {
                target[count] = byte
                count += 1
            }
            offset += size
        }
        return count
    }

    private static func simple(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): byte
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0C
        case UInt8(ascii: "n"): 0x0A
        case UInt8(ascii: "r"): 0x0D
        case UInt8(ascii: "t"): 0x09
        default: nil
        }
    }

    /// The scalar of `\uXXXX`, or of a pair of them, and the bytes that it has in the text; nil when there is none.
    private static func scalar(
        _ text: UnsafePointer<UInt8>, _ offset: Int, _ end: Int
    ) -> (scalar: Unicode.Scalar, size: Int)? {
        guard let unit = unit(text, offset, end) else { return nil }
        if let scalar = Unicode.Scalar(unit) { return (scalar, 6) }
        guard unit < 0xDC00, let low = self.unit(text, offset + 6, end), (0xDC00...0xDFFF).contains(low) else {
            return nil
        }
        return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + low - 0xDC00).map { ($0, 12) }
    }

    private static func unit(_ text: UnsafePointer<UInt8>, _ offset: Int, _ end: Int) -> UInt32? {
        guard end - offset >= 6, text[offset] == UInt8(ascii: "\\"), text[offset + 1] == UInt8(ascii: "u") else {
            return nil
        }
        var value: UInt32 = 0
        for index in offset + 2..<offset + 6 {
            let digit: UInt8
            switch text[index] {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = text[index] - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = text[index] - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = text[index] - UInt8(ascii: "A") + 10
            default: return nil
            }
            value = value << 4 | UInt32(digit)
        }
        return value
    }
}

/// Finds what is wrong with a text's characters and strings, whatever its grammar is.
package enum LexicalFaults {
    /// Returns the first one; nil when there is none.
    package static func first(in text: UnsafeRawBufferPointer) -> TapeFault? {
        guard let start = text.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return nil }
        let end = start + text.count
        var next = start
        var opened: UnsafePointer<UInt8>?
        while next < end {
            var size = UTF8Sequence.length(next, end)
            guard size > 0 else { return TapeFault(BROKER_JSON_NOT_UTF8, at: next - start) }
            if opened == nil {
                if next.pointee == UInt8(ascii: "\"") { opened = next }
            } else if next.pointee == UInt8(ascii: "\"") {
                opened = nil
            } else {
                if next.pointee == UInt8(ascii: "\\"), next + 1 < end {
                    next += 1
                    size = UTF8Sequence.length(next, end)
                    guard size > 0 else { return TapeFault(BROKER_JSON_NOT_UTF8, at: next - start) }
                }
                guard next.pointee >= 0x20 else { return TapeFault(BROKER_JSON_CONTROL_CHARACTER, at: next - start) }
            }
            next += size
        }
        return opened.map { TapeFault(BROKER_JSON_UNCLOSED_STRING, at: $0 - start) }
    }
}

enum UTF8Sequence {
    /// Length of the well-formed sequence at `start` (Unicode 15, table 3-7), 0 if there is none.
    @inline(__always)
    static func length(_ start: UnsafePointer<UInt8>, _ end: UnsafePointer<UInt8>) -> Int {
        func trails(_ index: Int, _ low: UInt8 = 0x80, _ high: UInt8 = 0xBF) -> Bool {
            start + index < end && start[index] >= low && start[index] <= high
        }
        let byte = start.pointee
        switch byte {
        case 0..<0x80: return 1
        case 0xC2...0xDF: return trails(1) ? 2 : 0
        case 0xE0...0xEF: return trails(1, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF) && trails(2) ? 3 : 0
        case 0xF0...0xF4:
            return trails(1, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF) && trails(2) && trails(3) ? 4 : 0
        default: return 0
        }
    }
}
