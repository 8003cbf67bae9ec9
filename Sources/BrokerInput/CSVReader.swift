import BrokerJSON

/// Records of CSV (RFC 4180) and its dialects: fields separated by a delimiter, lines that end in LF, CRLF or CR, quotes
/// where they are needed.
///
/// The reader is strict: text after a closing quote, values that no name of the header has, missing fields (unless ragged rows are filled), a lone carriage return, a zero byte and invalid UTF-8 are faults.
/// Empty lines are ignored, and so are rows without any value at the end.
struct CSVReader: RecordReader {
    private enum State: Equatable {
        /// Before a line's first field; before another one.
        case line, field
        case bare, quoted
        /// After a quote inside of quotes: the end of the field, or an escaped quote.
        case quote
        /// After blanks after a closing quote.
        case afterQuote
        /// After the escape outside of quotes, and inside of them.
        case escape, quotedEscape
        /// After a carriage return outside of quotes.
        case carriageReturn
        case comment
    }

    /// Each field of a header takes far more room than its bytes.
    private static let mostFields = 1 << 17
    static let largestHeader = 4 << 20

    private let limits: RecordLimits
    private var state = State.line
    private var position = TextPosition()
    private var row: CSVRow
    private var rowPlace: InputPlace?
    /// A field of the row is not UTF-8.
    private var rowFault: InputFault?
    private var header: CSVHeader?
    private let options: CSVOptions
    private var dialect = CSVDialect()
    /// The bytes from which the dialect is found; nil once it is.
    private var beginning: CSVBeginning?
    /// Lines of `--skip-lines` that are still to be skipped.
    private var linesToSkip: Int
    /// Rows without any value, which are records if another row follows.
    private var emptyRows: [InputPlace] = []
    private(set) var notes: [String] = []

    init(_ options: CSVOptions = CSVOptions(), limits: RecordLimits) {
        self.options = options
        self.limits = limits
        row = CSVRow(nulls: options.nulls, decimal: options.decimal)
        beginning = CSVBeginning(options)
        linesToSkip = options.skipLines
    }

    /// Reads CSV whose dialect is known, without a beginning to look at.
    init(_ options: CSVOptions, _ dialect: CSVDialect) {
        self.init(options, limits: .ofJobs)
        (self.dialect, beginning) = (dialect, nil)
    }

    /// The number of fields that the header names.
    var width: Int? { header?.count }

    var place: InputPlace { beginning.map { position.place.advanced(over: $0.bytes) } ?? position.place }

    var lineEnd: UInt8 { dialect.lineEnd }

    var recordStart: Int? { beginning == nil ? rowPlace?.offset : position.offset }

    mutating func takeNotes() -> [String] { exchange(&notes, with: []) }

    mutating func feed(_ bytes: [UInt8], _ emit: RecordSink) throws(InputFault) {
        guard beginning != nil else { return try read(bytes[...], emit) }
        var bytes = bytes[...]
        while linesToSkip > 0, !bytes.isEmpty {
            let end = bytes.firstIndex(of: UInt8(ascii: "\n"))
            position.advance(by: (end ?? bytes.endIndex) - bytes.startIndex)
            if end != nil {
                position.advanceOverLineEnd()
                linesToSkip -= 1
            }
            bytes = bytes[(end.map { $0 + 1 } ?? bytes.endIndex)...]
        }
        beginning?.append(bytes)
        if beginning?.isComplete ?? false { try begin(emit) }
    }

    /// No more bytes come for now: what is there decides the dialect, if there is a record.
    mutating func flush(_ emit: RecordSink) throws(InputFault) {
        if beginning?.hasRecord ?? false { try begin(emit) }
    }

    private mutating func begin(_ emit: RecordSink) throws(InputFault) {
        guard let found = beginning else { return }
        beginning = nil
        let (dialect, text) = found.dialect()
        self.dialect = dialect
        notes += dialect.notes
        for byte in found.bytes[..<text] {
            if byte == dialect.lineEnd { position.advanceOverLineEnd() } else { position.advance() }
        }
        // A byte order mark is no text.
        if found.markLength > 0, text == found.markLength { position.beginText(at: position.offset) }
        try read(found.bytes[text...], emit)
    }

