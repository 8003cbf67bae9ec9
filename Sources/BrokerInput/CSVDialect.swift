/// How CSV is read. What is nil is found in the first lines.
package struct CSVOptions: Sendable {
    package var delimiter: CSVDelimiter?
    /// A tab is the delimiter if the header has one.
    package var prefersTab = false
    package var ragged: RaggedRows
    package var quote = CSVCharacter.quote
    package var escape = CSVCharacter.none
    package var comment: CSVCharacter?
    /// Fields that are null, as an empty one is.
    package var nulls: [String] = []
    package var decimal: CSVDecimal?
    package var skipLines = 0
    package var hasHeader: Bool?
    /// Names of the header that are keys as they are: their dots make no nested objects.
    package var keys: Set<String> = []

    package init(delimiter: CSVDelimiter? = nil, ragged: RaggedRows = .fail) {
        self.delimiter = delimiter
        self.ragged = ragged
    }
}

/// Rows that have fewer fields than the header names.
package enum RaggedRows: String, CaseIterable, Sendable {
    case fail
    /// Missing fields are null.
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

/// A quote, an escape, or the beginning of a comment: one visible character of ASCII, or `none`.
package struct CSVCharacter: Equatable, Sendable {
    /// 0, which no CSV has, for none.
    let byte: UInt8

    package static let none = CSVCharacter(byte: 0)
    package static let quote = CSVCharacter(byte: UInt8(ascii: "\""))

    private init(byte: UInt8) { self.byte = byte }

    package init?(_ text: String) {
        if text == "none" {
            self = .none
            return
        }
        guard let byte = text.utf8.first, text.utf8.count == 1, (0x21...0x7E).contains(byte) else { return nil }
        self.init(byte: byte)
    }

    /// The text from which it is made.
    package var text: String { self == .none ? "none" : String(UnicodeScalar(byte)) }
}

/// The mark before the fraction of numbers; the other one may divide their digits into groups of three.
package enum CSVDecimal: String, CaseIterable, Sendable {
    case comma = ","
    case point = "."

    /// The number as JSON writes it: of a comma, `1.234,50` is `1234.50`. Nil for all else, and for a code: `079,12`.
    func number(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        let mark = UInt8(ascii: self == .comma ? "," : ".")
        let group = UInt8(ascii: self == .comma ? "." : ",")
        guard text.contains(mark) || text.contains(group) else { return nil }
        var number: [UInt8] = text.first == UInt8(ascii: "-") ? [UInt8(ascii: "-")] : []
        let digits = text.dropFirst(number.count)
        let whole = digits.prefix { $0 != mark }
        let parts = whole.split(separator: group, omittingEmptySubsequences: false)
        guard let first = parts.first, (1...(parts.count == 1 ? Int.max : 3)).contains(first.count),
            first.first != UInt8(ascii: "0") || whole.count == 1,
            parts.dropFirst().allSatisfy({ $0.count == 3 }), parts.allSatisfy({ $0.allSatisfy(\.isDigit) })
        else { return nil }
        number += parts.joined()
        guard whole.count < digits.count else { return number }
        let fraction = digits[whole.endIndex...].dropFirst()
        guard !fraction.isEmpty, fraction.allSatisfy(\.isDigit) else { return nil }
        return number + [UInt8(ascii: ".")] + fraction
    }
}

/// What the first lines of CSV show.
struct CSVDialect {
    var delimiter = CSVDelimiter.comma
    var quote = CSVCharacter.quote.byte
    var escape: UInt8 = 0
    var comment: UInt8 = 0
    /// LF, also where a CR precedes it; or CR.
    var lineEnd = UInt8(ascii: "\n")
    var hasHeader = true
    /// For the person who reads the file: what was left out, and what was assumed.
    var notes: [String] = []

    /// The bytes that are inside of quotes.
    fileprivate var quoting: CSVQuoting { CSVQuoting(quote: quote, escape: escape, delimiter: delimiter.byte) }
}

/// Follows the quotes of CSV, byte by byte: those at the beginning of a field open, all others inside of a field are text.
private struct CSVQuoting {
    let quote: UInt8
    let escape: UInt8
    let delimiter: UInt8
    private(set) var isQuoted = false
    private var isEscaped = false
    private var previous = UInt8(ascii: "\n")

    init(quote: UInt8, escape: UInt8, delimiter: UInt8) {
        (self.quote, self.escape, self.delimiter) = (quote, escape, delimiter)
    }

    mutating func take(_ byte: UInt8) {
        defer { previous = byte }
        if isEscaped {
            isEscaped = false
        } else if byte == escape, escape != 0 {
            isEscaped = true
        } else if byte == quote, quote != 0 {
            // The end of a byte order mark, and the first of two quotes.
            let begins = "\n\r ,;|\t".utf8.contains(previous) || [delimiter, quote, 0xBF].contains(previous)
            if isQuoted || begins { isQuoted.toggle() }
        }
    }
}

/// The first lines of CSV, from which its dialect is found.
struct CSVBeginning {
    private(set) var bytes: [UInt8] = []
    private let options: CSVOptions
    private var quoting: CSVQuoting
    private var hasText = false
    private var lines = 0
    /// All lines so far begin with `#`, and this one, if it has begun.
    private var isPreamble = true
    private var hasZero = false
    /// The bytes that are looked at: as many however the input is divided into pieces.
    private var scanned = 0

    /// Lines and bytes that are looked at, if these have a whole line.
    private static let mostLines = 12
    private static let mostBytes = 64 << 10

    init(_ options: CSVOptions) {
        self.options = options
        quoting = CSVQuoting(
            quote: options.quote.byte, escape: options.escape.byte, delimiter: (options.delimiter ?? .comma).byte)
    }

    var isComplete: Bool {
        lines >= Self.mostLines || scanned > Self.mostBytes && lines > 0 || hasZero || scanned > CSVReader.largestHeader
    }

    var hasRecord: Bool { lines > 1 }

    /// Adds bytes of the input, each of which is read once.
    mutating func append(_ more: ArraySlice<UInt8>) {
        bytes += more
        for byte in more {
            if isComplete { break }
            scanned += 1
            if !(isPreamble && hasText) { quoting.take(byte) }
            switch byte {
            case UInt8(ascii: "\n"), UInt8(ascii: "\r"):
                // Comments may be long; what comes after them decides.
                if hasText, !quoting.isQuoted, !isPreamble { lines += 1 }
                hasText = hasText && quoting.isQuoted
            // A byte order mark.
            case 0xEF, 0xBB, 0xBF: break
            // A fault, wherever it is.
            case 0: hasZero = true
            default:
                if !hasText { isPreamble = isPreamble && byte == UInt8(ascii: "#") }
                hasText = true
            }
        }
    }

    var markLength: Int { bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0 }

    /// The dialect, and where the header begins, or the first record.
    ///
    /// Where the reader would find a fault in these lines, and none with another quote or escape, they have that.
    func dialect() -> (dialect: CSVDialect, text: Int) {
        var dialect = CSVDialect()
        dialect.quote = options.quote.byte
        dialect.escape = options.escape == options.quote ? 0 : options.escape.byte
        dialect.comment = options.comment?.byte ?? 0
        let usual = found(dialect)
        guard width(of: usual.text, usual.dialect) == nil else { return usual }
        let reason = "since the first lines cannot be read otherwise"
        var others: [CSVDialect] = []
        if options.escape == .none, bytes[..<scanned].contains(UInt8(ascii: "\\")) {
            var other = dialect
            other.escape = UInt8(ascii: "\\")
            other.notes = ["a backslash before a quote is its escape, as with --escape '\\', \(reason)"]
            others.append(other)
        }
        if options.quote == .quote, hasSingleQuotes {
            var other = dialect
            other.quote = UInt8(ascii: "'")
            other.notes = ["fields are in single quotes, as with --quote \"'\", \(reason)"]
            others.append(other)
        }
        return others.lazy.map(found).first { width(of: $0.text, $0.dialect) ?? 0 > 1 } ?? usual
    }

    /// A field seems to begin with one, and a field to end with one.
    private var hasSingleQuotes: Bool {
        let quote = UInt8(ascii: "'")
        let pairs = zip(bytes[..<scanned], bytes[..<scanned].dropFirst())
        return pairs.contains { ",;|\t\n".utf8.contains($0) && $1 == quote }
            && pairs.contains { $0 == quote && ",;|\t\r\n".utf8.contains($1) }
    }

    /// The rest of the dialect, with that quote and escape.
    private func found(_ dialect: CSVDialect) -> (dialect: CSVDialect, text: Int) {
        var dialect = dialect
        let lines = lines(&dialect)
        var first = 0
        var delimiter = options.delimiter
        if let line = lines.first, let found = Self.separator(in: bytes[line]) {
            delimiter = delimiter ?? found
            first = 1
        }
        let preamble = options.comment == nil ? preamble(lines[first...], delimiter, dialect) : 0
        if preamble > 0 {
            dialect.notes.append(
                "the first \(preamble == 1 ? "line begins" : "\(preamble) lines begin") with # and "
                    + "\(preamble == 1 ? "is" : "are") left out")
        }
        first += preamble
        var rest = lines[min(first, lines.count)...].filter { bytes[$0.lowerBound] != dialect.comment }
        func choose() { dialect.delimiter = delimiter ?? self.delimiter(of: rest, dialect) }
        choose()
        let titles = titleCount(rest, delimiter, dialect)
        if titles > 0 {
            let text = rest.prefix(titles).map { String(decoding: bytes[$0].prefix(60), as: UTF8.self) }
            dialect.notes.append(
                "the first \(titles == 1 ? "line is" : "\(titles) lines are") left out as a title "
                    + "(\(text.joined(separator: "; "))); --with-header reads it as the names")
            rest.removeFirst(titles)
            first = max(first, 1)
            choose()
        }
        dialect.hasHeader = options.hasHeader ?? true
        let rows = rest.prefix(Self.mostLines - 1).map { fields(of: $0, dialect) }
        if options.hasHeader == nil {
            let guess = CSVHeaderGuess(rows)
            dialect.hasHeader = !guess.isHeaderless
            if let note = guess.note { dialect.notes.append(note) }
        }
        dialect.notes += CSVWords(rows, dialect, options).notes
        // Empty lines before it, too, are read; they say nothing.
        // Without a line that says anything, the reader goes on after what was looked at, but for the fault.
        return (dialect, first == 0 ? markLength : rest.first?.lowerBound ?? (hasZero ? scanned - 1 : scanned))
    }

    /// The fields of the header that begins there, if the reader takes it and all whole lines after it.
    private func width(of start: Int, _ dialect: CSVDialect) -> Int? {
        // Fields of such a length are not read again and again.
        guard start < scanned, scanned <= 2 * Self.mostBytes else { return 0 }
        var text = bytes[start..<scanned]
        if let end = text.lastIndex(of: dialect.lineEnd), text[..<end].contains(dialect.lineEnd) { text = text[...end] }
        var reader = CSVReader(options, dialect)
        do throws(InputFault) {
            try reader.feed(Array(text)) { _ in }
            try reader.finish { _ in }
            return reader.width
        } catch {
            return nil
        }
    }

    /// The whole lines with text, without their ends, and the last one, whole or not.
    private func lines(_ dialect: inout CSVDialect) -> [Range<Int>] {
        var lines: [Range<Int>] = []
        var start = markLength
        var quoting = dialect.quoting
        var isPreamble = true
        var (hasReturn, hasFeed) = (false, false)
        for index in start..<max(start, scanned) {
            let byte = bytes[index]
            let isEnd = byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\n")
            if index == start, !isEnd { isPreamble = isPreamble && byte == UInt8(ascii: "#") }
            if !isPreamble { quoting.take(byte) }
            guard isEnd, !quoting.isQuoted else { continue }
            // One at the end may be half of a CRLF.
            hasReturn = hasReturn || byte == UInt8(ascii: "\r") && index + 1 < scanned
            hasFeed = hasFeed || byte == UInt8(ascii: "\n")
            if start < index { lines.append(start..<index) }
            start = index + 1
        }
        if start < scanned { lines.append(start..<scanned) }
        if hasReturn, !hasFeed { dialect.lineEnd = UInt8(ascii: "\r") }
        return lines
    }

    /// The delimiter that the line `sep=;` names, as Excel reads it.
    private static func separator(in line: ArraySlice<UInt8>) -> CSVDelimiter? {
        let text = String(decoding: line, as: UTF8.self).trimmingPrefix("\"")
        guard text.lowercased().hasPrefix("sep=") else { return nil }
        return CSVDelimiter(text.dropFirst(4).filter { $0 != "\"" })
    }

    /// The number of the first lines that are comments: they begin with `#`, and are no header, which has no blank after
    /// the `#` and as many fields as the line after it.
    private func preamble(_ lines: ArraySlice<Range<Int>>, _ given: CSVDelimiter?, _ dialect: CSVDialect) -> Int {
        let count = lines.prefix { bytes[$0.lowerBound] == UInt8(ascii: "#") }.count
        let next = lines.startIndex + count
        guard count > 0, next < lines.endIndex else { return 0 }
        let last = lines[next - 1]
        var dialect = dialect
        dialect.delimiter = given ?? delimiters(of: last, dialect)[0]
        let width = fields(of: last, dialect).count
        let isHeader =
            width > 1 && width == fields(of: lines[next], dialect).count
            && bytes[last.lowerBound + 1] != UInt8(ascii: " ")
        return isHeader ? count - 1 : count
    }

    /// Of the delimiters that the header has, the one of most fields with which the reader takes the lines; else the first.
    private func delimiter(of lines: [Range<Int>], _ dialect: CSVDialect) -> CSVDelimiter {
        guard let header = lines.first else { return .comma }
        let found = delimiters(of: header, dialect)
        guard found.count > 1 else { return found[0] }
        return found.first { delimiter in
            var other = dialect
            other.delimiter = delimiter
            return width(of: header.lowerBound, other) != nil
        } ?? found[0]
    }

    /// The delimiters that the line has, those that divide it into most fields first. Of several, a comma wins.
    private func delimiters(of line: Range<Int>, _ dialect: CSVDialect) -> [CSVDelimiter] {
        var counts = [Int](repeating: 0, count: CSVDelimiter.common.count)
        var quoting = dialect.quoting
        for byte in bytes[line] {
            quoting.take(byte)
            guard !quoting.isQuoted, let index = CSVDelimiter.common.firstIndex(where: { $0.byte == byte })
            else { continue }
            counts[index] += 1
        }
        if options.prefersTab, counts[CSVDelimiter.common.firstIndex(of: .tab)!] > 0 { return [.tab] }
        let found = counts.indices.filter { counts[$0] > 0 }.sorted { (counts[$1], $0) < (counts[$0], $1) }
        return found.isEmpty ? [.comma] : found.map { CSVDelimiter.common[$0] }
    }

    /// The number of the first lines that are a title: they have one text at most, and the line after them certainly names the
    /// fields of those below it.
    private func titleCount(_ lines: [Range<Int>], _ given: CSVDelimiter?, _ dialect: CSVDialect) -> Int {
        guard options.hasHeader == nil, scanned <= 2 * Self.mostBytes else { return 0 }
        for count in 1..<max(1, min(lines.count - 1, Self.mostTitles + 1)) {
            var other = dialect
            other.delimiter = given ?? delimiter(of: Array(lines[count...]), dialect)
            guard fields(of: lines[count - 1], other).count(where: { !$0.isEmpty }) <= 1 else { return 0 }
            let rows = lines[count...].prefix(Self.mostLines - 1).map { fields(of: $0, other) }
            if rows[0].count > 1, !rows[0].contains(""), CSVHeaderGuess(rows).isCertain,
                width(of: lines[count].lowerBound, other) != nil
            {
                return count
            }
        }
        return 0
    }

    private static let mostTitles = 5

    /// The texts between delimiters; those in quotes keep them.
    private func fields(of line: Range<Int>, _ dialect: CSVDialect) -> [String] {
        var fields: [String] = []
        var start = line.lowerBound
        var quoting = dialect.quoting
        for index in line {
            quoting.take(bytes[index])
            guard !quoting.isQuoted, bytes[index] == dialect.delimiter.byte else { continue }
            fields.append(String(decoding: bytes[start..<index], as: UTF8.self))
            start = index + 1
        }
        return fields + [String(decoding: bytes[start..<line.upperBound], as: UTF8.self)]
    }
}

/// What the first rows have that an option would read in another way.
private struct CSVWords {
    private(set) var notes: [String] = []

    init(_ rows: [[String]], _ dialect: CSVDialect, _ options: CSVOptions) {
        let values = rows.dropFirst(dialect.hasHeader ? 1 : 0)
        if options.decimal == nil, let number = values.joined().first(where: Self.hasDecimalComma) {
            notes.append("numbers such as \(number) are texts; --decimal , reads them as numbers")
        }
        let nulls = rows.first.map { first in
            first.indices.flatMap { column in
                let column = values.filter { $0.count == first.count }.map { $0[column] }
                let isTyped = column.contains { CSVHeaderGuess.isTyped($0) }
                return column.filter { Self.certainNulls.contains($0) || isTyped && Self.nulls.contains($0) }
            }
        }
        let texts = Set(nulls ?? []).subtracting(options.nulls).sorted()
        if !texts.isEmpty {
            notes.append(
                "\(texts.joined(separator: ", ")) \(texts.count == 1 ? "is a text" : "are texts"); --null '\(texts[0])' reads "
                    + "such a text as no value")
        }
        guard let first = rows.first, rows.count > 1, options.delimiter == nil, rows.allSatisfy({ $0.count == 1 })
        else {
            return
        }
        let other = "^~:!%&*+/@".first { mark in
            let count = first[0].count { $0 == mark }
            return count > 0 && rows.allSatisfy { $0[0].count { $0 == mark } == count }
        }
        if let other { notes.append("each line is one field; if \(other) divides it, --delimiter '\(other)'") }
    }

    private static let certainNulls: Set = ["NULL", "\\N"]
    private static let nulls: Set = [
        "NULL", "\\N", "null", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "None", "nil", "-",
    ]

    /// `1.234,50`
    private static func hasDecimalComma(_ text: String) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
        guard parts.count == 2 else { return false }
        let whole = parts[0].drop { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "-") }
        let fraction = parts[1].last == UInt8(ascii: "\"") ? parts[1].dropLast() : parts[1]
        return whole.first?.isDigit ?? false && whole.allSatisfy { $0.isDigit || $0 == UInt8(ascii: ".") }
            && (1...2).contains(fraction.count) && fraction.allSatisfy(\.isDigit)
    }
}

