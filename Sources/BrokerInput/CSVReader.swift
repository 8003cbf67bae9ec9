import BrokerJSON

/// Records of CSV (RFC 4180): fields separated by commas or another delimiter, lines that end in LF or CRLF, quotes where
/// they are needed.
///
/// The first line names the fields. The reader is strict: a quote inside of an unquoted field, text after a closing
/// quote, another number of fields than the first line has (unless ragged rows are filled), a lone carriage return, a
/// zero byte and invalid UTF-8 are faults. Empty lines are ignored.
struct CSVReader: RecordReader {
    private enum State: Equatable {
        /// Before a line's first field; before another one.
        case line, field
        case bare, quoted
        /// After a quote inside of quotes: the end of the field, or an escaped quote.
        case quote
        /// After a carriage return outside of quotes.
        case carriageReturn
    }

    /// Each field of a header takes far more room than its bytes.
    private static let mostFields = 1 << 17
    private static let largestHeader = 4 << 20

    private let limits: RecordLimits
    private var state = State.line
    private var position = TextPosition()
    private var row = CSVRow()
    private var rowPlace: InputPlace?
    private var header: CSVHeader?
    private var delimiter = CSVDelimiter.comma
    /// The bytes up to the end of the header, until that was read; nil from then on.
    private var beginning: CSVBeginning? = CSVBeginning()
    private let options: CSVOptions

    init(_ options: CSVOptions = CSVOptions(), limits: RecordLimits) {
        self.options = options
        self.limits = limits
    }

    var place: InputPlace { beginning.map { position.place.advanced(over: $0.bytes) } ?? position.place }

    mutating func feed(_ bytes: [UInt8], _ emit: RecordSink) throws(InputFault) {
        guard beginning != nil else { return try read(bytes, emit) }
        beginning?.append(bytes)
        if let beginning, beginning.isComplete || beginning.bytes.count > Self.largestHeader { try begin(emit) }
    }

    private mutating func begin(_ emit: RecordSink) throws(InputFault) {
        guard let found = beginning else { return }
        beginning = nil
        delimiter = options.delimiter ?? found.delimiter
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        guard found.bytes.starts(with: mark) else { return try read(found.bytes, emit) }
        position.advance(by: mark.count)
        position.beginText(at: mark.count)
        try read(Array(found.bytes.dropFirst(mark.count)), emit)
    }

    private mutating func read(_ bytes: [UInt8], _ emit: RecordSink) throws(InputFault) {
        var index = 0
        while index < bytes.count {
            let end = plainEnd(bytes, from: index)
            if end > index {
                try append(bytes[index..<end])
                index = end
            } else {
                try take(bytes[index], emit)
                index += 1
            }
        }
    }

    mutating func finish(_ emit: RecordSink) throws(InputFault) {
        try begin(emit)
        switch state {
        case .quoted:
            let begin = row.fieldPlace ?? position.place
            throw fault("a quote is opened at line \(begin.line), column \(begin.column), and never closed")
        case .carriageReturn: throw loneCarriageReturn()
        case .line: break
        case .field, .bare, .quote: try endRow(emit)
        }
        if header == nil { throw fault("there is no header; the first line of CSV names the fields") }
    }

    // MARK: - Bytes

    /// Returns the end of the run of bytes without a special meaning.
    private func plainEnd(_ bytes: [UInt8], from start: Int) -> Int {
        var index = start
        switch state {
        case .bare, .field, .line:
            while index < bytes.count, !isSpecial(bytes[index]) { index += 1 }
        case .quoted:
            while index < bytes.count, bytes[index] != UInt8(ascii: "\""), bytes[index] != UInt8(ascii: "\n"),
                bytes[index] != 0
            { index += 1 }
        case .quote, .carriageReturn: break
        }
        return index
    }

