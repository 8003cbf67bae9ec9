import BrokerJSON
import BrokerModel
internal import Glibc

/// One attribute's conversion, compiled once from the model; immutable, shared by all workers. A class, because it is large.
///
/// It never loses information: a value that does not fit exactly is rejected. Texts that need no change stay in the document;
/// other results are in the caller's arena.
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

        /// Stored texts have the form of ``ISO8601/stored(_:arena:)``.
        var keepsText: Bool { storage == .iso8601 && precision == Attribute.defaultPrecision }

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
        arena.isPadded = false
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

    fileprivate static func uuid(
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

extension UnsafeBufferPointer<UInt8> {
    /// Whether the text is a UUID: hexadecimal digits in groups of 8-4-4-4-12.
    package var isUUID: Bool {
        var arena = ByteArena()
        return ValueConverter.uuid(self, arena: &arena) != nil
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
        ValueFault(self.sentence(value, wanted, remedy))
    }

    private func sentence(_ value: JSONValue, _ wanted: String, _ remedy: String?) -> String {
        let what = "\(Self.shown(value)) is not \(wanted); attribute \"\(name)\" is \(type.rawValue)"
        return remedy.map { "\(what) (\($0))" } ?? what
    }

    @inline(never) func misplacement(of value: JSONValue) -> ValueFault {
        ValueFault(Self.misplaced(value, self.name))
    }

    @inline(never) func inexactness(of value: JSONValue) -> ValueFault {
        ValueFault(
            "\(Self.shown(value)) does not fit attribute \"\(self.name)\" exactly, which is \(self.type.rawValue); string keeps "
                + "the text")
    }

    static func misplaced(_ value: JSONValue, _ name: String) -> String {
        "\(shown(value)) is in the place of an object, through which a key path of \"\(name)\" leads; send an object, or "
            + "null to clear what is below it"
    }

    @inline(never) func violation(_ breach: ValueLimits.Breach, _ value: JSONValue, _ cell: Cell) -> ValueFault {
        ValueFault(self.sentence(breach, value, cell), code: .validationFailed)
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
        if let range = limits.dates, !range.contains(instant) {
            throw violation(.bounds, value, .null)
        }
        if type == .calendarDate {
            let text = ISO8601.write(instant, digits: 0, arena: &arena)
            return .text(UnsafeBufferPointer(rebasing: text[..<ISO8601.dayCount]))
        }
        arena.isInexact = !dates.isExact(instant)
        return dates.cell(of: instant, arena: &arena)
    }

    /// Converts a date; a calendar date is the beginning of its day in UTC. A number is seconds since 1970; with the format
    /// ``DateFormat/unixTime``, one of 13 digits or more is milliseconds, and a string may be such a number. Other strings match
    /// the first format that fits, or ISO 8601.
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

extension ValueConverter {
    @inline(__always)
    func integer(
        _ value: JSONValue, in range: ClosedRange<Int64>, arena: inout ByteArena
    ) throws(ValueFault) -> Cell {
        if let number = value.int64, range.contains(number) { return .integer(number) }
        return .integer(try writtenInteger(value, in: range, arena: &arena))
    }

    /// Converts any value but a number that is written as an integer and fits.
    private func writtenInteger(
        _ value: JSONValue, in range: ClosedRange<Int64>, arena: inout ByteArena
    ) throws(ValueFault) -> Int64 {
        switch value.kind {
        case .true: return 1
        case .false: return 0
        case .number, .string:
            let text = value.kind == .string ? text(of: value, arena: &arena) : value.bytes
            guard let number = NumberText(text) else { break }
            guard let integer = number.int64 else {
                if number.isWhole { throw outOfRange(value, range) }
                throw refusal(of: value, as: "a whole number", remedy: "decimal and double keep fractions")
            }
            guard range.contains(integer) else { throw outOfRange(value, range) }
            arena.isPadded = number.isPadded(text)
            return integer
        case .null, .array, .object: break
        }
        throw refusal(of: value, as: "a whole number")
    }

    @inline(never) private func outOfRange(_ value: JSONValue, _ range: ClosedRange<Int64>) -> ValueFault {
        let remedy = (type == .integer64 ? "" : "integer64 holds more, and ") + Self.widerType(for: value)
        return ValueFault(
            "\(Self.shown(value)) does not fit attribute \"\(self.name)\": \(self.type.rawValue) holds "
                + "\(range.lowerBound) to \(range.upperBound); \(remedy)")
    }

    /// The type that holds a number of any size: decimal, unless the exponent is too large for it.
    private static func widerType(for value: JSONValue) -> String {
        var arena = ByteArena()
        let isDecimal = NumberText(value.bytes).map { DecimalText.normalise($0, arena: &arena) != nil } ?? true
        return isDecimal ? "decimal keeps every digit" : "string holds it as it is written"
    }

    func decimal(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        var written = value.bytes
        switch value.kind {
        case .true: return .text(Self.one)
        case .false: return .text(Self.zero)
        case .number where DecimalText.isNormal(jsonNumber: written): return .text(written)
        case .number: break
        case .string: written = text(of: value, arena: &arena)
        case .null, .array, .object: throw refusal(of: value, as: "a number")
        }
        guard let number = NumberText(written) else { throw refusal(of: value, as: "a number") }
        guard let text = DecimalText.normalise(number, arena: &arena) else {
            // Beyond its range a double would be infinite, or zero.
            let isInRange = number.double.map { $0.isFinite && $0 != 0 } ?? false
            throw ValueFault(
                "\(Self.shown(value)) has an exponent too large for attribute \"\(self.name)\": a decimal may "
                    + "have \(DecimalText.maximumExpandedDigits) digits when it is written out; "
                    + (isInRange ? "double holds it, rounded" : "string holds it as it is written"))
        }
        arena.isPadded = number.isPadded(written)
        return .text(text)
    }

    /// A decimal as a whole number of units, each ten to the power of `-scale`.
    func decimal(_ value: JSONValue, scale: Int, arena: inout ByteArena) throws(ValueFault) -> Cell {
        let written: UnsafeBufferPointer<UInt8>
        switch value.kind {
        case .true: written = Self.one
        case .false: written = Self.zero
        case .number: written = value.bytes
        case .string: written = text(of: value, arena: &arena)
        case .null, .array, .object: throw refusal(of: value, as: "a number")
        }
        guard let number = NumberText(written)?.scaled(by: scale) else { throw refusal(of: value, as: "a number") }
        if let units = number.int64 {
            arena.isPadded = number.isPadded(written)
            return .integer(units)
        }
        let limit =
            number.isWhole
            ? "its values are whole numbers of 64 bits with \(scale) of the digits after the point"
            : "its \"scale\" allows \(scale) digits after the point"
        throw ValueFault(
            "\(Self.shown(value)) does not fit attribute \"\(self.name)\": \(limit); "
                + "\"storage\": \"text\" keeps every digit")
    }

    /// - Parameter largest: the greatest finite value of the type.
    func real(_ value: JSONValue, largest: Double, arena: inout ByteArena) throws(ValueFault) -> Cell {
        let number: Double?
        var written = value.bytes
        switch value.kind {
        case .true: return .real(1)
        case .false: return .real(0)
        case .number: number = Double(fastJSONNumber: written)
        case .string:
            written = text(of: value, arena: &arena)
            guard let text = NumberText(written) else { throw refusal(of: value, as: "a number") }
            number = text.double
            arena.isPadded = text.isPadded(written)
        case .null, .array, .object: throw refusal(of: value, as: "a number")
        }
        guard let number, number.magnitude <= largest || Float(number).isFinite else {
            throw ValueFault(
                "\(Self.shown(value)) is too large for attribute \"\(self.name)\": \(self.type.rawValue) ends "
                    + "at \(largest); \(Self.widerType(for: value))")
        }
        // A double holds each integer of 15 digits exactly.
        if written.count > 15 || number == 0, Self.isInexact(written, number) { arena.isInexact = true }
        return .real(number)
    }

    /// Whether the number loses information as a double: an integer becomes another number, or a number other than zero
    /// becomes 0. Rounding a fraction to the nearest double is no loss in this sense.
    ///
    /// An integer has neither fraction nor exponent. An integer that a program printed from a double is exact, whether
    /// with all digits of the double or with the fewest that read as it.
    @inline(never) private static func isInexact(_ written: UnsafeBufferPointer<UInt8>, _ double: Double) -> Bool {
        guard let number = NumberText(written) else { return false }
        if double == 0 { return (0..<number.digitCount).contains { number.digit($0) != 0 } }
        guard number.fraction.isEmpty, number.exponent == 0 else { return false }
        let allDigits = withVaList([double]) { digits in
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: 320) { space in
                vsnprintf(space.baseAddress, space.count, "%.0f", digits)
                return String(cString: space.baseAddress!)
            }
        }
        return !number.isSame(as: allDigits) && !number.isSame(as: double.description)
    }

    func boolean(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        switch value.kind {
        case .true: return .integer(1)
        case .false: return .integer(0)
        case .number:
            if let number = NumberText(value.bytes)?.int64, number == 0 || number == 1 { return .integer(number) }
        case .string:
            if let truth = Self.truth(of: text(of: value, arena: &arena)) { return .integer(truth ? 1 : 0) }
        case .null, .array, .object: break
        }
        throw refusal(of: value, as: "true or false", remedy: "yes, no, t, f, y, n, 1 and 0 will do as well")
    }

    private static func truth(of word: UnsafeBufferPointer<UInt8>) -> Bool? {
        switch word.count {
        case 1:
            switch word[0] {
            case UInt8(ascii: "1"), UInt8(ascii: "t"), UInt8(ascii: "T"), UInt8(ascii: "y"), UInt8(ascii: "Y"): true
            case UInt8(ascii: "0"), UInt8(ascii: "f"), UInt8(ascii: "F"), UInt8(ascii: "n"), UInt8(ascii: "N"): false
            default: nil
            }
        case 2: isWord(word, "no") ? false : nil
        case 3: isWord(word, "yes") ? true : nil
        case 4: isWord(word, "true") ? true : nil
        case 5: isWord(word, "false") ? false : nil
        default: nil
        }
    }

    private static func isWord(_ text: UnsafeBufferPointer<UInt8>, _ word: StaticString) -> Bool {
        var cursor = TextCursor(text)
        return cursor.take(anyCase: word) && cursor.isAtEnd
    }

    private static let digits: StaticString = "01"
    private static var zero: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: digits.utf8Start, count: 1) }
    private static var one: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: digits.utf8Start + 1, count: 1) }
}

extension NumberText {
    /// Whether the text is the same number.
    package func isSame(as text: String) -> Bool {
        var text = text
        var arena = ByteArena()
        return text.withUTF8 { other in
            guard let own = DecimalText.normalise(self, arena: &arena),
                let other = NumberText(other).flatMap({ DecimalText.normalise($0, arena: &arena) })
            else { return false }
            return DecimalText(normal: own) == DecimalText(normal: other)
        }
    }
}