/// Whether the first line of CSV is a record.
///
/// It certainly is one if a field of it is a number or a date as those below it are, and no text is above numbers or dates
/// alone. Years, and numbers or days that go up from field to field, may be names, as those of a pivot table are.
struct CSVHeaderGuess {
    private enum Kind { case empty, text, number, date }

    private(set) var isHeaderless = false
    /// The first line certainly has names: a text is above numbers or dates alone.
    private(set) var isCertain = false
    /// Nil where nothing in the first line looks like a value.
    private(set) var note: String?

    init(_ rows: [[String]]) {
        guard let first = rows.first else { return }
        let kinds = first.map(Self.kind)
        let typed = kinds.indices.filter { kinds[$0] == .number || kinds[$0] == .date }
        let rest = rows.dropFirst().filter { $0.count == first.count }
        // By column, the kind of all values below the first line.
        let below = first.indices.map { column in
            let kinds = Set(rest.map { Self.kind($0[column]) }.filter { $0 != .empty })
            return kinds.count > 1 ? .text : kinds.first ?? .empty
        }
        isCertain = kinds.indices.contains { kinds[$0] == .text && (below[$0] == .number || below[$0] == .date) }
        let isTyped = !typed.isEmpty && kinds.first != .empty
        guard !isCertain, isTyped || Self.hasText(first, of: rest), !rest.isEmpty else { return }
        isHeaderless =
            isTyped && typed.allSatisfy { below[$0] == kinds[$0] || below[$0] == .empty }
            && typed.contains { below[$0] == kinds[$0] } && !Self.mayBeNames(typed.map { ($0, first[$0]) })
        let line = first.prefix(4).map { $0.prefix(30) }.joined(separator: ", ") + (first.count > 4 ? ", …" : "")
        note =
            isHeaderless
            ? "the first line (\(line)) is read as a record, and the fields are column_1 to column_\(first.count); "
                + "--with-header reads it as their names"
            : "the first line (\(line)) is read as the names of the fields; --no-header reads it as a record"
    }

