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
/// Parsing is strict (RFC 8259) and checks every value; numbers stay text, and strings without escapes are not copied.
public final class JSONDocument: Sendable {
    /// RFC 8259 allows a parser to limit depth; Broker's limit is the contract's.
    public static let defaultMaximumDepth = 512

    public let text: JSONText
    /// The unescaped strings; staged rows that point at strings retain this and ``text``.
    public let unescaped: UnescapedStrings
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) private let tape: broker_json_tape

    /// Parses, and takes as much memory as is needed.
    ///
    /// - Throws: ``JSONError`` with the first fault and its position.
    public convenience init(
        parsing text: JSONText, maximumDepth: Int = JSONDocument.defaultMaximumDepth
    ) throws(JSONError) {
        self.init(text, try Self.parse(text, maximumDepth, nil).get())
    }

    /// - Parameter allowance: asked for the memory of the tape and of the scratch space; the latter is given back.
    /// - Throws: ``JSONRefusal``: the first fault and its position, or a refused allowance.
    public convenience init(
        parsing text: JSONText, maximumDepth: Int = JSONDocument.defaultMaximumDepth, allowance: any MemoryAllowance
    ) throws(JSONRefusal) {
        switch Self.parse(text, maximumDepth, allowance) {
        case .success(let tape): self.init(text, tape)
        case .failure(let error): throw error.isWantOfMemory ? .noRoom : .fault(error)
        }
    }

    private init(_ text: JSONText, _ tape: broker_json_tape) {
        self.text = text
        self.tape = tape
        unescaped = UnescapedStrings(adopting: tape.unescaped)
    }

    private static func parse(
        _ text: JSONText, _ maximumDepth: Int, _ allowance: (any MemoryAllowance)?
    ) -> Result<broker_json_tape, JSONError> {
        var tape = broker_json_tape()
        var fault = 0
        var asked = allowance
        let status = withUnsafeMutablePointer(to: &asked) { asked in
            broker_json_parse(
                text.bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), text.count, UInt32(maximumDepth),
                allowance == nil ? nil : take, asked, &tape, &fault)
        }
        guard status == BROKER_JSON_OK else {
            return .failure(JSONError(status: status, offset: fault, text: text, maximumDepth: maximumDepth))
        }
        return .success(tape)
    }

    /// Bytes of memory of the tape, without the text.
    public var memory: Int {
        var tape = tape
        return broker_json_memory(&tape)
    }

    /// The number of keys and values: the measure of work on the document.
    public var elementCount: Int { Int(tape.elements.pointee.span) }

    deinit {
        var tape = tape
        broker_json_free_elements(&tape)
    }

    /// Valid as long as this document.
    public var root: JSONValue {
        JSONValue(
            element: UnsafePointer(tape.elements), text: text.bytes.baseAddress!.assumingMemoryBound(to: UInt8.self),
            unescaped: unescaped.start)
    }
}

/// The parser's callback to the allowance; its context points to an optional allowance.
private func take(_ context: UnsafeMutableRawPointer?, _ bytes: Int) -> Bool {
    guard let allowance = context?.assumingMemoryBound(to: (any MemoryAllowance)?.self).pointee else { return true }
    if bytes >= 0 { return allowance.take(bytes) }
    allowance.giveBack(-bytes)
    return true
}

/// The unescaped strings of a document, one after the other.
public final class UnescapedStrings: Sendable {
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) fileprivate let start: UnsafePointer<UInt8>?

    fileprivate init(adopting start: UnsafeMutablePointer<UInt8>?) { self.start = UnsafePointer(start) }

    deinit { free(UnsafeMutablePointer(mutating: start)) }
}
