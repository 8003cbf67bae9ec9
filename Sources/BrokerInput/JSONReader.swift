internal import BrokerFastJSON
package import BrokerJSON

/// Divides a stream of JSON into its records, with at most one of them in memory.
///
/// The stream is any number of values one after the other (NDJSON, or without line ends), and the elements of arrays
/// among them are records, too. A byte order mark may precede a value, and a comma and record separators (RFC 7464) may be
/// between values. The grammar of brackets, keys and commas is checked as the bytes arrive, so that an invalid record is found
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
        /// Inside an object on the way to the root: before a key, before the first one, inside of one and after its backslash,
        /// before the value, after it.
        case member, firstMember, memberKey, memberEscape, memberColon, memberValue, afterMember
    }

    /// The elements of an array are records, not the array itself.
    private let opensArrays: Bool
    private let limits: RecordLimits
    private var state = State.between
    /// The containers around the records at a root; nil without a root.
    private var path: RootPath?
    /// The beginning of the array of records.
    private var arrayPlace: InputPlace?
    private var recordPlace: InputPlace?
    /// The record's bytes in the previous pieces.
    private var begun: [UInt8] = []
    /// A value of the stream has ended, and no comma followed it.
    private var mayFollowComma = false
    /// The open brackets inside the record.
    private var open: [UInt8] = []
    /// The record may have a fault that only the parser finds: escapes, bytes that are not ASCII, unusual numbers.
    private var isDoubtful = false
    private var position = TextPosition()

    package init(opensArrays: Bool = true) { self.init(opensArrays: opensArrays, limits: .ofJobs) }

    init(opensArrays: Bool, root: RecordRoot? = nil, limits: RecordLimits) {
        self.opensArrays = opensArrays
        self.limits = limits
        path = root.map { RootPath($0) }
    }

    package var place: InputPlace { position.place }

    var recordStart: Int? { (path?.frames.first?.place ?? recordPlace)?.offset }

    mutating func restart(at position: TextPosition) -> Bool {
        guard arrayPlace == nil else { return false }
        self.position = position
        (state, recordPlace, begun, open, mayFollowComma) = (.between, nil, [], [], false)
        path?.clear()
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
            if state == .memberKey || state == .memberEscape {
                try takeKey(bytes[index])
                index += 1
                continue
            }
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
        let isDiscarded = path?.isDiscarded ?? false
        // The bytes within the limit; a record that continues after them is too large.
        let stop = isDiscarded ? bytes.count : min(bytes.count, start + limits.maximumBytes - begun.count)
        let end = try bytes.withUnsafeBufferPointer { piece throws(InputFault) -> Int? in
            let piece = UnsafeBufferPointer(rebasing: piece[..<stop])
            guard state == .value, open.isEmpty, let whole = WholeRecord(in: piece, from: start) else {
                return try goOnInside(piece, from: start, base: base)
            }
            isDoubtful = whole.isDoubtful
            position.advance(overLines: whole.lines, to: base + whole.lineStart)
            return whole.end
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
        if !isDiscarded { begun += bytes[start...] }
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
            let container = path?.frames.last?.isObject ?? false ? "object" : "array"
            let line = (path?.frames.last?.place ?? arrayPlace)?.line ?? 1
            throw fault("the input ends before the \(container) that begins at line \(line) is closed")
        }
    }

    // MARK: - Between records

    /// Moves over a byte that is no white space. True when it begins a record.
    private mutating func takeBetween(_ byte: UInt8) throws(InputFault) -> Bool {
        switch (state, byte) {
        case (.between, 0x1E): break
        case (.between, UInt8(ascii: ",")) where mayFollowComma: mayFollowComma = false
        case (.between, 0xEF): state = .markBegun
        case (.markBegun, 0xBB): state = .markNearlyWhole
        case (.markNearlyWhole, 0xBF):
            state = .between
            // The mark at the beginning is no text: columns count after it.
            if position.offset == 2 { position.beginText(at: 3) }
        case (.markBegun, _), (.markNearlyWhole, _):
            throw fault("expected a byte order mark, saw \(byte.asSeen)")
        case (_, _) where path != nil: return try takeOnPath(byte)
        case (.between, UInt8(ascii: "[")) where opensArrays:
            arrayPlace = place
            state = .firstElement
        case (.firstElement, UInt8(ascii: "]")), (.afterElement, UInt8(ascii: "]")):
            arrayPlace = nil
            (state, mayFollowComma) = (.between, true)
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
        (recordPlace, mayFollowComma) = (nil, true)
        state = arrayPlace == nil ? .between : .afterElement
        guard let path else { return try emit(InputRecord(json: json, place: record, isSound: !isDoubtful)) }
        state = path.stateAfterValue
        guard !path.isDiscarded else { return }
        guard let key = path.recordKey else {
            return try emit(InputRecord(json: json, place: record, isSound: !isDoubtful))
        }
        let member = Array("{\"".utf8) + key + Array("\":".utf8) + json + [UInt8(ascii: "}")]
        try emit(InputRecord(json: member, place: path.keyPlace, isSound: false))
    }

    // MARK: - Faults

    /// A value cannot begin with this byte.
    private func noValue(_ byte: UInt8) -> String {
        if byte == UInt8(ascii: "<"), open.isEmpty, arrayPlace == nil {
            return "expected a record, saw '<' (is it XML? then: --type xml)"
        }
        return "expected \(open.isEmpty ? "a record" : "a value"), saw \(byte.asSeen)"
    }

    private func fault(_ reason: String) -> InputFault {
        var fault = InputFault(reason: reason, place: place, recordPlace: recordPlace)
        fault.valuePlace = path?.frames.first?.place
        return fault
    }

    private mutating func fault(_ reason: String, at offset: Int) -> InputFault {
        position.reach(offset)
        return fault(reason)
    }

    /// The parser's message for a record without an end: which string or bracket is open.
    private func truncation() -> InputFault {
        if path?.isDiscarded ?? false { return fault("the input ends in the middle of a value") }
        return InputRecord(json: begun, place: recordPlace ?? place).fault
            ?? fault("the input ends in the middle of a record")
    }

    // MARK: - On the way to the root

    /// Moves over a byte that is neither white space nor inside of a key. True when it begins a value that is cut: a record, or
    /// one beside the way.
    private mutating func takeOnPath(_ byte: UInt8) throws(InputFault) -> Bool {
        let place = place
        switch (state, byte) {
        case (.firstElement, UInt8(ascii: "]")), (.afterElement, UInt8(ascii: "]")),
            (.firstMember, UInt8(ascii: "}")), (.afterMember, UInt8(ascii: "}")):
            if let reason = path?.pop() { throw missing(reason) }
            (state, mayFollowComma) = (path?.stateAfterValue ?? .between, true)
        case (.afterElement, UInt8(ascii: ",")):
            path?.advanceElement()
            state = .element
        case (.afterMember, UInt8(ascii: ",")): state = .member
        case (.firstMember, UInt8(ascii: "\"")), (.member, UInt8(ascii: "\"")):
            path?.beginKey(at: place)
            state = .memberKey
        case (.memberColon, UInt8(ascii: ":")): state = .memberValue
        case (.afterElement, _), (.afterMember, _):
            throw fault("expected a comma or the closing bracket, saw \(byte.asSeen)")
        case (.firstMember, _), (.member, _): throw fault("expected a key in double quotes, saw \(byte.asSeen)")
        case (.memberColon, _): throw fault("expected a colon after the key, saw \(byte.asSeen)")
        default:
            switch path?.beginValue(byte, at: place) {
            case .object: state = .firstMember
            case .array: state = .firstElement
            case .missing(let reason): throw missing(reason)
            default:
                recordPlace = place
                isDoubtful = false
                state = .value
                return true
            }
        }
        return false
    }

    private mutating func takeKey(_ byte: UInt8) throws(InputFault) {
        guard byte >= 0x20 else { throw controlCharacter(byte, at: position.offset) }
        switch (state, byte) {
        case (.memberEscape, _): state = .memberKey
        case (_, UInt8(ascii: "\\")): state = .memberEscape
        case (_, UInt8(ascii: "\"")):
            path?.endKey()
            state = .memberColon
            return
        default: break
        }
        let limits = limits
        guard path?.appendToKey(byte, limits) ?? true else { throw fault(limits.tooLarge) }
    }

    /// The fault of the value that lacks a part of the root.
    private func missing(_ reason: String) -> InputFault {
        let start = path?.frames.first?.place ?? path?.outermost ?? place
        return InputFault(reason: reason, place: start, recordPlace: start)
    }

    /// The containers on the way to the records at a root.
    ///
    /// Keys lead through objects and, if the root is no pointer, through arrays. The array at the root is opened, and so are the
    /// arrays in it.
    private struct RootPath {
        struct Frame {
            let isObject: Bool
            let place: InputPlace
            /// The tokens of the root that led here.
            let depth: Int
            /// 0 on the way, 1 for the array at the root, 2 for an array in it.
            let level: Int
            /// The next token was found.
            var isFound = false
            /// The number of the current element.
            var index = 0
            /// Some keys, for a message.
            var keys: [String] = []
        }

        enum Step {
            case object, array, cut
            case missing(String)
        }

        let root: RecordRoot
        private(set) var frames: [Frame] = []
        /// The value that is being cut is no record.
        private(set) var isDiscarded = false
        /// The key of a record that is a member of the object at the root, as it is written.
        private(set) var recordKey: [UInt8]?
        private(set) var keyPlace = InputPlace()
        /// The beginning of the last outermost value.
        private(set) var outermost: InputPlace?
        private var key: [UInt8] = []

        init(_ root: RecordRoot) { self.root = root }

        mutating func clear() { frames = [] }

        var stateAfterValue: State {
            frames.last.map { $0.isObject ? .afterMember : .afterElement } ?? .between
        }

        mutating func advanceElement() { frames[frames.count - 1].index += 1 }

        mutating func beginKey(at place: InputPlace) { (key, keyPlace) = ([], place) }

        mutating func appendToKey(_ byte: UInt8, _ limits: RecordLimits) -> Bool {
            key.append(byte)
            return key.count <= limits.maximumBytes
        }

        mutating func endKey() {
            let last = frames.count - 1
            guard frames[last].keys.count < RecordRoot.namedKeys else { return }
            frames[last].keys.append(Self.text(key))
        }

        private static func text(_ key: [UInt8]) -> String {
            guard key.contains(UInt8(ascii: "\\")) else { return String(decoding: key, as: UTF8.self) }
            let quoted = [UInt8(ascii: "\"")] + key + [UInt8(ascii: "\"")]
            let document = try? InputRecord(json: quoted, place: InputPlace()).parsed()
            return document?.withRoot { $0.string } ?? String(decoding: key, as: UTF8.self)
        }

        /// - Returns: why the records are not there; nil if they were.
        mutating func pop() -> String? {
            let frame = frames.removeLast()
            guard frame.level == 0, !frame.isFound, frame.isObject || root.isPointer else { return nil }
            if frame.isObject, root.isMembers(frame.depth) { return nil }
            defer { if frames.isEmpty { outermost = frame.place } }
            return root.missing(frame.depth, frame.isObject ? .keys(frame.keys) : .kind(.array))
        }

        /// A value begins with that byte.
        mutating func beginValue(_ byte: UInt8, at place: InputPlace) -> Step {
            (isDiscarded, recordKey) = (false, nil)
            if frames.isEmpty { outermost = place }
            var (depth, level) = (0, 0)
            if let frame = frames.last {
                (depth, level) = (frame.depth, frame.level)
                if level == 0, frame.isObject {
                    let text = Self.text(key)
                    if root.isMembers(depth), !frame.isFound, text != root.tokens[depth] || frame.keys.count > 1 {
                        recordKey = key
                        return .cut
                    }
                    isDiscarded = text != root.tokens[depth]
                } else if level == 0, root.isPointer {
                    isDiscarded = "\(frame.index)" != root.tokens[depth]
                }
                guard !isDiscarded else { return .cut }
                if level == 0, frame.isObject || root.isPointer {
                    frames[frames.count - 1].isFound = true
                    depth += 1
                }
            }
            let isArray = byte == UInt8(ascii: "[")
            func push(_ isObject: Bool, _ level: Int) -> Step {
                frames.append(Frame(isObject: isObject, place: place, depth: depth, level: level))
                return isObject ? .object : .array
            }
            guard level == 0, depth < root.tokens.count else {
                return isArray && level < 2 ? push(false, level + 1) : .cut
            }
            switch byte {
            case UInt8(ascii: "{"): return push(true, 0)
            case UInt8(ascii: "["):
                let mayLead =
                    root.isPointer ? Int(root.tokens[depth]).map { "\($0)" } == root.tokens[depth] : depth > 0
                return mayLead ? push(false, 0) : .missing(root.missing(depth, .kind(.array)))
            case UInt8(ascii: "\""): return .missing(root.missing(depth, .kind(.string)))
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
                return .missing(root.missing(depth, .kind(.number)))
            case UInt8(ascii: "t"): return .missing(root.missing(depth, .kind(.true)))
            case UInt8(ascii: "f"): return .missing(root.missing(depth, .kind(.false)))
            case UInt8(ascii: "n"): return .missing(root.missing(depth, .kind(.null)))
            // The cutter reports it.
            default: return .cut
            }
        }
    }

    // MARK: - Inside of a record

    /// - Returns: the end of the record; nil when it is not in this piece.
    private mutating func goOnInside(
        _ piece: UnsafeBufferPointer<UInt8>, from start: Int, base: Int
    ) throws(InputFault) -> Int? {
        var index = start
        // The beginning of a number that another piece began is not available.
        if state == .scalar { isDoubtful = true }
        var (state, isObject) = (state, open.last == UInt8(ascii: "{"))
        defer { self.state = state }
        while true {
            // A record that is a single value ends with it.
            if state == .commaOrEnd, open.isEmpty { return index }
            if state == .string || state == .keyString { index = WholeRecord.plainEnd(piece, from: index, &isDoubtful) }
            guard index < piece.count else { return nil }
            let byte = piece[index]
            switch state {
            case .string, .keyString:
                if byte == UInt8(ascii: "\"") {
                    state = state == .string ? .commaOrEnd : .colon
                } else if byte == UInt8(ascii: "\\") {
                    isDoubtful = true
                    state = state == .string ? .escape : .keyEscape
                } else {
                    throw controlCharacter(byte, at: base + index)
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
                isDoubtful = isDoubtful || !WholeRecord.isSound(scalar)
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

    /// Begins an array or an object: the record itself or a value inside of it.
    private mutating func beginContainer(_ byte: UInt8, at offset: Int) throws(InputFault) -> State {
        guard byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") else { throw fault(noValue(byte), at: offset) }
        open.append(byte)
        guard open.count <= RecordLimits.maximumDepth else { throw fault(RecordLimits.tooDeep, at: offset) }
        return byte == UInt8(ascii: "{") ? .firstKey : .firstValue
    }

    private mutating func unexpected(_ byte: UInt8, _ state: State, at offset: Int) -> InputFault {
        let expected =
            switch state {
            case .commaOrEnd: "a comma or the closing bracket"
            case .colon: "a colon after the key"
            default: "a key in double quotes"
            }
        return fault("expected \(expected), saw \(byte.asSeen)", at: offset)
    }

    private mutating func controlCharacter(_ byte: UInt8, at offset: Int) -> InputFault {
        fault("\(byte.asSeen) must be escaped inside a string", at: offset)
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
