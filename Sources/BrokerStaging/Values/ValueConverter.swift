import BrokerJSON
import BrokerModel

/// One attribute's conversion, compiled once from the model; immutable, shared by all workers.
///
/// A class, because it is large and every value of every record is passed to one.
///
/// Converts as RestKit's table does and never loses information: a value that does not fit exactly is rejected. Texts
/// that need no change stay in the document; other results are in the caller's arena.
final class ValueConverter: Sendable {
    /// The reading and storing of dates and calendar dates; for these attributes only.
    struct Dates: Sendable {
        var formats: [DateFormat] = []
        var zone = LocalZone.utc
        var storage = DateStorage.iso8601
        /// The digits of a second's fraction in a stored text.
        var precision = Attribute.defaultPrecision
        /// A number of 13 digits or more is milliseconds since 1970, and texts may contain numbers.
        var readsUnixTime = false
        /// ``readsUnixTime`` by the first of the attribute's formats: dates are written this way, too.
        var writesUnixTime = false

        /// The stored form of a time: smaller parts are cut off, toward the past.
        func cell(of instant: Instant, arena: inout ByteArena) -> Cell {
            switch storage {
            case .iso8601: .text(ISO8601.write(instant, digits: precision, arena: &arena))
            case .unix: .integer(Int64(instant.seconds))
            case .coreData: .real(instant.secondsSinceCoreDataReference)
            }
        }

        /// The time of a stored value; nil for a value of another form, which another program stored.
        func instant(_ cell: Cell) -> Instant? {
            switch (storage, cell.kind) {
            case (.iso8601, .text): ISO8601.instant(cell.bytes, zone: .utc)
            case (.unix, .integer): Instant(seconds: Int(cell.integer))
            case (.coreData, .real): Instant(secondsSinceCoreDataReference: cell.real)
            case (.coreData, .integer): Instant(secondsSinceCoreDataReference: Double(cell.integer))
            default: nil
            }
        }

        /// Whether both times have the same stored form.
        func isSame(_ one: Instant, _ other: Instant) -> Bool {
            guard storage != .coreData else {
                return one.secondsSinceCoreDataReference == other.secondsSinceCoreDataReference
            }
            let unit = Instant.unit(digits: storage == .unix ? 0 : precision)
            return one.seconds == other.seconds && one.nanoseconds / unit == other.nanoseconds / unit
        }

        /// Whether the stored form of the time has all its digits.
        func isExact(_ instant: Instant) -> Bool {
            guard !instant.hasFurtherDigits else { return false }
            return switch storage {
            case .iso8601: instant.nanoseconds % Instant.unit(digits: precision) == 0
            case .unix: instant.nanoseconds == 0
            case .coreData:
                Instant(secondsSinceCoreDataReference: instant.secondsSinceCoreDataReference).map { $0 == instant }
                    ?? false
            }
        }
    }

    let name: String
    let type: AttributeType
    let transform: TextTransform?
    let dates: Dates
    /// The digits after the point of a decimal that is stored as an integer; nil otherwise.
    let scale: Int?
    let limits: ValueLimits
    /// For inserts without a value; nil means NULL.
    let defaultCell: OwnedCell?

    init(
        name: String, type: AttributeType, transform: TextTransform?, dates: Dates, scale: Int?, limits: ValueLimits,
        defaultCell: OwnedCell?
    ) {
        self.name = name
        self.type = type
        self.transform = transform
        self.dates = dates
        self.scale = scale
        self.limits = limits
        self.defaultCell = defaultCell
    }

    /// Returns the cell to store: never `absent` or `object`, and `null` for JSON's null alone.
    ///
    /// Valid while the document of the value and the arena live.
    func convert(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        arena.isInexact = false
        guard !value.isNull else { return .null }
        let cell =
            switch type {
            case .integer16: try integer(value, in: Int64(Int16.min)...Int64(Int16.max), arena: &arena)
            case .integer32: try integer(value, in: Int64(Int32.min)...Int64(Int32.max), arena: &arena)
            case .integer64: try integer(value, in: Int64.min...Int64.max, arena: &arena)
            case .string: try string(value, arena: &arena)
            case .boolean: try boolean(value, arena: &arena)
            case .date, .calendarDate: try date(value, arena: &arena)
            case .decimal:
                if let scale {
                    try decimal(value, scale: scale, arena: &arena)
                } else {
                    try decimal(value, arena: &arena)
                }
            case .double: try real(value, largest: Double.greatestFiniteMagnitude, arena: &arena)
            case .float: try real(value, largest: Double(Float.greatestFiniteMagnitude), arena: &arena)
            case .uuid: try uuid(value, arena: &arena)
            case .uri: try uri(value, arena: &arena)
            case .binary: try binary(value, arena: &arena)
            case .transformable: Cell.text(CompactJSON.text(of: value, arena: &arena))
            }
        guard limits.isLimiting else { return cell }
        if let breach = limits.breach(by: cell, budget: &arena.workBudget) { throw violation(breach, value, cell) }
        return cell
    }

