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
    private var doubts: RecordDoubts = []
    private var position = TextPosition()

    package init(opensArrays: Bool = true) { self.init(opensArrays: opensArrays, limits: .ofJobs) }

    init(opensArrays: Bool, limits: RecordLimits) {
        self.opensArrays = opensArrays
        self.limits = limits
    }

    package var place: InputPlace { position.place }

    /// Adds the next bytes and passes every complete record to `emit`.
    ///
    /// - Throws: the first fault; the records before it were passed on.
    package mutating func feed(_ bytes: [UInt8], _ emit: RecordSink) throws(InputFault) {
        let base = position.offset
        var index = 0
        while index < bytes.count {
            if recordPlace == nil {
                index = try bytes.withUnsafeBufferPointer { piece throws(InputFault) in
                    try goOnBetween(piece, from: index, base: base)
                }
                if recordPlace == nil { continue }
            }
            index = try cut(bytes, from: index, base: base, emit)
        }
        position.reach(base + bytes.count)
    }

    /// Continues inside a record, and passes it on if it ends here.
    ///
    /// - Returns: the end of the record in the piece, or the end of the piece.
    private mutating func cut(
        _ bytes: [UInt8], from start: Int, base: Int, _ emit: RecordSink
    ) throws(InputFault) -> Int {
        // The bytes within the limit; a record that continues after them is too large.
        let stop = min(bytes.count, start + limits.maximumBytes - begun.count)
        let end = try bytes.withUnsafeBufferPointer { piece throws(InputFault) -> Int? in
            if state == .value, open.isEmpty, let bytes = piece.baseAddress,
                let end = bytes.wholeRecordEnd(from: start, to: stop, &doubts)
            {
                return end
            }
            return try goOnInside(UnsafeBufferPointer(rebasing: piece[..<stop]), from: start, base: base)
        }
        if let end {
            try endRecord(bytes[start..<end], at: base + end, emit)
            return end
        }
        if stop < bytes.count {
            position.reach(base + stop)
            guard state == .scalar, !bytes[stop].isScalar else { throw fault(limits.tooLarge) }
            // It has ended with the last byte within the limit, if it is not inside of another value.
            guard open.isEmpty else { throw fault(limits.tooLarge) }
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

    /// Moves to the beginning of the next record, or to the end of the piece.
    private mutating func goOnBetween(
        _ piece: UnsafeBufferPointer<UInt8>, from start: Int, base: Int
    ) throws(InputFault) -> Int {
        var index = start
        while index < piece.count {
            let byte = piece[index]
            position.reach(base + index)
            if byte.isJSONSpace {
                if byte == UInt8(ascii: "\n") { position.advanceOverLineEnd() }
            } else if try takeBetween(byte) {
                return index
            }
            index += 1
        }
        return index
    }

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
            doubts = []
            state = .value
            return true
        }
        return false
    }

    /// - Parameters:
    ///   - rest: the record's bytes in this piece.
    ///   - end: the end of the record in the input.
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
        try emit(InputRecord(json: json, place: record, isSound: doubts.areDispelled(by: json)))
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
}

extension InputRecord {
    /// The record as a document.
    ///
    /// - Throws: its fault, at its position in the input.
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

/// A record that is whole in its piece, and has no fault, line end or deep nesting: nearly every one.
extension UnsafePointer<UInt8> {
    /// Returns the end of the record that begins at `start`; nil when it is not such a record.
    ///
    /// ``RecordCutter/goOnInside(_:from:base:)`` reads every record, and can stop at each byte. Here the state is the position in
    /// the code, which takes three fifths of the time.
    ///
    /// - Parameter doubts: about the record; without meaning when the result is nil.
    func wholeRecordEnd(from start: Int, to end: Int, _ doubts: inout RecordDoubts) -> Int? {
        var index = start
        // A bit for each open container, 1 for an object; the innermost is the lowest.
        var open: UInt64 = 0
        var depth = 0
        while true {
            // Before a value.
            guard index < end else { return nil }
            let byte = self[index]
            if byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") {
                guard depth < UInt64.bitWidth else { return nil }
                depth += 1
                let isObject = byte == UInt8(ascii: "{")
                open = open &<< 1 | (isObject ? 1 : 0)
                index += 1
                guard skipBlanks(&index, end) else { return nil }
                if self[index] != (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
                    if isObject { guard passKey(&index, end, &doubts) else { return nil } }
                    continue
                }
            } else {
                guard passScalar(&index, end, &doubts) else { return nil }
            }
            // After a value, or at the end of an empty container.
            while depth > 0 {
                guard skipBlanks(&index, end) else { return nil }
                let byte = self[index]
                let isObject = open & 1 == 1
                index += 1
                if byte == UInt8(ascii: ",") {
                    guard skipBlanks(&index, end) else { return nil }
                    if isObject { guard passKey(&index, end, &doubts) else { return nil } }
                    break
                }
                guard byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { return nil }
                depth -= 1
                open &>>= 1
            }
            if depth == 0 { return index }
        }
    }

