internal import BrokerFastJSON
package import BrokerJSON

/// Divides a stream of JSON into its records, with at most one of them in memory.
///
/// The stream is any number of values one after the other (NDJSON, or without line ends), and the elements of arrays
/// among them are records, too. A byte order mark may precede a value, and record separators (RFC 7464) may be between
/// values. The grammar of brackets, keys and commas is checked as the bytes arrive, so that an invalid record is found
/// at its fault, and not at the end of the stream. The contents of numbers, literals and strings are not checked: a
/// record that may have a fault there is marked, and the parser reports the fault.
///
/// Invariants:
/// 1. A record is a slice of the bytes of its piece. Only a record that continues in the next piece is copied.
/// 2. Records, positions and the fault do not depend on how the stream is divided into pieces.
package struct RecordCutter: RecordReader {
    private enum State {
        /// Before a value of the stream.
        case between
        /// Inside a byte order mark, of which one or two bytes were read.
        case markBegun, markNearlyWhole
        /// Inside the array whose elements are records: before the first, before another one, after one.
        case firstElement, element, afterElement
        /// Inside a record: before a value, before an array's first, before a key, before an object's first …
        case value, firstValue, key, firstKey, colon, commaOrEnd
        /// Inside a string, and after its backslash.
        case string, keyString, escape, keyEscape
        /// Inside a number or a literal, which ends where another token begins.
        case scalar
    }

    /// The elements of an array are records, not the array itself.
    private let opensArrays: Bool
    private let limits: RecordLimits
    private var state = State.between
    /// The beginning of the array of records.
    private var arrayPlace: InputPlace?
    private var recordPlace: InputPlace?
    /// The record's bytes in the previous pieces.
    private var begun: [UInt8] = []
    /// The open brackets inside the record.
    private var open: [UInt8] = []
    /// The record may have a fault that only the parser finds: escapes, bytes that are not ASCII, unusual numbers.
    private var isDoubtful = false
    private var position = TextPosition()

    package init(opensArrays: Bool = true) { self.init(opensArrays: opensArrays, limits: .ofJobs) }

    init(opensArrays: Bool, limits: RecordLimits) {
        self.opensArrays = opensArrays
        self.limits = limits
    }

    package var place: InputPlace { position.place }

    var recordStart: Int? { recordPlace?.offset }

    mutating func restart(at position: TextPosition) -> Bool {
        guard arrayPlace == nil else { return false }
        self.position = position
        (state, recordPlace, begun, open) = (.between, nil, [], [])
        return true
    }

    /// Adds the next bytes and passes every complete record to `emit`.
    ///
    /// - Throws: the first fault; the records before it were passed on.
    package mutating func feed(_ bytes: [UInt8], _ emit: RecordSink) throws(InputFault) {
        let base = position.offset
        var index = 0
        while index < bytes.count {
            if recordPlace != nil {
                index = try cut(bytes, from: index, base: base, emit)
                continue
            }
            position.reach(base + index)
            if bytes[index] == UInt8(ascii: "\n") { position.advanceOverLineEnd() }
            // A record begins with this byte.
            if !bytes[index].isJSONSpace, try takeBetween(bytes[index]) { continue }
            index += 1
        }
        position.reach(base + bytes.count)
    }

    /// Continues inside a record, and passes it on if it ends here.
    private mutating func cut(
        _ bytes: [UInt8], from start: Int, base: Int, _ emit: RecordSink
    ) throws(InputFault) -> Int {
        // The bytes within the limit; a record that continues after them is too large.
        let stop = min(bytes.count, start + limits.maximumBytes - begun.count)
        let end = try bytes.withUnsafeBufferPointer { piece throws(InputFault) in
            try goOnInside(UnsafeBufferPointer(rebasing: piece[..<stop]), from: start, base: base)
        }
        if let end {
            try endRecord(bytes[start..<end], at: base + end, emit)
            return end
        }
        if stop < bytes.count {
            position.reach(base + stop)
            // A number has ended with the last byte within the limit, if it is not inside of another value.
            guard state == .scalar, !bytes[stop].isScalar, open.isEmpty else { throw fault(limits.tooLarge) }
            try endRecord(bytes[start..<stop], at: base + stop, emit)
            return stop
        }
        begun += bytes[start...]
        return bytes.count
    }

    /// The stream ends.
    package mutating func finish(_ emit: RecordSink) throws(InputFault) {
        if state == .scalar, open.isEmpty { try endRecord([], at: position.offset, emit) }
        if recordPlace != nil { throw truncation() }
        switch state {
        case .between: return
        case .markBegun, .markNearlyWhole:
            throw InputFault(reason: "the input ends inside of a byte order mark", place: place)
        default:
            throw InputFault(
                reason: "the input ends before the array that begins at line \(arrayPlace?.line ?? 1) is closed",
                place: place)
        }
    }

    // MARK: - Between records

    /// Moves over a byte that is no white space. True when it begins a record.
    private mutating func takeBetween(_ byte: UInt8) throws(InputFault) -> Bool {
        switch (state, byte) {
        case (.between, 0x1E): break
        case (.between, 0xEF): state = .markBegun
        case (.markBegun, 0xBB): state = .markNearlyWhole
        case (.markNearlyWhole, 0xBF):
            state = .between
            // The mark at the beginning is no text: columns count after it.
            if position.offset == 2 { position.beginText(at: 3) }
        case (.markBegun, _), (.markNearlyWhole, _):
            throw fault("expected a byte order mark, saw \(byte.asSeen)")
        case (.between, UInt8(ascii: "[")) where opensArrays:
            arrayPlace = place
            state = .firstElement
        case (.firstElement, UInt8(ascii: "]")), (.afterElement, UInt8(ascii: "]")):
            arrayPlace = nil
            state = .between
        case (.afterElement, UInt8(ascii: ",")): state = .element
        case (.afterElement, _):
            throw fault("expected a comma or the end of the array after a record, saw \(byte.asSeen)")
        default:
            recordPlace = place
            isDoubtful = false
            state = .value
            return true
        }
        return false
    }

    private mutating func endRecord(_ rest: ArraySlice<UInt8>, at end: Int, _ emit: RecordSink) throws(InputFault) {
        position.reach(end)
        var json = rest
        if !begun.isEmpty {
            json = (begun + rest)[...]
            begun = []
        }
        let record = recordPlace ?? place
        recordPlace = nil
        state = arrayPlace == nil ? .between : .afterElement
        try emit(InputRecord(json: json, place: record, isSound: !isDoubtful))
    }

    // MARK: - Faults

    /// A value cannot begin with this byte.
    private func noValue(_ byte: UInt8) -> InputFault {
        if byte == UInt8(ascii: "<"), open.isEmpty, arrayPlace == nil {
            return fault("expected a record, saw '<' (is it XML? then: --type xml)")
        }
        return fault("expected \(open.isEmpty ? "a record" : "a value"), saw \(byte.asSeen)")
    }

    private func fault(_ reason: String) -> InputFault {
        InputFault(reason: reason, place: place, recordPlace: recordPlace)
    }

    /// The parser's message for a record without an end: which string or bracket is open.
    private func truncation() -> InputFault {
        InputRecord(json: begun, place: recordPlace ?? place).fault
            ?? fault("the input ends in the middle of a record")
    }

    // MARK: - Inside of a record

    /// - Returns: the end of the record; nil when it is not in this piece.
    private mutating func goOnInside(
        _ piece: UnsafeBufferPointer<UInt8>, from start: Int, base: Int
    ) throws(InputFault) -> Int? {
        var index = start
        // The beginning of a number that another piece began is not available.
        if state == .scalar { isDoubtful = true }
        var state = state
        var isObject = open.last == UInt8(ascii: "{")
        defer { self.state = state }
        while true {
            // A record that is a single value ends with it.
            if state == .commaOrEnd, open.isEmpty { return index }
            guard index < piece.count else { return nil }
            let byte = piece[index]
            switch state {
            case .string, .keyString:
                if byte == UInt8(ascii: "\"") {
                    state = state == .string ? .commaOrEnd : .colon
                } else if byte == UInt8(ascii: "\\") {
                    isDoubtful = true
                    state = state == .string ? .escape : .keyEscape
                } else if byte < 0x20 {
                    throw controlCharacter(byte, at: base + index)
                } else if byte >= 0x80 {
                    isDoubtful = true
                }
            case .escape, .keyEscape:
                guard byte >= 0x20 else { throw controlCharacter(byte, at: base + index) }
                state = state == .escape ? .string : .keyString
            case .scalar where !byte.isScalar:
                state = .commaOrEnd
                continue
            case .scalar: break
            case _ where byte.isJSONSpace:
                position.reach(base + index)
                if byte == UInt8(ascii: "\n") { position.advanceOverLineEnd() }
            case .colon where byte == UInt8(ascii: ":"): state = .value
            case .key where byte == UInt8(ascii: "\""), .firstKey where byte == UInt8(ascii: "\""): state = .keyString
            case .commaOrEnd where byte == UInt8(ascii: ","): state = isObject ? .key : .value
            case .commaOrEnd where byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")),
                .firstKey where byte == UInt8(ascii: "}"), .firstValue where byte == UInt8(ascii: "]"):
                open.removeLast()
                isObject = open.last == UInt8(ascii: "{")
                state = .commaOrEnd
            case .value where byte == UInt8(ascii: "\""), .firstValue where byte == UInt8(ascii: "\""):
                state = .string
            case .value where byte.isScalar, .firstValue where byte.isScalar:
                state = .scalar
                let scalar = piece[index...].prefix(while: \.isScalar)
                isDoubtful = isDoubtful || !Self.isSound(scalar)
                index = scalar.endIndex
                continue
            case .value, .firstValue:
                state = try beginContainer(byte, at: base + index)
                isObject = state == .firstKey
            default: throw unexpected(byte, state, at: base + index)
            }
            index += 1
        }
    }

    /// A literal, or a number without an exponent. Of all else the parser decides.
    private static func isSound(_ scalar: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        let digits = scalar.first == UInt8(ascii: "-") ? scalar.dropFirst() : scalar
        guard let first = digits.first, first.isDigit else { return literals.contains { scalar.elementsEqual($0) } }
        let whole = digits.prefix { $0 != UInt8(ascii: ".") }
        let fraction = digits[whole.endIndex...].dropFirst()
        return (whole.count == 1 || first != UInt8(ascii: "0")) && digits.last != UInt8(ascii: ".")
            && whole.allSatisfy(\.isDigit) && fraction.allSatisfy(\.isDigit)
    }

    private static let literals = ["true", "false", "null"].map { Array($0.utf8) }

    /// Begins an array or an object: the record itself or a value inside of it.
    private mutating func beginContainer(_ byte: UInt8, at offset: Int) throws(InputFault) -> State {
        guard byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") else {
            position.reach(offset)
            throw noValue(byte)
        }
        open.append(byte)
        guard open.count <= RecordLimits.maximumDepth else {
            position.reach(offset)
            throw fault(RecordLimits.tooDeep)
        }
        return byte == UInt8(ascii: "{") ? .firstKey : .firstValue
    }

    private mutating func unexpected(_ byte: UInt8, _ state: State, at offset: Int) -> InputFault {
        position.reach(offset)
        let expected =
            switch state {
            case .commaOrEnd: "a comma or the closing bracket"
            case .colon: "a colon after the key"
            default: "a key in double quotes"
            }
        return fault("expected \(expected), saw \(byte.asSeen)")
    }

    private mutating func controlCharacter(_ byte: UInt8, at offset: Int) -> InputFault {
        position.reach(offset)
        return fault("\(byte.asSeen) must be escaped inside a string")
    }
}

