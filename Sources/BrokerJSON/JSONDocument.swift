internal import CSimdjson

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

/// A parsed JSON text: the text and a flat tape over it. Immutable, so any thread may read it.
///
/// Parsing is strict by RFC 8259 and looks at every value; numbers stay text, strings without escapes are not copied.
public final class JSONDocument: Sendable {
    /// RFC 8259 lets a parser limit depth; Broker's limit is the contract's.
    public static let defaultMaximumDepth = 512

    public let text: JSONText
    /// What escaped strings became; rows that point at strings hold this and ``text``.
    public let unescaped: UnescapedStrings
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) private let tape: broker_json_tape

    /// - Throws: ``JSONError`` with the first fault and its place.
    public init(parsing text: JSONText, maximumDepth: Int = JSONDocument.defaultMaximumDepth) throws(JSONError) {
        var tape = broker_json_tape()
        var fault = 0
        let status = broker_json_parse(
            text.bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), text.count, UInt32(maximumDepth), &tape, &fault
        )
        guard status == BROKER_JSON_OK else {
            throw JSONError(status: status, offset: fault, text: text, maximumDepth: maximumDepth)
        }
        self.text = text
        self.tape = tape
        unescaped = UnescapedStrings(adopting: tape.unescaped)
    }

    deinit {
        var tape = tape
        broker_json_free_elements(&tape)
    }

    /// Valid while this document lives.
    public var root: JSONValue {
        JSONValue(
            element: UnsafePointer(tape.elements), text: text.bytes.baseAddress!.assumingMemoryBound(to: UInt8.self),
            unescaped: unescaped.start)
    }
}

/// The strings of a document that had escapes, unescaped, one after the other.
public final class UnescapedStrings: Sendable {
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) fileprivate let start: UnsafePointer<UInt8>?

    fileprivate init(adopting start: UnsafeMutablePointer<UInt8>?) { self.start = UnsafePointer(start) }

    deinit { free(UnsafeMutablePointer(mutating: start)) }
}