    private func isSpecial(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\n"), UInt8(ascii: "\r"), 0: true
        default: byte == delimiter.byte
        }
    }

    private mutating func append(_ bytes: ArraySlice<UInt8>) throws(InputFault) {
        if state != .quoted {
            beginField()
            state = .bare
        }
        row.append(bytes)
        position.advance(by: bytes.count)
        try checkSize()
    }

    private func checkSize() throws(InputFault) {
        guard row.count <= limits.maximumBytes else { throw fault(limits.tooLarge) }
        guard header != nil || row.count <= Self.largestHeader else {
            throw fault(
                "the header, the first line, has more than \(Self.largestHeader >> 20) MiB; names of fields are shorter"
            )
        }
    }

    private mutating func take(_ byte: UInt8, _ emit: RecordSink) throws(InputFault) {
        if byte == 0 { throw fault("\(byte.asSeen) is not allowed in CSV") }
        switch (state, byte) {
        case (.quoted, UInt8(ascii: "\"")): state = .quote
        case (.quoted, _):
            row.append([byte])
            try checkSize()
        case (.quote, UInt8(ascii: "\"")):
            row.append([byte])
            state = .quoted
        case (.line, UInt8(ascii: "\"")), (.field, UInt8(ascii: "\"")):
            beginField()
            row.isQuoted = true
            state = .quoted
        case (.bare, UInt8(ascii: "\"")):
            throw fault("a quote inside of a field; put the field into quotes, and double the quotes in it")
        case (.carriageReturn, UInt8(ascii: "\n")), (_, UInt8(ascii: "\n")):
            if state != .line, !(state == .carriageReturn && rowPlace == nil) { try endRow(emit) }
            state = .line
        case (.carriageReturn, _): throw loneCarriageReturn()
        case (_, UInt8(ascii: "\r")):
            if state == .field { beginField() }
            state = .carriageReturn
        case (_, delimiter.byte):
            beginField()
            try endField()
            state = .field
        case (.quote, _):
            throw fault(
                "expected \(delimiter.described) or the end of the line after the closing quote, saw \(byte.asSeen)")
        default: preconditionFailure("the byte \(byte) has no special meaning")
        }
        if byte == UInt8(ascii: "\n") { position.advanceOverLineEnd() } else { position.advance() }
    }

    // MARK: - Fields and rows

    /// Does nothing when the field has begun already.
    private mutating func beginField() {
        if rowPlace == nil { rowPlace = position.place }
        if row.fieldPlace == nil { row.fieldPlace = position.place }
    }

    private mutating func endField() throws(InputFault) {
        if let (place, seen) = row.fieldFault {
            throw InputFault(
                reason: "the text is not UTF-8: \(seen) is out of place; \(encodingRemedy)", place: place,
                recordPlace: rowPlace)
        }
        row.endField()
        guard row.fieldCount <= Self.mostFields else {
            throw fault("there are more than \(Self.mostFields) fields on one line, and at most so many are read")
        }
    }

    private mutating func endRow(_ emit: RecordSink) throws(InputFault) {
        let place = rowPlace ?? position.place
        beginField()
        try endField()
        guard let header else {
            self.header = try CSVHeader(row.texts, at: place)
            // The program that wrote it puts every text into quotes.
            row.ignoresQuotes = row.isQuotedThroughout
            row.removeAll()
            rowPlace = nil
            return
        }
        guard row.fieldCount == header.count || mayFill(header) else {
            throw InputFault(reason: raggedness(header), place: place, recordPlace: place)
        }
        let json = header.record(of: row)
        guard json.count <= limits.maximumBytes else {
            throw InputFault(reason: limits.tooLarge, place: place, recordPlace: place)
        }
        try emit(InputRecord(json: json, place: place, isSound: true))
        row.removeAll()
        rowPlace = nil
    }

    /// Fields that no name in the header has must be empty: else their values would be lost.
    private func mayFill(_ header: CSVHeader) -> Bool {
        guard options.ragged == .fill else { return false }
        return row.fieldCount < header.count || (header.count..<row.fieldCount).allSatisfy(row.isMissing)
    }

    private func raggedness(_ header: CSVHeader) -> String {
        let remedy =
            row.fieldCount > header.count
            ? "\(delimiter.described) inside of a field needs quotes" : "with --ragged fill, missing fields are null"
        return "this record has \(row.fieldCount) field\(row.fieldCount == 1 ? "" : "s"), and the header names "
            + "\(header.count); \(remedy)"
    }

    private func loneCarriageReturn() -> InputFault {
        fault("a carriage return without a line feed after it; lines end in LF or CRLF")
    }

    private func fault(_ reason: String) -> InputFault {
        InputFault(reason: reason, place: position.place, recordPlace: rowPlace)
    }
}