    /// Converts a key that is no part of a record. `false`, which some servers send for no object, is no number and no text.
    func convert(key: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        guard key.kind != .true && key.kind != .false || type == .boolean else {
            throw refusal(
                of: key, as: "a key", remedy: "if it means no object, name it in the \"none\" of the relationship")
        }
        return try convert(key, arena: &arena)
    }

    /// Returns a string's content after the transforms.
    @inline(__always)
    func text(of string: JSONValue, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        guard let transform else { return string.bytes }
        return transform.apply(to: string.bytes, arena: &arena)
    }
}

extension ValueConverter {
    func string(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        switch value.kind {
        case .string, .number, .true, .false: return .text(text(of: value, arena: &arena))
        case .null, .array, .object:
            throw refusal(of: value, as: "a string", remedy: "transformable keeps any JSON")
        }
    }

    func uri(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        guard value.kind == .string else { throw refusal(of: value, as: "a URI") }
        let text = text(of: value, arena: &arena)
        guard !text.isEmpty, !WhiteSpace.orControlCharacter(isIn: text) else {
            throw refusal(
                of: value, as: "a URI", remedy: "it must not be empty or contain white space, which is written %20")
        }
        return .text(text)
    }

    /// Converts to upper case, as Foundation prints a UUID.
    func uuid(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        guard value.kind == .string, let text = Self.uuid(text(of: value, arena: &arena), arena: &arena) else {
            throw refusal(of: value, as: "a UUID", remedy: "one has hexadecimal digits in groups of 8-4-4-4-12")
        }
        return .text(text)
    }

    private static func uuid(
        _ text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena
    ) -> UnsafeBufferPointer<UInt8>? {
        let dash = UInt8(ascii: "-")
        guard text.count == 36, text[8] == dash, text[13] == dash, text[18] == dash, text[23] == dash else {
            return nil
        }
        // The 32 digits in four words.
        let (first, second) = (Bytes.word(text, at: 0), Bytes.halves(text, at: 9, 14))
        let (third, last) = (Bytes.halves(text, at: 19, 32), Bytes.word(text, at: 24))
        guard first.isHexadecimal, second.isHexadecimal, third.isHexadecimal, last.isHexadecimal else { return nil }
        guard first.hasLowerCase || second.hasLowerCase || third.hasLowerCase || last.hasLowerCase else { return text }
        let upper = arena.allocate(36)
        for index in 0..<36 { upper[index] = text[index] & (text[index] >= UInt8(ascii: "a") ? 0xDF : 0xFF) }
        return UnsafeBufferPointer(upper)
    }

    func binary(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        guard value.kind == .string, let bytes = Base64.decode(text(of: value, arena: &arena), arena: &arena) else {
            throw refusal(
                of: value, as: "base64", remedy: "the standard alphabet (with + and /) is read, without line breaks")
        }
        return .blob(bytes)
    }
}

/// Eight bytes of a text. Sums of bytes below 128 do not carry into the next byte; the highest bit of each has the result of
/// the comparison.
extension UInt64 {
    private static let highest: UInt64 = 0x8080_8080_8080_8080

    @inline(__always)
    private func added(_ byte: UInt8) -> UInt64 { self &+ UInt64(byte) &* 0x0101_0101_0101_0101 }

    /// All bytes are hexadecimal digits.
    @inline(__always)
    fileprivate var isHexadecimal: Bool {
        let small = self | 0x2020_2020_2020_2020
        let isDigit = added(0x80 - UInt8(ascii: "0")) & ~added(0x7F - UInt8(ascii: "9"))
        let isLetter = small.added(0x80 - UInt8(ascii: "a")) & ~small.added(0x7F - UInt8(ascii: "f"))
        return self & Self.highest == 0 && (isDigit | isLetter) & Self.highest == Self.highest
    }

    /// - Precondition: all bytes are hexadecimal digits.
    @inline(__always)
    fileprivate var hasLowerCase: Bool { added(0x80 - UInt8(ascii: "a")) & Self.highest != 0 }
}

