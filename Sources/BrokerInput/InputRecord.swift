internal import BrokerJSON

/// A position in an unpacked input. Lines and columns count from 1 (columns in bytes), offsets from 0.
package struct InputPlace: Equatable, Sendable, CustomStringConvertible {
    package var line: Int
    package var column: Int
    /// Nil in XML, whose parser reports none.
    package var offset: Int?

    package init(line: Int = 1, column: Int = 1, offset: Int? = 0) {
        self.line = line
        self.column = column
        self.offset = offset
    }

    /// The position after these bytes, which begin here.
    package func advanced(over bytes: some Sequence<UInt8>) -> InputPlace {
        var place = self
        var count = 0
        for byte in bytes {
            count += 1
            if byte == UInt8(ascii: "\n") {
                place.line += 1
                place.column = 1
            } else {
                place.column += 1
            }
        }
        place.offset = offset.map { $0 + count }
        return place
    }

    package var description: String {
        "line \(line), column \(column)" + (offset.map { " (byte \($0))" } ?? "")
    }
}

/// The position of a reader in its input.
struct TextPosition {
    private(set) var line = 1
    private(set) var offset = 0
    /// The beginning of the line; a byte order mark before it is no text.
    private var lineStart = 0

    /// Moves over bytes without a line end.
    mutating func advance(by count: Int = 1) { offset += count }

    /// Moves over a line's end.
    mutating func advanceOverLineEnd() {
        offset += 1
        line += 1
        lineStart = offset
    }

    /// Moves over so many lines' ends, the last one before that offset.
    mutating func advance(overLines count: Int, to start: Int) {
        guard count > 0 else { return }
        (line, offset, lineStart) = (line + count, start, start)
    }

    init() {}

    /// The beginning of a line.
    init(line: Int, offset: Int) { (self.line, self.offset, lineStart) = (line, offset, offset) }

    /// Begins the line at that offset: the previous bytes were a byte order mark.
    mutating func beginText(at offset: Int) { lineStart = offset }

    /// Moves to a position on this line.
    mutating func reach(_ offset: Int) { self.offset = offset }

    var place: InputPlace { InputPlace(line: line, column: offset - lineStart + 1, offset: offset) }
}

/// A record of an input, as JSON text.
package struct InputRecord: Sendable {
    /// Usually a slice of the bytes that were read: an owner that stores records for long copies them.
    package let json: ArraySlice<UInt8>
    /// The position of its beginning.
    package let place: InputPlace
    /// A parser certainly accepts it. False when only the parser can decide.
    package let isSound: Bool

    package init(json: ArraySlice<UInt8>, place: InputPlace, isSound: Bool = false) {
        (self.json, self.place, self.isSound) = (json, place, isSound)
    }

    package init(json: [UInt8], place: InputPlace, isSound: Bool = false) {
        self.init(json: json[...], place: place, isSound: isSound)
    }
}

/// An input cannot be read, or not any further.
package struct InputFault: Error, Equatable {
    /// The fault, without the position.
    package let reason: String
    /// Nil when the input could not be read at all.
    package let place: InputPlace?
    /// The beginning of the invalid record, if there is one.
    package var recordPlace: InputPlace?
    /// The beginning of the value around that record.
    var valuePlace: InputPlace?
    /// Where that record ends, if that is known.
    var recordEnd: Int?

    package init(reason: String, place: InputPlace?, recordPlace: InputPlace? = nil, recordEnd: Int? = nil) {
        self.reason = reason
        self.place = place
        self.recordPlace = recordPlace
        self.recordEnd = recordEnd
    }

    /// The bytes cannot be unpacked, wherever that is found.
    static func damaged(_ reason: String) -> InputFault { InputFault(reason: reason, place: InputPlace()) }

    /// The reason, and the record's position when that is on another line.
    package var text: String {
        guard let recordPlace, recordPlace.line != place?.line else { return reason }
        return "\(reason), in the record that begins at line \(recordPlace.line)"
    }
}

extension UInt8 {
    /// The byte as named in a message.
    var asSeen: String {
        switch self {
        case 0x21...0x7E: "'\(Character(UnicodeScalar(self)))'"
        case 0x1E: "a record separator (the byte 0x1E)"
        case 0xFE, 0xFF: "a byte that no UTF-8 has (is it UTF-16? then: --encoding UTF-16)"
        case 0: "the byte 0x00 (is it UTF-16? then: --encoding UTF-16LE)"
        default: "the byte 0x\(self < 16 ? "0" : "")\(String(self, radix: 16, uppercase: true))"
        }
    }
}

/// The remedy for a text that is not UTF-8.
let encodingRemedy = "give its encoding, as in --encoding WINDOWS-1252"