    /// Moves to the next byte that is no blank. False at a line end, and when there is none.
    @inline(__always)
    private func skipBlanks(_ index: inout Int, _ end: Int) -> Bool {
        while index < end {
            if self[index] > 0x20 { return true }
            guard self[index] == 0x20 || self[index] == 0x09 else { return false }
            index += 1
        }
        return false
    }

    /// Moves over a key and its colon, to the beginning of the value.
    @inline(__always)
    private func passKey(_ index: inout Int, _ end: Int, _ doubts: inout RecordDoubts) -> Bool {
        guard self[index] == UInt8(ascii: "\""), passString(&index, end, &doubts), skipBlanks(&index, end),
            self[index] == UInt8(ascii: ":")
        else { return false }
        index += 1
        return skipBlanks(&index, end)
    }

    /// Moves over a string, a number or a literal, after which there must be a byte.
    @inline(__always)
    private func passScalar(_ index: inout Int, _ end: Int, _ doubts: inout RecordDoubts) -> Bool {
        if self[index] == UInt8(ascii: "\"") { return passString(&index, end, &doubts) }
        var faults: RecordDoubts = []
        index = scalarEnd(from: index, to: end, &faults)
        return faults.isEmpty && index < end
    }

    /// Moves over the string that begins here.
    @inline(__always)
    private func passString(_ index: inout Int, _ end: Int, _ doubts: inout RecordDoubts) -> Bool {
        index += 1
        while true {
            index = stringEnd(from: index, to: end, &doubts)
            guard index < end else { return false }
            if self[index] == UInt8(ascii: "\"") {
                index += 1
                return true
            }
            guard self[index] == UInt8(ascii: "\\"), index + 1 < end, 0x20...0x7F ~= self[index + 1] else {
                return false
            }
            doubts.insert(.escapes)
            index += 2
        }
    }
}

/// Inside of a record: the innermost loop of reading JSON. Its position is in local variables, for registers.
extension RecordCutter {
    /// - Returns: the end of the record; nil when it is not in this piece.
    private mutating func goOnInside(
        _ piece: UnsafeBufferPointer<UInt8>, from start: Int, base: Int
    ) throws(InputFault) -> Int? {
        guard let bytes = piece.baseAddress, start < piece.count else { return nil }
        let end = piece.count
        var index = start
        if state == .scalar, !goOnInScalar(bytes, &index, end) { return nil }
        var state = state
        var isObject = open.last == UInt8(ascii: "{")
        defer { self.state = state }
        while true {
            // A record that is a single value ends with it.
            if state == .commaOrEnd, open.isEmpty { return index }
            guard index < end else { return nil }
            let byte = bytes[index]
            switch state {
            case .string, .keyString:
                index = bytes.stringEnd(from: index, to: end, &doubts)
                guard index < end else { return nil }
                if bytes[index] == UInt8(ascii: "\"") {
                    state = state == .string ? .commaOrEnd : .colon
                } else if bytes[index] == UInt8(ascii: "\\") {
                    doubts.insert(.escapes)
                    state = state == .string ? .escape : .keyEscape
                } else {
                    throw controlCharacter(bytes[index], at: base + index)
                }
            case .escape, .keyEscape:
                guard byte >= 0x20 else { throw controlCharacter(byte, at: base + index) }
                if byte >= 0x80 { doubts.insert(.notASCII) }
                state = state == .escape ? .string : .keyString
            case _ where byte.isJSONSpace:
                index = skipSpace(bytes, from: index, to: end, base: base)
                continue
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
                let begin = index
                index = bytes.scalarEnd(from: begin, to: end, &doubts)
                guard index < end else { return nil }
                state = .commaOrEnd
                continue
            case .value, .firstValue:
                state = try beginContainer(byte, at: base + index)
                isObject = state == .firstKey
            default: throw unexpected(byte, state, at: base + index)
            }
            index += 1
        }
    }

    /// Continues a number or a literal that began in another piece.
    ///
    /// - Returns: false when it does not end in this one.
    private mutating func goOnInScalar(_ bytes: UnsafePointer<UInt8>, _ index: inout Int, _ end: Int) -> Bool {
        // Its beginning is not available.
        doubts.insert(.anything)
        while index < end, bytes[index].isScalar { index += 1 }
        guard index < end else { return false }
        state = .commaOrEnd
        return true
    }

    private mutating func skipSpace(
        _ bytes: UnsafePointer<UInt8>, from start: Int, to end: Int, base: Int
    ) -> Int {
        var index = start
        while index < end, bytes[index].isJSONSpace {
            if bytes[index] == UInt8(ascii: "\n") {
                position.reach(base + index)
                position.advanceOverLineEnd()
            }
            index += 1
        }
        return index
    }

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
