import BrokerJSON

/// JSON whose values may be tables.
///
/// | the input | the records |
/// |---|---|
/// | `["id", "a"]` and `[1, "x"]` one after the other, or in an array | rows: the first one names the fields |
/// | `[1, 2, 3]` | each value under the key `value` |
/// | all else | as ``RecordCutter`` finds them |
struct JSONTableReader: RecordReader {
    private enum Form { case records, values, rows }

    private let limits: RecordLimits
    private var cutter: RecordCutter
    /// The bytes that do not show the form yet; nil once they do.
    private var beginning: [UInt8]? = []
    private let table = Table()

    /// An array that is longer is no row.
    private static let longestRow = 1 << 20

    init(limits: RecordLimits) {
        self.limits = limits
        cutter = RecordCutter(opensArrays: true, limits: limits)
    }

    var place: InputPlace { beginning.map { InputPlace().advanced(over: $0) } ?? cutter.place }
    var recordStart: Int? { beginning == nil ? cutter.recordStart : 0 }

    mutating func restart(at position: TextPosition) -> Bool { beginning == nil && cutter.restart(at: position) }

    mutating func takeNotes() -> [String] { exchange(&table.notes, with: []) }

    mutating func feed(_ bytes: [UInt8], _ emit: RecordSink) throws(InputFault) {
        guard let beginning else { return try cut(bytes, emit) }
        let all = beginning + bytes
        guard let found = Self.form(of: all, isEnd: false) else {
            self.beginning = all
            return
        }
        try begin(found, all, emit)
    }

    mutating func finish(_ emit: RecordSink) throws(InputFault) {
        if let beginning { try begin(Self.form(of: beginning, isEnd: true) ?? (.records, true), beginning, emit) }
        let table = table
        try cutter.finish { record throws(InputFault) in try table.take(record, emit) }
    }

    private mutating func begin(
        _ found: (form: Form, opensArrays: Bool), _ bytes: [UInt8], _ emit: RecordSink
    ) throws(InputFault) {
        beginning = nil
        table.form = found.form
        cutter = RecordCutter(opensArrays: found.opensArrays, limits: limits)
        try cut(bytes, emit)
    }

    private mutating func cut(_ bytes: [UInt8], _ emit: RecordSink) throws(InputFault) {
        let table = table
        guard table.form != .records else { return try cutter.feed(bytes, emit) }
        try cutter.feed(bytes) { record throws(InputFault) in try table.take(record, emit) }
    }

    /// The form, and whether the records are the elements of arrays; nil when the bytes do not show it yet.
    private static func form(of bytes: [UInt8], isEnd: Bool) -> (form: Form, opensArrays: Bool)? {
        let (records, values) = ((form: Form.records, opensArrays: true), (form: Form.values, opensArrays: true))
        func next(_ index: Int) -> Int? { bytes[index...].firstIndex { !$0.isJSONSpace } }
        let (open, close) = (UInt8(ascii: "["), UInt8(ascii: "]"))
        guard let first = bytes.firstIndex(where: { !$0.isJSONSpace && ![0xEF, 0xBB, 0xBF, 0x1E].contains($0) })
        else { return nil }
        guard bytes[first] == open else { return records }
        guard var index = next(first + 1) else { return nil }
        // Rows in an array: of the first one the beginning is looked at.
        let isNested = bytes[index] == open
        if isNested {
            guard let inner = next(index + 1) else { return nil }
            index = inner
        }
        if [UInt8(ascii: "{"), open, close].contains(bytes[index]) { return records }
        if isNested { return (.rows, true) }
        var isText = false
        while index < bytes.count, isText || bytes[index] != close {
            switch bytes[index] {
            case UInt8(ascii: "\\") where isText: index += 1
            case UInt8(ascii: "\""): isText.toggle()
            case UInt8(ascii: "{") where !isText, open where !isText: return records
            default: break
            }
            index += 1
            if index - first > longestRow { return values }
        }
        guard index < bytes.count, var after = next(index + 1) else { return isEnd ? values : nil }
        if bytes[after] == UInt8(ascii: ",") {
            guard let following = next(after + 1) else { return isEnd ? values : nil }
            after = following
        }
        return bytes[after] == open ? (.rows, false) : bytes[after] == 0x1E ? records : values
    }

    /// What the values are, and the records of them.
    private final class Table {
        var form = Form.records
        var names: [String]?
        var notes: [String] = []

        func take(_ record: InputRecord, _ emit: RecordSink) throws(InputFault) {
            let first = record.json.first
            guard form == .rows else {
                guard form == .values, first != UInt8(ascii: "{"), first != UInt8(ascii: "[") else {
                    return try emit(record)
                }
                let json = Array("{\"value\":".utf8) + record.json + [UInt8(ascii: "}")]
                return try emit(InputRecord(json: json, place: record.place, isSound: record.isSound))
            }
            let document = try record.parsed()
            defer { withExtendedLifetime(document) {} }
            func fault(_ reason: String) -> InputFault {
                InputFault(
                    reason: reason, place: record.place, recordPlace: record.place,
                    recordEnd: record.place.offset.map { $0 + record.json.count })
            }
            guard document.root.kind == .array else {
                throw fault("expected an array, as the rows before it are, saw \(document.root.kind.phrase)")
            }
            let values = document.root.elements
            let count = values.reduce(0) { count, _ in count + 1 }
            guard let known = names else {
                let texts = values.compactMap { $0.kind == .string ? $0.string : nil }
                let isHeader = texts.count == count && Set(texts).count == count && !texts.contains("")
                names = isHeader ? texts : (1...max(1, count)).map { "column_\($0)" }
                notes.append(
                    isHeader
                        ? "the first row names the fields: \(texts.prefix(5).joined(separator: ", "))"
                        : "the first row is a record, since not all of it are names; the fields are column_1 to column_\(count)"
                )
                return isHeader ? () : try take(record, emit)
            }
            guard count == known.count else {
                throw fault("this row has \(count) value\(count == 1 ? "" : "s"), and the first one has \(known.count)")
            }
            var writer = JSONWriter(capacity: record.json.count + 16 * count)
            writer.object { writer in
                for (name, value) in zip(known, values) {
                    writer.member(name, value)
                }
            }
            try emit(InputRecord(json: writer.bytes, place: record.place, isSound: true))
        }
    }
}