/// Messages about rejected values, built only when needed.
extension ValueConverter {
    /// Limit in characters on a value in a message.
    private static let shownCount = 40

    @inline(never) func refusal(of value: JSONValue, as wanted: String, remedy: String? = nil) -> ValueFault {
        ValueFault(reason: .inconvertible, message: self.sentence(value, wanted, remedy))
    }

    private func sentence(_ value: JSONValue, _ wanted: String, _ remedy: String?) -> String {
        let what = "\(Self.shown(value)) is not \(wanted); attribute \"\(name)\" is \(type.rawValue)"
        return remedy.map { "\(what) (\($0))" } ?? what
    }

    @inline(never) func misplacement(of value: JSONValue) -> ValueFault {
        ValueFault(reason: .inconvertible, message: Self.misplaced(value, self.name))
    }

    static func misplaced(_ value: JSONValue, _ name: String) -> String {
        "\(shown(value)) is in the place of an object, through which a key path of \"\(name)\" leads; send an object, or "
            + "null to clear what is below it"
    }

    @inline(never) func violation(_ breach: ValueLimits.Breach, _ value: JSONValue, _ cell: Cell) -> ValueFault {
        ValueFault(reason: .notAllowed, message: self.sentence(breach, value, cell))
    }

    private func sentence(_ breach: ValueLimits.Breach, _ value: JSONValue, _ cell: Cell) -> String {
        let shown = Self.shown(value)
        return switch breach {
        case .bounds: "\(shown) is outside of the \"min\" and \"max\" of attribute \"\(name)\""
        case .length:
            "\(shown) has \(ValueLimits.scalarCount(cell.bytes)) characters; "
                + "attribute \"\(name)\" wants \(wantedLengths)"
        case .pattern(let verdict): "\(shown) \(sentence(verdict)): attribute \"\(name)\", \(pattern)"
        case .notListed: "\(shown) is not among the values that the \"enum\" of attribute \"\(name)\" lists"
        }
    }

    private var pattern: String { limits.pattern?.pattern ?? "" }

    private func sentence(_ verdict: RegularExpression.Verdict) -> String {
        switch verdict {
        case .matches, .doesNotMatch: "does not match the pattern"
        case .textTooLong:
            "is too long for the pattern: matching it may take more than "
                + "\(RegularExpression.maximumSteps / 1_000_000) million steps; shorten the text, or simplify the pattern"
        case .budgetSpent:
            "was not tried with the pattern, because other texts of this job have taken all the steps that a job may "
                + "take; send it in another job, or simplify the pattern"
        }
    }

    private var wantedLengths: String {
        guard let lengths = limits.lengths else { return "any number" }
        if lengths.upperBound == .max { return "at least \(lengths.lowerBound)" }
        return lengths.lowerBound == 0
            ? "at most \(lengths.upperBound)" : "\(lengths.lowerBound) to \(lengths.upperBound)"
    }

    /// Returns the value as JSON text, shortened.
    static func shown(_ value: JSONValue) -> String {
        let bytes = value.bytes
        var count = min(bytes.count, shownCount * 4)
        while count < bytes.count, count > 0, bytes[count] & 0xC0 == 0x80 { count -= 1 }
        let text = String(decoding: bytes[..<count], as: UTF8.self)
        let isWhole = count == bytes.count && text.count <= shownCount
        let shortened = isWhole ? text : text.prefix(shownCount) + "…"
        switch value.kind {
        case .string: return shortened.debugDescription
        case .array: return "the array \(shortened)"
        case .object: return "the object \(shortened)"
        case .null, .true, .false, .number: return shortened
        }
    }
}

extension ValueConverter {
    /// A text in the stored form, or in that without milliseconds, is stored as it is.
    private var takesStoredForm: Bool {
        type == .date && dates.storage == .iso8601 && dates.precision == ISO8601.milliseconds && dates.formats.isEmpty
            && transform == nil && !limits.isLimiting
    }

    func date(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        if value.kind == .string, takesStoredForm, let text = ISO8601.stored(value.bytes, arena: &arena) {
            return .text(text)
        }
        let instant = try instant(value, arena: &arena)
        if limits.isLimiting, case .date(let range) = limits.bounds, !range.contains(instant) {
            throw violation(.bounds, value, .null)
        }
        if type == .calendarDate {
            let text = ISO8601.write(instant, digits: 0, arena: &arena)
            return .text(UnsafeBufferPointer(rebasing: text[..<ISO8601.dayCount]))
        }
        arena.isInexact = !dates.isExact(instant)
        return dates.cell(of: instant, arena: &arena)
    }