/// How CSV is read.
package struct CSVOptions: Sendable {
    /// Nil finds it in the header.
    package var delimiter: CSVDelimiter?
    package var ragged: RaggedRows

    package init(delimiter: CSVDelimiter? = nil, ragged: RaggedRows = .fail) {
        self.delimiter = delimiter
        self.ragged = ragged
    }
}

/// Rows that have another number of fields than the header names.
package enum RaggedRows: String, CaseIterable, Sendable {
    case fail
    /// Missing fields are null. Fields without a name must be empty.
    case fill
}

/// The byte between two fields of CSV.
package struct CSVDelimiter: Equatable, Sendable {
    let byte: UInt8

    static let comma = CSVDelimiter(byte: UInt8(ascii: ","))
    static let tab = CSVDelimiter(byte: UInt8(ascii: "\t"))

    /// Those that are found, the preferred one first.
    static let common = [comma, CSVDelimiter(byte: UInt8(ascii: ";")), tab, CSVDelimiter(byte: UInt8(ascii: "|"))]

    private init(byte: UInt8) { self.byte = byte }

    /// One character of ASCII, or `tab`. Nil for any other text, a quote and control characters other than a tab.
    package init?(_ text: String) {
        if text == "tab" || text == "\\t" || text == "\t" {
            self = .tab
            return
        }
        guard let byte = text.utf8.first, text.utf8.count == 1, (0x20...0x7E).contains(byte), byte != UInt8(ascii: "\"")
        else { return nil }
        self.init(byte: byte)
    }

    /// The text from which it is made.
    package var text: String { self == .tab ? "tab" : String(UnicodeScalar(byte)) }

    /// The delimiter as named in a message.
    var described: String {
        switch byte {
        case UInt8(ascii: ","): "a comma"
        case UInt8(ascii: ";"): "a semicolon"
        case UInt8(ascii: "\t"): "a tab"
        default: "'\(text)'"
        }
    }
}

/// The bytes of CSV up to the end of its header, and the delimiter that divides it into most fields. Of several, a comma wins.
private struct CSVBeginning {
    private(set) var bytes: [UInt8] = []
    private var counts = [Int](repeating: 0, count: CSVDelimiter.common.count)
    private var isQuoted = false
    private var hasText = false
    private(set) var isComplete = false

    /// Adds bytes of the input, each of which is read once.
    mutating func append(_ more: [UInt8]) {
        bytes += more
        for byte in more where !isComplete {
            switch byte {
            // A doubled quote ends the quotes and begins them again.
            case UInt8(ascii: "\""): isQuoted.toggle()
            // Empty lines before the header are ignored.
            case UInt8(ascii: "\n"): isComplete = hasText && !isQuoted
            // A carriage return, and a byte order mark.
            case UInt8(ascii: "\r"), 0xEF, 0xBB, 0xBF: break
            // A fault, wherever it is.
            case 0: isComplete = true
            default:
                hasText = true
                guard !isQuoted else { break }
                if let index = CSVDelimiter.common.firstIndex(where: { $0.byte == byte }) { counts[index] += 1 }
            }
        }
    }

    var delimiter: CSVDelimiter {
        let most = counts.max() ?? 0
        return CSVDelimiter.common[counts.firstIndex(of: most) ?? 0]
    }
}

/// The header line of CSV: the position of each field in a record. Dots make nested objects.
///
/// Each field has a place of its own: one without a name is `column_N`, and one whose name is taken gets a number.
struct CSVHeader {
    /// A key of an object, and its value.
    private struct Member {
        let key: String
        var value: Value
    }

    private enum Value {
        case field(Int)
        /// The index of an object in ``objects``.
        case object(Int)
    }

    struct Key: Hashable {
        let object: Int
        let name: [UInt8]
    }

