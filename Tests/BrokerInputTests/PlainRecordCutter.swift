@testable import BrokerInput

/// The reference for ``RecordCutter``: the same, byte by byte.
struct PlainRecordCutter: RecordReader {
    private enum State {
        /// Before a value of the stream.
        case between
        /// Inside a byte order mark, of which so many bytes were there.
        case mark(Int)
        /// At the end of the mark at the beginning.
        case marked
        /// Inside the array whose elements are records: before the first, before another one, after one.
        case firstElement, element, afterElement
        /// Inside a record: before a value, before an array's first, before a key, before an object's first …
        case value, firstValue, key, firstKey, colon, commaOrEnd
        case string(isKey: Bool)
        case escape(isKey: Bool)
        /// Inside a number or a literal, which ends where something else begins.
        case scalar
    }

    private let limits: RecordLimits
    private var state = State.between
    /// Where the array of records began.
    private var arrayPlace: InputPlace?
    private var record: [UInt8] = []
    private var mayFollowComma = false
    private var recordPlace: InputPlace?
    /// The brackets that are open inside the record.
    private var open: [UInt8] = []
    private var position = TextPosition()

    init(limits: RecordLimits) { self.limits = limits }

    var place: InputPlace { position.place }

    /// Takes the next bytes and hands every record that they end to `emit`.
    ///
    /// - Throws: the first fault; the records before it were handed out.
    mutating func feed(
        _ bytes: [UInt8], _ emit: (InputRecord) throws(InputFault) -> Void
    ) throws(InputFault) {
        for byte in bytes {
            if case .scalar = state, !Self.isScalar(byte) { try endValue(emit) }
            try take(byte, emit)
            if byte == UInt8(ascii: "\n") { position.advanceOverLineEnd() } else { position.advance() }
            if case .marked = state {
                position.beginText(at: position.offset)
                state = .between
            }
        }
    }

    /// The stream is over.
    mutating func finish(_ emit: (InputRecord) throws(InputFault) -> Void) throws(InputFault) {
        if case .scalar = state { try endValue(emit) }
        if recordPlace != nil { throw truncation() }
        switch state {
        case .between: return
        case .mark: throw InputFault(reason: "the input ends inside of a byte order mark", place: place)
        default:
            throw InputFault(
                reason: "the input ends before the array that begins at line \(arrayPlace?.line ?? 1) is closed",
                place: place)
        }
    }

    // MARK: - Between records

    private mutating func take(_ byte: UInt8, _ emit: (InputRecord) throws(InputFault) -> Void) throws(InputFault) {
        if recordPlace != nil { return try takeInside(byte, emit) }
        if Self.isSpace(byte) { return }
        switch (state, byte) {
        case (.between, 0x1E): return
        case (.between, UInt8(ascii: ",")) where mayFollowComma: mayFollowComma = false
        case (.between, 0xEF): state = .mark(1)
        case (.mark(1), 0xBB): state = .mark(2)
        // The mark at the beginning is no text: columns count after it.
        case (.mark(2), 0xBF): state = position.offset == 2 ? .marked : .between
        case (.mark, _): throw fault("expected a byte order mark, saw \(byte.asSeen)")
        case (.between, UInt8(ascii: "[")):
            arrayPlace = place
            state = .firstElement
        case (.firstElement, UInt8(ascii: "]")), (.afterElement, UInt8(ascii: "]")):
            arrayPlace = nil
            mayFollowComma = true
            state = .between
        case (.afterElement, UInt8(ascii: ",")): state = .element
        case (.afterElement, _):
            throw fault("expected a comma or the end of the array after a record, saw \(byte.asSeen)")
        default:
            recordPlace = place
            try begin(byte)
            record.append(byte)
        }
    }

    // MARK: - Inside a record