    private mutating func read(_ bytes: ArraySlice<UInt8>, _ emit: RecordSink) throws(InputFault) {
        var index = bytes.startIndex
        while index < bytes.endIndex {
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
        case .quoted, .quotedEscape:
            let begin = row.fieldPlace ?? position.place
            throw fault("a quote is opened at line \(begin.line), column \(begin.column), and never closed")
        case .carriageReturn: throw loneCarriageReturn()
        case .line, .comment: break
        case .escape:
            row.append([dialect.escape])
            try endRow(emit)
        case .field, .bare, .quote, .afterQuote: try endRow(emit)
        }
        if header == nil { throw fault("there is no header; the first line of CSV names the fields") }
        if !emptyRows.isEmpty {
            let rows =
                emptyRows.count == 1
                ? "a row without any value at the end is" : "\(emptyRows.count) rows without any value at the end are"
            notes.append("\(rows) left out")
            emptyRows = []
        }
    }

    mutating func restart(at position: TextPosition) -> Bool {
        guard beginning == nil, header != nil else { return false }
        self.position = position
        state = .line
        row.removeAll()
        (rowPlace, rowFault) = (nil, nil)
        return true
    }

    // MARK: - Bytes

    /// Returns the end of the run of bytes without a special meaning.
    private func plainEnd(_ bytes: ArraySlice<UInt8>, from start: Int) -> Int {
        let (quote, delimiter, escape) = (dialect.quote, dialect.delimiter.byte, dialect.escape)
        let lineEnd = dialect.lineEnd
        var index = start
        switch state {
        case .line where bytes[start] == dialect.comment: break
        case .bare, .field, .line:
            while index < bytes.endIndex {
                let byte = bytes[index]
                if byte == delimiter || byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") || byte == quote
                    || byte == escape || byte == 0
                {
                    break
                }
                index += 1
            }
        case .quoted:
            while index < bytes.endIndex {
                let byte = bytes[index]
                if byte == quote || byte == lineEnd || byte == escape || byte == 0 { break }
                index += 1
            }
        case .quote, .afterQuote, .escape, .quotedEscape, .carriageReturn, .comment: break
        }
        return index
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
        let isLineEnd = byte == dialect.lineEnd
        switch (state, byte) {
        case (.comment, _): if isLineEnd { state = .line }
        case (.line, dialect.comment): state = .comment
        case (.escape, _), (.quotedEscape, _):
            // Before any other byte the escape is text: nothing of `\N` is lost.
            let isEscaped =
                [dialect.quote, dialect.escape, dialect.delimiter.byte, UInt8(ascii: "\r")].contains(byte)
                || isLineEnd
            row.append(isEscaped ? [byte] : [dialect.escape, byte])
            state = state == .escape ? .bare : .quoted
            try checkSize()
        case (.quoted, dialect.quote): state = .quote
        case (.quoted, dialect.escape): state = .quotedEscape
        case (.quote, dialect.quote):
            row.append([byte])
            state = .quoted
        case (.line, dialect.quote), (.field, dialect.quote):
            beginField()
            row.isQuoted = true
            state = .quoted
        case (.bare, dialect.quote) where row.isFieldBlank:
            row.beginFieldAgain(at: position.place)
            state = .quoted
        // A quote in a bare field is text, as in `6" pipe`.
        case (.quoted, _), (.bare, dialect.quote):
            row.append([byte])
            try checkSize()
        case (.quote, dialect.escape) where dialect.escape != 0: throw textAfterQuote(byte)
        case (.line, dialect.escape), (.field, dialect.escape), (.bare, dialect.escape):
            beginField()
            state = .escape
        case (_, _) where isLineEnd:
            if state != .line, !(state == .carriageReturn && rowPlace == nil) { try endRow(emit) }
            state = .line
        case (.carriageReturn, _): throw loneCarriageReturn()
        case (_, UInt8(ascii: "\r")):
            if state == .field { beginField() }
            state = .carriageReturn
        // Where lines end in CR.
        case (.line, UInt8(ascii: "\n")): break
        case (_, dialect.delimiter.byte):
            beginField()
            try endField()
            state = .field
        case (.quote, UInt8(ascii: " ")), (.afterQuote, UInt8(ascii: " ")): state = .afterQuote
        case (.quote, _), (.afterQuote, _): throw textAfterQuote(byte)
        default: try append([byte])
        }
        if isLineEnd {
            position.advanceOverLineEnd()
        } else if state != .bare || byte != UInt8(ascii: "\n") {
            position.advance()
        }
    }

