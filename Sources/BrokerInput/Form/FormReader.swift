/// Records of `application/x-www-form-urlencoded` (WHATWG URL), one on each line. Empty lines are ignored.
struct FormReader: RecordReader {
    private let limits: RecordLimits
    private var position = TextPosition()
    /// The line that is being read.
    private var line: [UInt8] = []
    private var linePlace = InputPlace()

    init(limits: RecordLimits) { self.limits = limits }

    var place: InputPlace { position.place }

    mutating func feed(_ bytes: [UInt8], _ emit: (InputRecord) throws(InputFault) -> Void) throws(InputFault) {
        var start = 0
        while start < bytes.count {
            let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
            if line.isEmpty { linePlace = position.place }
            guard line.count + end - start <= limits.maximumBytes else {
                throw InputFault(reason: limits.tooLarge, place: position.place, recordPlace: linePlace)
            }
            // Decoding finds it, too, but late when there are no line ends.
            if let zero = bytes[start..<end].firstIndex(of: 0) {
                position.advance(by: zero - start)
                throw InputFault(
                    reason: "\(UInt8(0).asSeen) is not allowed in a form", place: position.place, recordPlace: linePlace
                )
            }
            line += bytes[start..<end]
            position.advance(by: end - start)
            guard end < bytes.count else { return }
            try endLine(emit)
            position.advanceOverLineEnd()
            start = end + 1
        }
    }

    mutating func finish(_ emit: (InputRecord) throws(InputFault) -> Void) throws(InputFault) { try endLine(emit) }

    private mutating func endLine(_ emit: (InputRecord) throws(InputFault) -> Void) throws(InputFault) {
        defer { line.removeAll(keepingCapacity: true) }
        if linePlace.offset == 0, line.starts(with: [0xEF, 0xBB, 0xBF]) {
            line.removeFirst(3)
            linePlace.offset = 3
        }
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        guard !line.isEmpty else { return }
        guard line.count(where: { $0 == UInt8(ascii: "&") }) < FormRecord.mostNodes else {
            throw fault(FormRecord.tooMany, at: 0)
        }
        var record = FormRecord()
        // An empty pair has no meaning.
        for pair in line.split(separator: UInt8(ascii: "&")) { try add(pair, to: &record) }
        try emit(InputRecord(json: record.json, place: linePlace, isSound: true))
    }

    private func add(_ pair: ArraySlice<UInt8>, to record: inout FormRecord) throws(InputFault) {
        let equals = pair.firstIndex(of: UInt8(ascii: "="))
        let name = try decode(pair[..<(equals ?? pair.endIndex)])
        let value: [UInt8]? = if let equals { try decode(pair[(equals + 1)...]) } else { nil }
        do throws(FormRecord.Refusal) {
            try record.add(value, at: name)
        } catch {
            throw fault(error.reason, at: pair.startIndex)
        }
    }

    /// The decoded text.
    private func decode(_ encoded: ArraySlice<UInt8>) throws(InputFault) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(encoded.count)
        var index = encoded.startIndex
        while index < encoded.endIndex {
            switch encoded[index] {
            case UInt8(ascii: "+"): text.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard index + 2 < encoded.endIndex, let high = Self.digit(encoded[index + 1]),
                    let low = Self.digit(encoded[index + 2])
                else {
                    throw fault(
                        "a percent sign needs two hexadecimal digits after it; a literal percent sign is %25", at: index
                    )
                }
                text.append(high << 4 | low)
                index += 2
            case let byte where byte <= 0x20 || byte == 0x7F:
                throw fault("\(byte == 0x20 ? "a space" : byte.asSeen) must be percent-encoded in a form", at: index)
            case let byte: text.append(byte)
            }
            index += 1
        }
        if text.withUnsafeBufferPointer(utf8FaultOffset) != nil {
            throw fault("what is written here is not UTF-8; \(encodingRemedy)", at: encoded.startIndex)
        }
        return text
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// - Parameter index: the index in the line.
    private func fault(_ reason: String, at index: Int) -> InputFault {
        InputFault(reason: reason, place: linePlace.advanced(over: line[..<index]), recordPlace: linePlace)
    }
}