/// The number of bytes up to the first invalid UTF-8; nil when all are valid.
func utf8FaultOffset(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
    do throws(UTF8.ValidationError) {
        _ = try UTF8Span(validating: bytes.span)
        return nil
    } catch {
        return error.byteOffsets.lowerBound
    }
}

/// Gets each record of an input; its error ends the reading.
package typealias RecordSink = (InputRecord) throws(InputFault) -> Void

/// Finds the records in an input's bytes.
protocol RecordReader {
    /// The position of the next byte.
    var place: InputPlace { get }

    /// Adds the next bytes and passes every complete record to `emit`.
    ///
    /// - Throws: the first fault, after the records before it were passed on; or the error of `emit`.
    mutating func feed(_ bytes: [UInt8], _ emit: RecordSink) throws(InputFault)

    /// The input ends.
    mutating func finish(_ emit: RecordSink) throws(InputFault)

    /// No more bytes come for now: passes on what is a record already.
    mutating func flush(_ emit: RecordSink) throws(InputFault)

    /// The offset of the record that has begun and not ended; nil between records.
    var recordStart: Int? { get }

    var lineEnd: UInt8 { get }

    /// After a fault: goes on with the line that begins there.
    ///
    /// - Returns: false where the records are inside of something that does not end with a line.
    mutating func restart(at position: TextPosition) -> Bool

    /// What a person should know about the reading, each time once.
    mutating func takeNotes() -> [String]
}

extension RecordReader {
    mutating func flush(_ emit: RecordSink) throws(InputFault) {}
    var recordStart: Int? { nil }
    var lineEnd: UInt8 { UInt8(ascii: "\n") }
    mutating func restart(at position: TextPosition) -> Bool { false }
    mutating func takeNotes() -> [String] { [] }
}

/// The position of the records in a value: keys with dots between them, or a JSON Pointer (RFC 6901).
package struct RecordRoot: Sendable {
    /// The root as given.
    package let text: String
    package let tokens: [String]
    /// Numbers among the tokens may be indices of arrays.
    let isPointer: Bool

    /// Nil when it is no JSON Pointer but begins like one.
    package init?(_ text: String) {
        self.text = text
        isPointer = text.hasPrefix("/")
        guard isPointer else {
            tokens = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
            return
        }
        let escaped = text.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        tokens = escaped.compactMap(Self.unescape)
        guard tokens.count == escaped.count else { return nil }
    }

    /// A last token `*`: each member of the object there is a record of its own, an object with that one key.
    private static let members = "*"

    /// Its records are the members of an object.
    package var isMap: Bool { tokens.last == Self.members }

    /// What is there instead of a part of the root.
    enum Instead {
        case keys([String])
        case kind(JSONValue.Kind)
    }

    /// The token is the last one, and stands for all members of an object.
    func isMembers(_ depth: Int) -> Bool { depth == tokens.count - 1 && isMap }

    func missing(_ depth: Int, _ instead: Instead) -> String {
        let place = depth == 0 ? "" : " at \(path(tokens[..<depth]))"
        let remedy =
            switch instead {
            case .keys(let keys) where keys.isEmpty: ", only an empty object"
            case .keys(let keys):
                "; there \(keys.count == 1 ? "is" : "are") \(keys.map { "\"\($0)\"" }.joined(separator: ", "))"
            case .kind(let kind): ", only \(kind.phrase)"
            }
        return "there is no \"\(tokens[depth])\"\(place)\(remedy)"
    }

    private func path(_ tokens: ArraySlice<String>) -> String {
        isPointer ? tokens.map { "/" + $0.asPointerToken }.joined() : "\"\(tokens.joined(separator: "."))\""
    }

    /// The maximum number of an object's keys in a message.
    static let namedKeys = 10

    /// Nil when a tilde is followed by neither 0 nor 1.
    private static func unescape(_ token: Substring) -> String? {
        let parts = token.unicodeScalars.split(separator: "~", omittingEmptySubsequences: false)
        var unescaped = String.UnicodeScalarView(parts[0])
        for part in parts.dropFirst() {
            guard part.first == "0" || part.first == "1" else { return nil }
            unescaped.append(part.first == "0" ? "~" : "/")
            unescaped.append(contentsOf: part.dropFirst())
        }
        return String(unescaped)
    }
}

/// Limits of a record in any format.
package struct RecordLimits {
    /// The limit for a message's nesting, less the containers that a job adds around a record.
    package static let maximumDepth = 508
    static let tooDeep = "the record is nested deeper than \(maximumDepth) levels"

    /// The maximum content of a message: no job can contain a larger record.
    package static let ofJobs = RecordLimits(maximumBytes: 256 << 20)

    let maximumBytes: Int

    var tooLarge: String { "the record is larger than \(maximumBytes >> 20) MiB, the most that a job may hold" }
}
