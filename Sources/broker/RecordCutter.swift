/// Cuts a stream of JSON into its records, without holding more than one of them.
///
/// The stream is one array, whose elements are the records, or any number of values one after the other (NDJSON, or
/// simply written side by side). Only what is needed to find the ends is looked at; the server checks the rest.
struct RecordCutter {
    struct Fault: Error {
        let message: String
        /// Bytes from the beginning of the stream.
        let offset: Int
    }

    private enum State {
        /// Between records; inside an array when `isInArray`.
        case between
        /// Inside a number or a literal, which ends where something else begins.
        case scalar
        case string
        case stringEscape
        /// Inside an object or array of this depth.
        case container(depth: Int)
        case containerString(depth: Int)
        case containerStringEscape(depth: Int)
        /// After a record in an array: a comma or the end must come.
        case afterElement
    }

    private var state = State.between
    private var isInArray = false
    private var record: [UInt8] = []
    private var offset = 0

    /// Takes the next bytes and hands every record that they end to `emit`.
    mutating func feed(_ bytes: some Sequence<UInt8>, emit: ([UInt8]) -> Void) throws(Fault) {
        for byte in bytes {
            if case .scalar = state, Self.endsScalar(byte) { end(emit) }
            if try endsRecord(byte) { end(emit) }
            offset += 1
        }
    }

    /// The stream is over.
    mutating func finish(emit: ([UInt8]) -> Void) throws(Fault) {
        if case .scalar = state { end(emit) }
        guard case .between = state, !isInArray else {
            throw Fault(message: "the input ends in the middle of a record or of the array", offset: offset)
        }
    }

    private mutating func end(_ emit: ([UInt8]) -> Void) {
        emit(record)
        record.removeAll(keepingCapacity: true)
        state = isInArray ? .afterElement : .between
    }

    private mutating func endsRecord(_ byte: UInt8) throws(Fault) -> Bool {
        switch state {
        case .between, .afterElement:
            try begin(byte)
            return false
        default:
            record.append(byte)
            return advance(byte)
        }
    }

    private mutating func begin(_ byte: UInt8) throws(Fault) {
        if Self.isSpace(byte) { return }
        if isInArray {
            if byte == UInt8(ascii: "]") {
                isInArray = false
                state = .between
                return
            }
            if case .afterElement = state {
                guard byte == UInt8(ascii: ",") else {
                    throw Fault(message: "expected a comma or the end of the array after a record", offset: offset)
                }
                state = .between
                return
            }
        } else if byte == UInt8(ascii: "[") {
            isInArray = true
            return
        }
        record.append(byte)
        switch byte {
        case UInt8(ascii: "{"), UInt8(ascii: "["): state = .container(depth: 1)
        case UInt8(ascii: "\""): state = .string
        case UInt8(ascii: ","), UInt8(ascii: "]"), UInt8(ascii: "}"), UInt8(ascii: ":"):
            throw Fault(message: "expected a record, saw '\(Character(UnicodeScalar(byte)))'", offset: offset)
        default: state = .scalar
        }
    }

    private mutating func advance(_ byte: UInt8) -> Bool {
        switch state {
        case .string:
            if byte == UInt8(ascii: "\\") { state = .stringEscape }
            return byte == UInt8(ascii: "\"")
        case .stringEscape: state = .string
        case .container(let depth):
            switch byte {
            case UInt8(ascii: "{"), UInt8(ascii: "["): state = .container(depth: depth + 1)
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                state = .container(depth: depth - 1)
                return depth == 1
            case UInt8(ascii: "\""): state = .containerString(depth: depth)
            default: break
            }
        case .containerString(let depth):
            if byte == UInt8(ascii: "\\") { state = .containerStringEscape(depth: depth) }
            if byte == UInt8(ascii: "\"") { state = .container(depth: depth) }
        case .containerStringEscape(let depth): state = .containerString(depth: depth)
        case .between, .afterElement, .scalar: break
        }
        return false
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

    private static func endsScalar(_ byte: UInt8) -> Bool {
        isSpace(byte) || byte == UInt8(ascii: ",") || byte == UInt8(ascii: "]") || byte == UInt8(ascii: "}")
    }
}