    /// The record itself, and its nested objects; a nested object follows its parent.
    private var objects: [[Member]] = [[]]
    private var places: [Key: Value] = [:]
    /// The next number for a field whose name is taken.
    private var numbers: [Key: Int] = [:]
    /// The number of fields of each line.
    let count: Int

    init(_ names: [String], at place: InputPlace) throws(InputFault) {
        count = names.count
        let written = CSVNames(names)
        for field in names.indices {
            let path = written.path(of: field)
            guard path.count < RecordLimits.maximumDepth else {
                throw InputFault(
                    reason: "the header's field \(field + 1) has too many dots: \(RecordLimits.tooDeep)", place: place)
            }
            var object = 0
            for name in path.dropLast() { object = nested(Key(object: object, name: name)) }
            add(field, Key(object: object, name: path[path.count - 1]), written)
        }
    }

    /// The number of the object at that key.
    private mutating func nested(_ key: Key) -> Int {
        // Names that other fields have as values are no paths.
        if case .object(let number) = places[key] { return number }
        objects.append([])
        add(.object(objects.count - 1), at: key)
        return objects.count - 1
    }

    /// Adds a field at that key, or where the key is taken at the next one with a number. A name that was made here gives
    /// way to those of the header.
    private mutating func add(_ field: Int, _ key: Key, _ written: CSVNames) {
        var free = key
        var isFree = places[key] == nil && (written.isGiven(field) || !written.hasKey(key.name))
        while !isFree {
            let number = numbers[key] ?? 2
            numbers[key] = number + 1
            free = Key(object: key.object, name: key.name + Array("_\(number)".utf8))
            isFree = places[free] == nil && !written.hasKey(free.name)
        }
        add(.field(field), at: free)
    }

    private mutating func add(_ value: Value, at key: Key) {
        objects[key.object].append(Member(key: String(decoding: key.name, as: UTF8.self), value: value))
        places[key] = value
    }

    /// The record of a line. A missing value is null, and so is an object with only missing values.
    ///
    /// - Precondition: the row has fields of UTF-8.
    func record(of row: CSVRow) -> [UInt8] {
        var isMissing = [Bool](repeating: true, count: objects.count)
        for object in objects.indices.reversed() {
            isMissing[object] = objects[object].allSatisfy { member in
                switch member.value {
                case .field(let field): row.isMissing(field)
                case .object(let number): isMissing[number]
                }
            }
        }
        var writer = JSONWriter(capacity: row.count + 16 * count)
        // A line with only missing values is a record, too.
        isMissing[0] = false
        write(0, of: row, isMissing, to: &writer)
        return writer.bytes
    }

    private func write(_ object: Int, of row: CSVRow, _ isMissing: [Bool], to writer: inout JSONWriter) {
        guard !isMissing[object] else { return writer.null() }
        writer.object { writer in
            for member in objects[object] {
                writer.key(member.key)
                switch member.value {
                case .field(let field) where row.isMissing(field): writer.null()
                case .field(let field): row.withText(field) { writer.string($0) }
                case .object(let number): write(number, of: row, isMissing, to: &writer)
                }
            }
        }
    }
}

/// The fields of one line of CSV, without their quotes.
struct CSVRow {
    private var bytes: [UInt8] = []
    /// The end of each field in ``bytes``, and whether it was quoted.
    private var fields: [(end: Int, isQuoted: Bool)] = []

    /// The beginning of the field that is being read; nil between two fields.
    var fieldPlace: InputPlace?
    /// The field that is being read is quoted.
    var isQuoted = false

    /// Bytes of all fields.
    var count: Int { bytes.count }
    var fieldCount: Int { fields.count }

    mutating func append(_ more: some Collection<UInt8>) { bytes.append(contentsOf: more) }

    mutating func endField() {
        fields.append((bytes.count, isQuoted))
        fieldPlace = nil
        isQuoted = false
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        fields.removeAll(keepingCapacity: true)
    }

    /// Each field is quoted, if it needs quotes or not.
    var isQuotedThroughout: Bool { fields.allSatisfy(\.isQuoted) }

