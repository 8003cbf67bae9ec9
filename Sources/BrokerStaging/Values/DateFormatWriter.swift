import BrokerModel

/// Writes dates in a pattern of UTS 35, compiled once: the reverse of ``DateFormat``.
///
/// This type writes the common fields, and Foundation writes all others. Names are English. A date whose pattern has a
/// zone is written in the zone of the pattern's attribute, which is UTC unless the model sets another.
struct DateFormatWriter: Sendable {
    /// Nil when only Foundation can write the pattern.
    private let tokens: [DatePatternToken]?
    private let foundation: FoundationDateFormat?
    private let zone: LocalZone

    init(pattern: String, zone: LocalZone) throws(DateFormat.Fault) {
        let tokens = try DatePatternToken.tokens(of: pattern)
        let isPlain = DateFormat.compile(tokens) != nil && !tokens.contains { $0.letter == UInt8(ascii: "z") }
        self.tokens = isPlain ? tokens : nil
        foundation = isPlain ? nil : FoundationDateFormat(pattern: pattern, zone: zone)
        self.zone = zone
    }

    /// Returns the text of a date, as far as the pattern has its fields.
    func text(of instant: Instant) -> [UInt8] {
        guard let tokens else { return foundation.map { Array($0.text(of: instant).utf8) } ?? [] }
        let time = LocalTime(instant, offset: zone.offset(at: instant.seconds))
        var text = DateText()
        for token in tokens {
            switch token {
            case .literal(let byte): text.bytes.append(byte)
            case .field(let letter, let count): text.append(letter, count, of: time)
            }
        }
        return text.bytes
    }
}

extension LocalZone {
    /// Seconds east of UTC at that time.
    fileprivate func offset(at seconds: Int) -> Int {
        switch self {
        case .fixed(let offset): offset
        case .named(let zone): zone.offset(at: seconds)
        }
    }
}

/// The local time of a zone.
private struct LocalTime {
    let date: CivilDate
    /// Second of the day.
    let second: Int
    /// Day of the week, from 0 for Sunday.
    let weekday: Int
    let nanosecond: Int
    /// Seconds east of UTC.
    let offset: Int

    init(_ instant: Instant, offset: Int) {
        let local = instant.seconds + offset
        let days = (Double(local) / Double(Instant.secondsPerDay)).rounded(.down)
        date = CivilDate(daysSince1970: Int(days))
        second = local - Int(days) * Instant.secondsPerDay
        // 1970 began on a Thursday.
        weekday = ((Int(days) + 4) % 7 + 7) % 7
        nanosecond = instant.nanoseconds
        self.offset = offset
    }
}

private struct DateText {
    var bytes: [UInt8] = []

    mutating func append(_ letter: UInt8, _ count: Int, of time: LocalTime) {
        let hour = time.second / 3600
        switch Character(UnicodeScalar(letter)) {
        case "y" where count == 2: append(time.date.year % 100, digits: 2)
        case "y": append(time.date.year, digits: count)
        case "M", "L":
            count < 3
                ? append(time.date.month, digits: count)
                : append(DateNames.months[time.date.month - 1], isLong: count > 3)
        case "d": append(time.date.day, digits: count)
        case "E": append(DateNames.weekdays[time.weekday], isLong: count > 3)
        case "H": append(hour, digits: count)
        case "k": append(hour == 0 ? 24 : hour, digits: count)
        case "h": append(hour % 12 == 0 ? 12 : hour % 12, digits: count)
        case "K": append(hour % 12, digits: count)
        case "a": append(hour < 12 ? "AM" : "PM", isLong: true)
        case "m": append(time.second / 60 % 60, digits: count)
        case "s": append(time.second % 60, digits: count)
        case "S": appendFraction(time.nanosecond, digits: count)
        case "Z": appendZone(time.offset, colon: count == 5, utc: count == 5 ? "Z" : nil, name: count == 4)
        case "X": appendZone(time.offset, colon: count == 3, utc: "Z", hoursAlone: count == 1)
        case "x": appendZone(time.offset, colon: count == 3, utc: nil, hoursAlone: count == 1)
        default: preconditionFailure("a pattern with other fields is Foundation's")
        }
    }

    private mutating func append(_ number: Int, digits: Int) {
        let text = String(number).utf8
        for _ in 0..<max(0, digits - text.count) { bytes.append(UInt8(ascii: "0")) }
        bytes += text
    }