    private func textAfterQuote(_ byte: UInt8) -> InputFault {
        fault(
            "expected \(dialect.delimiter.described) or the end of the line after the closing quote, saw \(byte.asSeen)"
        )
    }

    // MARK: - Fields and rows

    /// Does nothing when the field has begun already.
    private mutating func beginField() {
        if rowPlace == nil { rowPlace = position.place }
        if row.fieldPlace == nil { row.fieldPlace = position.place }
    }

    private mutating func endField() throws(InputFault) {
        if rowFault == nil, let (place, seen) = row.fieldFault {
            rowFault = InputFault(
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
        if var fault = rowFault {
            fault.recordEnd = position.offset
            throw fault
        }
        guard let header else {
            guard dialect.hasHeader else {
                let names = (1...row.fieldCount).map { "column_\($0)" }
                self.header = try CSVHeader(names, at: place)
                return try endRecord(self.header!, at: place, emit)
            }
            self.header = try CSVHeader(row.texts, keys: options.keys, at: place)
            // The program that wrote it puts every text into quotes.
            row.ignoresQuotes = row.isQuotedThroughout
            row.removeAll()
            rowPlace = nil
            return
        }
        try endRecord(header, at: place, emit)
    }

    private mutating func endRecord(
        _ header: CSVHeader, at place: InputPlace, _ emit: RecordSink
    ) throws(InputFault) {
        let count = row.fieldCount
        if count > 1, (0..<count).allSatisfy(row.isMissing), count >= header.count || options.ragged == .fill {
            emptyRows.append(place)
            row.removeAll()
            rowPlace = nil
            return
        }
        try emitEmptyRows(header, emit)
        // Fields that no name in the header has must be empty: else their values would be lost.
        guard
            count == header.count || count < header.count && options.ragged == .fill
                || count > header.count && (header.count..<count).allSatisfy(row.isMissing)
        else {
            throw InputFault(
                reason: raggedness(header), place: place, recordPlace: place, recordEnd: position.offset)
        }
        let json = header.record(of: row)
        guard json.count <= limits.maximumBytes else {
            throw InputFault(reason: limits.tooLarge, place: place, recordPlace: place)
        }
        row.removeAll()
        rowPlace = nil
        try emit(InputRecord(json: json, place: place, isSound: true))
    }

    /// Rows without any value that another row follows.
    private mutating func emitEmptyRows(_ header: CSVHeader, _ emit: RecordSink) throws(InputFault) {
        guard !emptyRows.isEmpty else { return }
        let json = header.record(of: CSVRow(nulls: [], decimal: nil))
        for place in emptyRows { try emit(InputRecord(json: json, place: place, isSound: true)) }
        emptyRows = []
    }

    private func raggedness(_ header: CSVHeader) -> String {
        let remedy =
            row.texts.first?.hasPrefix("#") ?? false
            ? "if it is a comment, --comment '#' leaves it out"
            : row.fieldCount > header.count
                ? "\(dialect.delimiter.described) inside of a field needs quotes"
                : "with --ragged fill, missing fields are null"
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

    init(_ names: [String], keys: Set<String> = [], at place: InputPlace) throws(InputFault) {
        count = names.count
        let written = CSVNames(names, keys: keys)
        for field in names.indices {
            let path = written.paths[field]
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
        var isFree = places[key] == nil && (written.isGiven[field] || !written.givenKeys.contains(key.name))
        while !isFree {
            let number = numbers[key] ?? 2
            numbers[key] = number + 1
            free = Key(object: key.object, name: key.name + Array("_\(number)".utf8))
            isFree = places[free] == nil && !written.givenKeys.contains(free.name)
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
                case .field(let field): row.write(field, to: &writer)
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

    /// Texts that are missing values, as an empty one is.
    private let nulls: [[UInt8]]
    private let decimal: CSVDecimal?

    init(nulls: [String], decimal: CSVDecimal?) {
        self.nulls = nulls.map { Array($0.utf8) }
        self.decimal = decimal
    }

    /// Bytes of all fields.
    var count: Int { bytes.count }
    var fieldCount: Int { fields.count }

    mutating func append(_ more: some Collection<UInt8>) { bytes.append(contentsOf: more) }

    /// The field that is being read has nothing but blanks.
    var isFieldBlank: Bool { bytes[(fields.last?.end ?? 0)...].allSatisfy { $0 == UInt8(ascii: " ") } }

    /// The blanks before a quote are no text.
    mutating func beginFieldAgain(at place: InputPlace) {
        bytes.removeSubrange((fields.last?.end ?? 0)...)
        (fieldPlace, isQuoted) = (place, true)
    }

    mutating func endField() {
        fields.append((bytes.count, isQuoted))
        fieldPlace = nil
        isQuoted = false
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        fields.removeAll(keepingCapacity: true)
        fieldPlace = nil
        isQuoted = false
    }

    /// Each field is quoted, if it needs quotes or not.
    var isQuotedThroughout: Bool { fields.allSatisfy(\.isQuoted) }

    /// Quotes do not distinguish an empty text from a missing value.
    var ignoresQuotes = false

    /// Not there, or empty or a word for null, and not quoted: a missing value.
    func isMissing(_ field: Int) -> Bool {
        guard field < fields.count else { return true }
        guard ignoresQuotes || !fields[field].isQuoted else { return false }
        let range = range(field)
        return range.isEmpty || nulls.contains { bytes[range].elementsEqual($0) }
    }

    func write(_ field: Int, to writer: inout JSONWriter) {
        if let number = decimal?.number(bytes[range(field)]) {
            number.withUnsafeBufferPointer { writer.string($0) }
        } else {
            bytes.withUnsafeBufferPointer { writer.string(UnsafeBufferPointer(rebasing: $0[range(field)])) }
        }
    }

    var texts: [String] { fields.indices.map { String(decoding: bytes[range($0)], as: UTF8.self) } }

    /// The first byte of the field that is being read that is not UTF-8, and its position.
    var fieldFault: (place: InputPlace, seen: String)? {
        let start = fields.last?.end ?? 0
        let offset = bytes.withUnsafeBufferPointer { utf8FaultOffset(UnsafeBufferPointer(rebasing: $0[start...])) }
        guard let offset, let fieldPlace else { return nil }
        // Each quote was two bytes, and one preceded the field. (Other quotes and escapes are not counted.)
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
/// one of its objects. There the whole name is one key.
struct CSVNames {
    private(set) var paths: [[[UInt8]]] = []
    /// The name is in the header as it is.
    private(set) var isGiven: [Bool] = []
    /// All keys of the names that are in the header as they are.
    private(set) var givenKeys: Set<[UInt8]> = []

    private static let dot = UInt8(ascii: ".")

    init(_ names: [String], keys: Set<String>) {
        for (index, name) in names.enumerated() {
            guard !keys.contains(name) else {
                paths.append([Array(name.utf8)])
                isGiven.append(true)
                continue
            }
            let isBlank = name.utf8.allSatisfy(Self.isBlank)
            let written = isBlank ? Array("column_\(index + 1)".utf8) : Array(name.utf8)
            paths.append(Self.isPath(written) ? written.split(separator: Self.dot).map(Array.init) : [written])
            isGiven.append(!isBlank)
        }
        flattenPathsThroughValues()
        for (index, path) in paths.enumerated() where isGiven[index] { givenKeys.formUnion(path) }
    }

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
            paths[index] = [Array(paths[index].joined(separator: [Self.dot]))]
        }
    }
}
