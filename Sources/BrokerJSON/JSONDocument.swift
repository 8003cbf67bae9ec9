package import CTape

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
}