    /// Whether one of the texts is a value further down, too, or hardly a name. A line that is repeated whole is one of names.
    private static func hasText(_ first: [String], of rest: some Sequence<[String]>) -> Bool {
        guard !rest.contains(first) else { return false }
        return first.indices.contains { column in
            let text = first[column]
            return !text.isEmpty
                && (rest.contains { $0[column] == text } || text.contains("@") || text.contains("://")
                    || text.split(separator: " ").count > mostWordsOfName)
        }
    }

    private static let mostWordsOfName = 8

    /// Years; or two fields or more side by side, whole numbers that go up or different days.
    private static func mayBeNames(_ fields: [(column: Int, text: String)]) -> Bool {
        let numbers = fields.map { Int($0.text) }
        if numbers.allSatisfy({ $0.map { (1900...2100).contains($0) } ?? false }) { return true }
        guard fields.count > 1 else { return false }
        return zip(fields, fields.dropFirst()).allSatisfy { one, next in
            guard one.column + 1 == next.column else { return false }
            guard let number = Int(one.text), let following = Int(next.text) else {
                return kind(one.text) == .date && kind(next.text) == .date && one.text != next.text
            }
            return following > number
        }
    }

    /// A number or a date.
    static func isTyped(_ field: String) -> Bool { [.number, .date].contains(kind(field)) }

    private static func kind(_ field: String) -> Kind {
        var text = field[...]
        if text.count > 1, text.first == "\"", text.last == "\"" { text = text.dropFirst().dropLast() }
        guard !text.isEmpty else { return .empty }
        let digits = text.utf8.count(where: \.isDigit)
        let sign = text.first == "-" || text.first == "+" ? text.dropFirst() : text
        guard sign.utf8.first?.isDigit ?? false else { return .text }
        if sign.utf8.allSatisfy({ $0.isDigit || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: ",") }) {
            // Two dots or more, and no groups of three: 24.9.2012.
            let parts = sign.split(separator: ".")
            return parts.count == 3 && parts[1].count < 3 ? .date : .number
        }
        let isDate = text.utf8.allSatisfy { $0.isDigit || "-/.:TZ +".utf8.contains($0) }
        return isDate && digits >= 6 && text.utf8.count >= 8 ? .date : .text
    }
}
