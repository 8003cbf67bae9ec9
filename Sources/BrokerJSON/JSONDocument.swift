package import CTape

#if canImport(Glibc)
internal import Glibc
#else
internal import Darwin
#endif

/// A parsed JSON text: the text and a flat tape over it. Immutable, so any thread may read it.
///
/// Parsing is strict (RFC 8259) and checks every value; numbers stay text, and strings without escapes are not copied.
public final class JSONDocument: Sendable {
    /// RFC 8259 allows a parser to limit depth; Broker's limit is the contract's.
    public static let defaultMaximumDepth = 512

    public let text: JSONText
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) private let tape: broker_json_tape

    /// Parses by a parser in Swift, which links no C++; `BrokerFastJSON` has a faster one for large texts.
    ///
    /// - Throws: ``JSONError`` with the first fault and its position.
    public convenience init(
        parsing text: JSONText, maximumDepth: Int = JSONDocument.defaultMaximumDepth
    ) throws(JSONError) {
        do throws(TapeFault) {
            self.init(text, adopting: try TapeBuilder.build(text, maximumDepth: maximumDepth))
        } catch {
            throw JSONError(error, in: text, maximumDepth: maximumDepth)
        }
    }

    /// - Parameter tape: of that text. The document frees it.
    package init(_ text: JSONText, adopting tape: broker_json_tape) {
        self.text = text
        self.tape = tape
    }

    /// Bytes of memory of the tape, without the text.
    public var memory: Int {
        tape.count * MemoryLayout<broker_json_element>.stride + tape.unescaped_capacity
    }

    /// The number of keys and values: the measure of work on the document.
    public var elementCount: Int { Int(tape.elements.pointee.span) }

    deinit {
        free(tape.elements)
        free(tape.unescaped)
    }

    /// Valid as long as this document.
    public var root: JSONValue {
        JSONValue(
            element: UnsafePointer(tape.elements), text: text.bytes.baseAddress!.assumingMemoryBound(to: UInt8.self),
            unescaped: UnsafePointer(tape.unescaped))
    }

    /// The document lives until `body` returns.
    package func withRoot<Result, Failure>(
        _ body: (JSONValue) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withExtendedLifetime(self) { () throws(Failure) in try body(root) }
    }
}

/// A position in a text. Lines and columns count from 1 (columns in bytes), offsets from 0.
public struct JSONPosition: Sendable, Equatable {
    public let line: Int
    public let column: Int
    public let offset: Int

    public init(offset: Int, in text: JSONText) {
        var line = 1
        var lineStart = 0
        let bytes = text.bytes
        for index in 0..<min(offset, bytes.count) where bytes[index] == UInt8(ascii: "\n") {
            line += 1
            lineStart = index + 1
        }
        self.line = line
        self.column = offset - lineStart + 1
        self.offset = offset
    }
}

/// A text that is not JSON by RFC 8259.
public struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The fault, without the position: "expected a comma or '}'".
    public let reason: String
    public let position: JSONPosition
    /// There was no memory to parse the text.
    package let isWantOfMemory: Bool

    public var description: String {
        "\(reason), at line \(position.line), column \(position.column) (byte \(position.offset))"
    }
}

extension JSONError {
    package init(_ fault: TapeFault, in text: JSONText, maximumDepth: Int) {
        let (status, offset) = (fault.status, fault.offset)
        position = JSONPosition(offset: offset, in: text)
        isWantOfMemory = status == BROKER_JSON_OUT_OF_MEMORY || status == BROKER_JSON_NO_ROOM
        let seen = offset < text.count ? Self.describe(text.bytes[offset]) : "the end of the text"
        reason =
            switch status {
            case BROKER_JSON_EMPTY: "there is no JSON here, only white space or nothing"
            case BROKER_JSON_TOO_LARGE: "the text is longer than 2 GiB"
            case BROKER_JSON_OUT_OF_MEMORY, BROKER_JSON_NO_ROOM: "there is no memory left to parse the text"
            case BROKER_JSON_TOO_DEEP: "the text is nested deeper than \(maximumDepth) levels"
            case BROKER_JSON_NOT_UTF8: "the text is not UTF-8: \(seen) is out of place"
            case BROKER_JSON_UNCLOSED_STRING: "a string begins here and never ends"
            case BROKER_JSON_CONTROL_CHARACTER: "\(seen) must be escaped inside a string"
            case BROKER_JSON_BAD_ESCAPE: "this escape is none of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX (in pairs)"
            case BROKER_JSON_BAD_NUMBER: "this is not a number as JSON writes it"
            case BROKER_JSON_BAD_LITERAL: "expected a value, saw \(seen)"
            case BROKER_JSON_EXPECTED_VALUE: "expected a value, saw \(seen)"
            case BROKER_JSON_EXPECTED_KEY: "expected a key in double quotes, saw \(seen)"
            case BROKER_JSON_EXPECTED_COLON: "expected a colon after the key, saw \(seen)"
            case BROKER_JSON_EXPECTED_COMMA_OR_END: "expected a comma or the closing bracket, saw \(seen)"
            case BROKER_JSON_UNCLOSED_CONTAINER: "the bracket opened here is never closed"
            case BROKER_JSON_TRAILING_CONTENT: "expected the end of the text, saw \(seen)"
            default: preconditionFailure("the parser answered with an unknown status \(status.rawValue)")
            }
    }

    private static func describe(_ byte: UInt8) -> String {
        switch byte {
        case 0x21...0x7E: "'\(Character(UnicodeScalar(byte)))'"
        case 0x20: "a space"
        default: "the byte 0x\(byte < 16 ? "0" : "")\(String(byte, radix: 16, uppercase: true))"
        }
    }
}