    /// Converts a date. A number is seconds since 1970; with the format ``DateFormat/unixTime``, a number of 13 digits
    /// or more is milliseconds, and a string may be such a number. Other strings match one of the formats, the first
    /// that fits, or ISO 8601.
    ///
    /// A calendar date is the beginning of its day in UTC.
    func instant(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Instant {
        guard type != .calendarDate else { return try day(value, arena: &arena).midnight }
        switch value.kind {
        case .number:
            if dates.readsUnixTime, let number = NumberText(value.bytes), let instant = Instant(unixTime: number) {
                return instant
            }
            if let seconds = value.int64, let instant = Instant(seconds: Int(seconds)) { return instant }
            if let number = NumberText(value.bytes), let instant = Instant(secondsSince1970: number) { return instant }
            throw refusal(
                of: value, as: "a date of the years 0001 to 9999",
                remedy: "a number is seconds since 1970, not milliseconds")
        case .string:
            let text = text(of: value, arena: &arena)
            if dates.readsUnixTime, let number = NumberText(text), let instant = Instant(unixTime: number) {
                return instant
            }
            for index in dates.formats.indices {
                if let instant = dates.formats[index].instant(text) { return instant }
            }
            if let instant = ISO8601.instant(text, zone: dates.zone) { return instant }
            throw refusal(
                of: value, as: "a date",
                remedy: dates.formats.isEmpty
                    ? "without a \"format\" dates are ISO 8601, like 2011-12-22T02:24:51Z"
                    : "it follows neither the attribute's \"format\" nor ISO 8601")
        case .null, .true, .false, .array, .object: throw refusal(of: value, as: "a date")
        }
    }

    /// Converts a calendar date: a string in one of the formats, the first that fits, or `2011-12-22`. A time and a zone
    /// that a format has are read and ignored.
    private func day(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> CivilDate {
        guard value.kind == .string else { throw refusal(of: value, as: "a calendar date", remedy: Self.dayRemedy) }
        let text = text(of: value, arena: &arena)
        if let day = day(text) { return day }
        throw refusal(
            of: value, as: "a calendar date",
            remedy: dates.formats.isEmpty
                ? Self.dayRemedy : "it follows neither the attribute's \"format\" nor ISO 8601")
    }

    func day(_ text: UnsafeBufferPointer<UInt8>) -> CivilDate? {
        for index in dates.formats.indices {
            if let day = dates.formats[index].day(text) { return day }
        }
        return ISO8601.day(text)
    }

    private static let dayRemedy =
        "one is a day, like 2011-12-22; for texts with a time, give the attribute a \"format\", or the type date"
}

/// JSON text without white space between its tokens.
enum CompactJSON {
    /// Returns the value's text: its bytes in the document if they are compact, otherwise a copy in the arena.
    static func text(of value: JSONValue, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        switch value.kind {
        case .null, .false, .true, .number: value.bytes
        case .string: quoted(value, arena: &arena)
        case .array, .object: compact(value.bytes, arena: &arena)
        }
    }

    private static func quoted(_ string: JSONValue, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        let content = string.bytes
        guard string.hadEscapes else {
            // In the document, quotes enclose the content.
            return UnsafeBufferPointer(start: content.baseAddress! - 1, count: content.count + 2)
        }
        var writer = JSONWriter(capacity: content.count + content.count / 4 + 2)
        writer.string(content)
        return arena.store(writer.bytes)
    }

    private static func compact(
        _ text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena
    ) -> UnsafeBufferPointer<UInt8> {
        let compactCount = nextSpace(in: text, from: 0)
        guard compactCount < text.count else { return text }
        let space = arena.allocate(text.count)
        var end = 0
        var start = 0
        while start < text.count {
            let next = nextSpace(in: text, from: start)
            for index in start..<next {
                space[end] = text[index]
                end += 1
            }
            start = next + 1
        }
        arena.giveBack(text.count - end)
        return UnsafeBufferPointer(rebasing: space[..<end])
    }

    /// Returns the index of the first white space outside of strings, from an index outside of strings; the end when
    /// there is none.
    private static func nextSpace(in text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var index = start
        while index < text.count {
            let byte = text[index]
            if byte <= 0x20 { return index }
            index += 1
            guard byte == UInt8(ascii: "\"") else { continue }
            while text[index] != UInt8(ascii: "\"") { index += text[index] == UInt8(ascii: "\\") ? 2 : 1 }
            index += 1
        }
        return index
    }
}