    private mutating func takeInside(_ byte: UInt8, _ emit: (InputRecord) throws(InputFault) -> Void) throws(InputFault)
    {
        guard record.count < limits.maximumBytes else { throw fault(limits.tooLarge) }
        switch state {
        case .string(let isKey):
            if byte == UInt8(ascii: "\\") {
                state = .escape(isKey: isKey)
            } else if byte < 0x20 {
                throw fault("\(byte.asSeen) must be escaped inside a string")
            }
            record.append(byte)
            guard byte == UInt8(ascii: "\"") else { return }
            if isKey { state = .colon } else { try endValue(emit) }
        case .escape(let isKey):
            guard byte >= 0x20 else { throw fault("\(byte.asSeen) must be escaped inside a string") }
            record.append(byte)
            state = .string(isKey: isKey)
        case .scalar: record.append(byte)
        default:
            let endsValue = Self.isSpace(byte) ? false : try punctuate(byte)
            record.append(byte)
            if endsValue { try endValue(emit) }
        }
    }

    /// Goes on by a byte that is neither white space nor inside of a string or scalar. True when it closes a bracket.
    private mutating func punctuate(_ byte: UInt8) throws(InputFault) -> Bool {
        switch (state, byte) {
        case (.firstValue, UInt8(ascii: "]")), (.firstKey, UInt8(ascii: "}")):
            open.removeLast()
            return true
        case (.commaOrEnd, UInt8(ascii: "]")) where open.last == UInt8(ascii: "["),
            (.commaOrEnd, UInt8(ascii: "}")) where open.last == UInt8(ascii: "{"):
            open.removeLast()
            return true
        case (.commaOrEnd, UInt8(ascii: ",")): state = open.last == UInt8(ascii: "{") ? .key : .value
        case (.commaOrEnd, _): throw fault("expected a comma or the closing bracket, saw \(byte.asSeen)")
        case (.firstKey, UInt8(ascii: "\"")), (.key, UInt8(ascii: "\"")): state = .string(isKey: true)
        case (.firstKey, _), (.key, _): throw fault("expected a key in double quotes, saw \(byte.asSeen)")
        case (.colon, UInt8(ascii: ":")): state = .value
        case (.colon, _): throw fault("expected a colon after the key, saw \(byte.asSeen)")
        default: try begin(byte)
        }
        return false
    }

    /// Begins a value, be it the record itself or one inside of it.
    private mutating func begin(_ byte: UInt8) throws(InputFault) {
        switch byte {
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            open.append(byte)
            guard open.count <= RecordLimits.maximumDepth else { throw fault(RecordLimits.tooDeep) }
            state = byte == UInt8(ascii: "{") ? .firstKey : .firstValue
        case UInt8(ascii: "\""): state = .string(isKey: false)
        case _ where Self.isScalar(byte): state = .scalar
        case UInt8(ascii: "<") where open.isEmpty && arrayPlace == nil:
            throw fault("expected a record, saw '<' (is it XML? then: --type xml)")
        default: throw fault("expected \(open.isEmpty ? "a record" : "a value"), saw \(byte.asSeen)")
        }
    }

    /// A value has ended: the record, or one inside of it.
    private mutating func endValue(_ emit: (InputRecord) throws(InputFault) -> Void) throws(InputFault) {
        guard open.isEmpty else {
            state = .commaOrEnd
            return
        }
        if let recordPlace { try emit(InputRecord(json: record, place: recordPlace)) }
        record.removeAll(keepingCapacity: true)
        recordPlace = nil
        mayFollowComma = true
        state = arrayPlace == nil ? .between : .afterElement
    }

    // MARK: - Faults

    private func fault(_ reason: String) -> InputFault {
        InputFault(reason: reason, place: place, recordPlace: recordPlace)
    }

    /// The parser's message for a record without an end: which string or bracket is open.
    private func truncation() -> InputFault {
        InputRecord(json: record, place: recordPlace ?? place).fault
            ?? fault("the input ends in the middle of a record")
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\t")
    }

    private static func isScalar(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."):
            true
        default: false
        }
    }
}