    private mutating func append(_ name: StaticString, isLong: Bool) {
        bytes += name.description.utf8.prefix(isLong ? .max : 3)
    }

    /// Digits beyond nanoseconds are zeros; digits beyond the field's width are dropped.
    private mutating func appendFraction(_ nanosecond: Int, digits: Int) {
        var scale = Instant.nanosecondsPerSecond / 10
        for _ in 0..<digits {
            bytes.append(UInt8(ascii: "0") + (scale == 0 ? 0 : UInt8(nanosecond / scale % 10)))
            scale /= 10
        }
    }

    private mutating func appendZone(
        _ offset: Int, colon: Bool, utc: String?, hoursAlone: Bool = false, name: Bool = false
    ) {
        if offset == 0, let utc { return bytes += utc.utf8 }
        if name { bytes += "GMT".utf8 }
        if name, offset == 0 { return }
        bytes.append(offset < 0 ? UInt8(ascii: "-") : UInt8(ascii: "+"))
        append(abs(offset) / 3600, digits: 2)
        let minutes = abs(offset) / 60 % 60
        if hoursAlone, minutes == 0 { return }
        if colon || name { bytes.append(UInt8(ascii: ":")) }
        append(minutes, digits: 2)
    }
}

/// A point in time, in UTC without leap seconds.
struct Instant: Comparable, Sendable {
    /// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z: the limits of a year with four digits.
    static let representableSeconds: ClosedRange<Int> = -62_135_596_800...253_402_300_799
    static let secondsPerDay = 86_400
    static let nanosecondsPerSecond = 1_000_000_000
    /// 2001-01-01T00:00:00Z, the reference date of Core Data.
    static let coreDataReference = 978_307_200

    static let earliest = Instant(unchecked: representableSeconds.lowerBound, nanoseconds: 0)
    static let latest = Instant(unchecked: representableSeconds.upperBound, nanoseconds: nanosecondsPerSecond - 1)

    /// Since 1970, rounded toward the past.
    let seconds: Int
    /// Since ``seconds``, never negative.
    let nanoseconds: Int
    /// It is later than that, by less than a nanosecond.
    let hasFurtherDigits: Bool

    /// Returns nil outside of the years 0001 to 9999.
    init?(seconds: Int, nanoseconds: Int = 0, hasFurtherDigits: Bool = false) {
        guard Self.representableSeconds.contains(seconds) else { return nil }
        self.init(unchecked: seconds, nanoseconds: nanoseconds, hasFurtherDigits: hasFurtherDigits)
    }

    private init(unchecked seconds: Int, nanoseconds: Int, hasFurtherDigits: Bool = false) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
        self.hasFurtherDigits = hasFurtherDigits
    }

    /// The nanoseconds of one unit of a fraction with so many digits.
    static func unit(digits: Int) -> Int {
        (digits..<9).reduce(1) { unit, _ in unit * 10 }
    }

    /// The least number that means milliseconds: as seconds it would be after the year 9999.
    private static let leastMilliseconds: UInt64 = 1_000_000_000_000

    /// Reads seconds since 1970, or milliseconds from a number of 13 digits or more.
    init?(unixTime number: NumberText) {
        let whole = number.wholeMagnitude ?? .max
        self.init(secondsSince1970: whole < Self.leastMilliseconds ? number : number.scaled(by: -3))
    }

    /// Reads seconds since 1970 from a number; fractions of a nanosecond are dropped toward the past.
    init?(secondsSince1970 number: NumberText) {
        guard number.exponent == 0 else {
            var arena = ByteArena()
            guard let text = DecimalText.normalise(number, arena: &arena), let plain = NumberText(text) else {
                return nil
            }
            self.init(secondsSince1970: plain)
            return
        }
        guard let whole = number.wholePart else { return nil }
        guard !number.fraction.isEmpty else {
            self.init(seconds: whole)
            return
        }
        var cursor = TextCursor(number.fraction)
        var nanoseconds = cursor.nanoseconds() ?? 0
        guard number.isNegative else {
            self.init(seconds: whole, nanoseconds: nanoseconds, hasFurtherDigits: cursor.hasDroppedDigits)
            return
        }
        if cursor.hasDroppedDigits { nanoseconds += 1 }
        // The instant is before the whole second, so it counts from the second before that.
        self.init(
            seconds: nanoseconds == 0 ? whole : whole - 1,
            nanoseconds: nanoseconds == 0 ? 0 : Self.nanosecondsPerSecond - nanoseconds,
            hasFurtherDigits: cursor.hasDroppedDigits)
    }

    /// Seconds since 2001, as Core Data stores dates.
    var secondsSinceCoreDataReference: Double {
        Double(seconds - Self.coreDataReference) + Double(nanoseconds) / Double(Self.nanosecondsPerSecond)
    }

    /// Reverses ``secondsSinceCoreDataReference``, for times in milliseconds, microseconds or nanoseconds.
    init?(secondsSinceCoreDataReference stored: Double) {
        let whole = stored.rounded(.down)
        guard let seconds = Int(exactly: whole), abs(seconds) < Self.representableSeconds.upperBound else { return nil }
        var found: Instant?
        for unit in [1_000_000, 1_000, 1] {
            let units = Int(((stored - whole) * Double(Self.nanosecondsPerSecond / unit)).rounded())
            let nanoseconds = units * unit
            found = Instant(
                seconds: seconds + Self.coreDataReference + nanoseconds / Self.nanosecondsPerSecond,
                nanoseconds: nanoseconds % Self.nanosecondsPerSecond)
            if found?.secondsSinceCoreDataReference == stored { break }
        }
        guard let found else { return nil }
        self = found
    }

    static func < (left: Instant, right: Instant) -> Bool {
        (left.seconds, left.nanoseconds) < (right.seconds, right.nanoseconds)
    }
}

