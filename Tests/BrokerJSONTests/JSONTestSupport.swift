import BrokerJSON
import TestSupport
import Testing

/// The bytes as an immutable text.
func text(_ bytes: some Sequence<UInt8>) -> JSONText { JSONText(copying: Array(bytes)) }

/// Parses a text, by both parsers, and passes its root to `body`: values are indices in a document that must be retained.
@discardableResult
func withRoot<Result>(
    of bytes: some Sequence<UInt8>, _ body: (JSONValue) throws -> Result
) throws -> Result {
    let document = try BothParsers.parse(text(bytes)) { Issue.record("the parsers differ: \($0)") }
    return try withExtendedLifetime(document) { try body(document.root) }
}

func withRoot<Result>(of json: String, _ body: (JSONValue) throws -> Result) throws -> Result {
    try withRoot(of: json.utf8, body)
}

/// Why and where a text is refused; nil when it is not.
func refusal(of bytes: some Sequence<UInt8>, maximumDepth: Int = JSONDocument.defaultMaximumDepth) -> JSONError? {
    do throws(JSONError) {
        _ = try BothParsers.parse(text(bytes), maximumDepth: maximumDepth) {
            Issue.record("the parsers differ: \($0)")
        }
        return nil
    } catch {
        return error
    }
}

/// A place of a fault; the reason is in the fault's own words.
struct Place: Equatable, CustomStringConvertible {
    let line: Int
    let column: Int
    let offset: Int

    init(_ line: Int, _ column: Int, _ offset: Int) {
        self.line = line
        self.column = column
        self.offset = offset
    }

    init(_ position: JSONPosition) { self.init(position.line, position.column, position.offset) }

    var description: String { "line \(line), column \(column), offset \(offset)" }
}
