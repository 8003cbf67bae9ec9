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

    /// Begins the line here: the previous bytes were a byte order mark.
    mutating func beginText() { lineStart = offset }

    /// Begins the line at that offset.
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
        self.json = json
        self.place = place
        self.isSound = isSound
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

    package init(reason: String, place: InputPlace?, recordPlace: InputPlace? = nil) {
        self.reason = reason
        self.place = place
        self.recordPlace = recordPlace
    }

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
        case 0xFE, 0xFF: "a byte that no UTF-8 has (is it UTF-16? then: iconv -f UTF-16 -t UTF-8)"
        case 0: "the byte 0x00 (is it UTF-16? then: iconv -f UTF-16 -t UTF-8)"
        default: "the byte 0x\(self < 16 ? "0" : "")\(String(self, radix: 16, uppercase: true))"
        }
    }
}

/// The remedy for a text that is not UTF-8.
let encodingRemedy = "convert it, if it is Windows-1252 or Latin-1: iconv -f WINDOWS-1252 -t UTF-8"

/// The number of bytes up to the first invalid UTF-8; nil when all are valid.
func utf8FaultOffset(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
    do throws(UTF8.ValidationError) {
        _ = try UTF8Span(validating: bytes.span)
        return nil
    } catch {
        return error.byteOffsets.lowerBound
    }
}
