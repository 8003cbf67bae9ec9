/// Where in an input something is. Lines and columns count from 1 (columns in bytes), offsets from 0.
struct InputPlace: Equatable, Sendable, CustomStringConvertible {
    var line = 1
    var column = 1
    var offset = 0

    /// The place behind these bytes, which begin here.
    func advanced(over bytes: some Sequence<UInt8>) -> InputPlace {
        var place = self
        for byte in bytes {
            place.offset += 1
            if byte == UInt8(ascii: "\n") {
                place.line += 1
                place.column = 1
            } else {
                place.column += 1
            }
        }
        return place
    }

    var description: String { "line \(line), column \(column) (byte \(offset))" }
}

/// A record as it was written.
struct InputRecord {
    let json: [UInt8]
    /// Where it begins.
    let place: InputPlace
}

/// An input cannot be read, or not any further.
struct InputFault: Error, Equatable {
    /// What is wrong, without the place.
    let reason: String
    /// Nil when the input could not be read at all.
    let place: InputPlace?
    /// Where the record begins that is broken, if it is one.
    var recordPlace: InputPlace?

    /// The reason, and which record it is in when that begins on another line.
    var text: String {
        guard let recordPlace, recordPlace.line != place?.line else { return reason }
        return "\(reason), in the record that begins at line \(recordPlace.line)"
    }
}