    /// Quotes do not distinguish an empty text from a missing value.
    var ignoresQuotes = false

    /// Not there, or empty and not quoted: a missing value.
    func isMissing(_ field: Int) -> Bool {
        field >= fields.count || (range(field).isEmpty && (ignoresQuotes || !fields[field].isQuoted))
    }

    func withText<Result>(_ field: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        bytes.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[range(field)])) }
    }

    var texts: [String] {
        fields.indices.map { withText($0) { String(decoding: $0, as: UTF8.self) } }
    }

    /// The first byte of the field that is being read that is not UTF-8, and its position.
    var fieldFault: (place: InputPlace, seen: String)? {
        let start = fields.last?.end ?? 0
        let offset = bytes.withUnsafeBufferPointer { utf8FaultOffset(UnsafeBufferPointer(rebasing: $0[start...])) }
        guard let offset, let fieldPlace else { return nil }
        // Each quote was two bytes, and one preceded the field.
        var written = isQuoted ? [UInt8(ascii: "\"")] : []
        for byte in bytes[start..<start + offset] {
            written.append(byte)
            if byte == UInt8(ascii: "\"") { written.append(byte) }
        }
        return (fieldPlace.advanced(over: written), bytes[start + offset].asSeen)
    }

    private func range(_ field: Int) -> Range<Int> { (field == 0 ? 0 : fields[field - 1].end)..<fields[field].end }
}

/// The names of a header, and the paths to which they lead.
///
/// Dots divide a name into keys, except in one like `No.`, `St. Name` or `a..b`, and where another name makes a value of
/// one of its objects. There each dot becomes `_`, because no key path of a model could have it.
struct CSVNames {
    private var paths: [[[UInt8]]] = []
    private var given: [Bool] = []
    /// All keys of the names that are in the header as they are.
    private var givenKeys: Set<[UInt8]> = []

    private static let dot = UInt8(ascii: ".")

    init(_ names: [String]) {
        for (index, name) in names.enumerated() {
            let isBlank = name.utf8.allSatisfy(Self.isBlank)
            let written = isBlank ? Array("column_\(index + 1)".utf8) : Array(name.utf8)
            let isPath = Self.isPath(written)
            paths.append(
                isPath ? written.split(separator: Self.dot).map(Array.init) : [Self.withoutDots(written)])
            given.append(!isBlank && (isPath || !written.contains(Self.dot)))
        }
        flattenPathsThroughValues()
        for (index, path) in paths.enumerated() where given[index] { givenKeys.formUnion(path) }
    }

    func path(of field: Int) -> [[UInt8]] { paths[field] }

    /// The name is in the header as it is.
    func isGiven(_ field: Int) -> Bool { given[field] }

    /// A name of the header has that key.
    func hasKey(_ key: [UInt8]) -> Bool { givenKeys.contains(key) }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

    /// Each dot is between two bytes that are no dots and not blank.
    private static func isPath(_ name: [UInt8]) -> Bool {
        for (index, byte) in name.enumerated() where byte == dot {
            guard index > 0, index + 1 < name.count else { return false }
            for neighbour in [name[index - 1], name[index + 1]] where neighbour == dot || isBlank(neighbour) {
                return false
            }
        }
        return true
    }

    private static func withoutDots(_ name: [UInt8]) -> [UInt8] { name.map { $0 == dot ? UInt8(ascii: "_") : $0 } }

    /// `a.b` beside `a`.
    private mutating func flattenPathsThroughValues() {
        guard paths.contains(where: { $0.count > 1 }) else { return }
        // A number for each beginning of a path.
        var numbers: [CSVHeader.Key: Int] = [:]
        let chains = paths.map { path in
            var number = 0
            return path.map { name in
                let key = CSVHeader.Key(object: number, name: name)
                number = numbers[key] ?? numbers.count + 1
                numbers[key] = number
                return number
            }
        }
        let values = Set(chains.compactMap(\.last))
        for (index, chain) in chains.enumerated() where chain.dropLast().contains(where: values.contains) {
            paths[index] = [Array(paths[index].joined(separator: [UInt8(ascii: "_")]))]
            given[index] = false
        }
    }
}