extension InputRecord {
    /// The record as a document.
    package func parsed() throws(InputFault) -> JSONDocument {
        do throws(JSONError) {
            return try JSONDocument(fast: json.withUnsafeBytes { JSONText(copying: $0) })
        } catch {
            throw InputFault(
                reason: error.reason, place: place.advanced(over: json.prefix(error.position.offset)),
                recordPlace: place)
        }
    }

    /// The record's fault as JSON; nil for a valid record.
    package var fault: InputFault? {
        do throws(InputFault) {
            _ = try parsed()
            return nil
        } catch {
            return error
        }
    }
}

extension UInt8 {
    /// White space of JSON.
    var isJSONSpace: Bool { self == 0x20 || self == 0x0A || self == 0x0D || self == 0x09 }

    var isDigit: Bool { self &- UInt8(ascii: "0") <= 9 }

    /// A byte that may belong to a number or a literal: a letter, a digit, a sign or a dot.
    var isScalar: Bool {
        isDigit || (self | 0x20) &- UInt8(ascii: "a") < 26
            || self == UInt8(ascii: "-") || self == UInt8(ascii: "+") || self == UInt8(ascii: ".")
    }
}

/// The beginning of an input.
package enum InputBeginning {
    /// The first value of JSON, as one record; nil when there is none.
    ///
    /// - Parameter maximumBytes: more bytes of the input up to its end, unpacked, are a fault.
    package static func firstValue(file path: String, maximumBytes: Int) throws(InputFault) -> InputRecord? {
        let bytes = UnpackedBytes(try FileBytes(path), maximumBytes: maximumBytes)
        var cutter = RecordCutter(opensArrays: false)
        var first: InputRecord?
        do throws(InputFault) {
            while first == nil {
                let chunk = try bytes.next()
                if chunk.isEmpty {
                    try cutter.finish { first = first ?? $0 }
                    break
                }
                try cutter.feed(chunk) { first = first ?? $0 }
            }
        } catch {
            // What follows the value does not count.
            guard first != nil else { throw error }
        }
        return first
    }

    /// The first value is an array, whose elements are records.
    package static func isArray(file path: String) -> Bool {
        guard let bytes = (try? FileBytes(path)).map({ UnpackedBytes($0) }) else { return false }
        while let chunk = try? bytes.next(), !chunk.isEmpty {
            // White space and a byte order mark may precede it.
            let first = chunk.first { !$0.isJSONSpace && ![0xEF, 0xBB, 0xBF, 0x1E].contains($0) }
            if let first { return first == UInt8(ascii: "[") }
        }
        return false
    }
}