/// An exact decimal in its stored form: an optional minus, digits, and optionally a point and digits.
///
/// No exponent, no plus, no superfluous leading zeros, no minus before zero. Zeros at the end of the fraction are
/// retained. Compares by value: 1.5 equals 1.50. Valid while the bytes are.
package struct DecimalText: Comparable {
    /// Limit on the digits of an expanded exponent: more than any intended number has, few enough to store.
    static let maximumExpandedDigits = 1000

    let bytes: UnsafeBufferPointer<UInt8>
    private let isNegative: Bool
    private let integer: UnsafeBufferPointer<UInt8>
    private let fraction: UnsafeBufferPointer<UInt8>

    /// - Precondition: the text has the form above.
    init(normal bytes: UnsafeBufferPointer<UInt8>) {
        self.bytes = bytes
        isNegative = bytes.first == UInt8(ascii: "-")
        let digits = bytes.dropFirst(isNegative ? 1 : 0)
        let point = digits.firstIndex(of: UInt8(ascii: ".")) ?? digits.endIndex
        integer = UnsafeBufferPointer(rebasing: digits[..<point])
        fraction = UnsafeBufferPointer(rebasing: digits[point...].dropFirst())
    }

    /// Whether a JSON number is in normal form: it has no exponent and is surely not a negative zero.
    static func isNormal(jsonNumber text: UnsafeBufferPointer<UInt8>) -> Bool {
        if text[0] == UInt8(ascii: "-"), text[1] == UInt8(ascii: "0") { return false }
        for byte in text where byte | 0x20 == UInt8(ascii: "e") { return false }
        return true
    }

    /// Returns the number in normal form; nil when its exponent needs more than ``maximumExpandedDigits`` digits.
    static func normalise(_ number: NumberText, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8>? {
        let count = number.digitCount
        let firstNonzero = (0..<count).first { number.digit($0) != 0 }
        let isZero = firstNonzero == nil
        let point = number.integer.count + number.exponent  // counted in digits from the front
        // A zero before the point is written once.
        let integerStart = min(max(point, 0), firstNonzero ?? max(point, 0))
        let integerCount = max(point, 0) - integerStart
        let fractionCount = max(count - point, 0)
        if number.exponent != 0, integerCount + fractionCount > maximumExpandedDigits { return nil }

        let isNegative = number.isNegative && !isZero
        let pointCount = fractionCount > 0 ? 1 : 0
        let space = arena.allocate((isNegative ? 1 : 0) + max(integerCount, 1) + pointCount + fractionCount)
        var end = 0
        func append(_ byte: UInt8) {
            space[end] = byte
            end += 1
        }
        func appendDigits(_ range: Range<Int>) {
            for index in range {
                append(UInt8(ascii: "0") + (index >= 0 && index < count ? number.digit(index) : 0))
            }
        }
        if isNegative { append(UInt8(ascii: "-")) }
        if integerCount == 0 { append(UInt8(ascii: "0")) }
        appendDigits(integerStart..<integerStart + integerCount)
        if pointCount > 0 { append(UInt8(ascii: ".")) }
        appendDigits(point..<point + fractionCount)
        return UnsafeBufferPointer(space)
    }

    package static func == (left: DecimalText, right: DecimalText) -> Bool { left.ordered(against: right) == 0 }
    package static func < (left: DecimalText, right: DecimalText) -> Bool { left.ordered(against: right) < 0 }

    /// Returns a negative number when this one is less, a positive one when it is greater.
    private func ordered(against other: DecimalText) -> Int {
        guard isNegative == other.isNegative else { return isNegative ? -1 : 1 }
        let byMagnitude = magnitudeOrdered(against: other)
        return isNegative ? -byMagnitude : byMagnitude
    }

    private func magnitudeOrdered(against other: DecimalText) -> Int {
        guard integer.count == other.integer.count else { return integer.count - other.integer.count }
        for index in 0..<integer.count where integer[index] != other.integer[index] {
            return Int(integer[index]) - Int(other.integer[index])
        }
        for index in 0..<max(fraction.count, other.fraction.count) {
            let own = index < fraction.count ? fraction[index] : UInt8(ascii: "0")
            let others = index < other.fraction.count ? other.fraction[index] : UInt8(ascii: "0")
            guard own == others else { return Int(own) - Int(others) }
        }
        return 0
    }
}

/// The constraints of an attribute, converted to its type.
struct ValueLimits: Sendable {
    enum Bounds: Sendable {
        case none
        case integer(ClosedRange<Int64>)
        case real(ClosedRange<Double>)
        case decimal(minimum: OwnedCell?, maximum: OwnedCell?)
        /// Checked before the date is stored, because storing may round it.
        case date(ClosedRange<Instant>)
    }

    /// Any limit is set.
    var isLimiting = false
    var bounds = Bounds.none
    /// Limit in Unicode scalars on a text; nil without one.
    var lengths: ClosedRange<Int>?
    var pattern: RegularExpression?
    /// The allowed values; empty without a limit.
    var allowed: [OwnedCell] = []
    /// Texts are decimals: equal when their values are.
    var comparesDecimals = false

    /// The limit that a cell breaks.
    enum Breach: Equatable {
        case bounds
        case length
        /// The pattern does not match, or the match was not tried.
        case pattern(RegularExpression.Verdict)
        case notListed
    }

    /// Instructions of a pattern that are free, because the text's own bytes pay for them.
    private static let freeInstructions = 64

    func breach(by cell: Cell, budget: inout WorkBudget) -> Breach? {
        if !isWithinBounds(cell) { return .bounds }
        if cell.kind == .text {
            if let lengths, !lengths.contains(Self.scalarCount(cell.bytes)) { return .length }
            if let pattern {
                let verdict = pattern.verdict(
                    on: cell.bytes, wholeText: false, freeInstructions: Self.freeInstructions, budget: &budget)
                guard verdict == .matches else { return .pattern(verdict) }
            }
        }
        let isAllowed =
            allowed.isEmpty || allowed.contains { Cell.order(cell, $0.cell, isDecimal: comparesDecimals) == 0 }
        return isAllowed ? nil : .notListed
    }

    private func isWithinBounds(_ cell: Cell) -> Bool {
        switch bounds {
        case .none, .date: return true
        case .integer(let range): return range.contains(cell.integer)
        case .real(let range): return range.contains(cell.real)
        case .decimal(let minimum, let maximum):
            let value = DecimalText(normal: cell.bytes)
            if let minimum, value < DecimalText(normal: minimum.cell.bytes) { return false }
            if let maximum, value > DecimalText(normal: maximum.cell.bytes) { return false }
            return true
        }
    }

    /// Every byte of UTF-8 that does not continue a sequence begins a scalar.
    static func scalarCount(_ text: UnsafeBufferPointer<UInt8>) -> Int {
        var count = 0
        for byte in text where byte & 0xC0 != 0x80 { count += 1 }
        return count
    }
}
