/// A date pattern of UTS 35, compiled once.
///
/// A list of fixed steps reads the common fields. Foundation, which is some hundred times slower, reads the others
/// (eras, weeks, days of the year, names of zones …).
///
/// Numbers may have fewer digits than their field has letters (`dd` reads `5`), except for `yyyy` and for adjacent
/// fields, as in `yyyyMMdd`. Names are English, short or long, in any case. A two-digit year means 1950 to 2049, as in
/// Foundation. A day of the week is read, but not compared with the date. White space in the pattern matches one or
/// more spaces.
struct DateFormat: Sendable {
    /// A format for numbers, not a pattern, as in MagicalRecord's constant of that name.
    static let unixTime = "UnixTime"

    enum Step: Equatable, Sendable {
        case year(digits: Int, upTo: Int)
        case twoDigitYear
        case month(digits: Int, upTo: Int)
        case monthName
        case day(digits: Int, upTo: Int)
        case weekdayName
        /// 0 to 23.
        case hour(digits: Int, upTo: Int)
        /// 1 to 24.
        case hourFromOne(digits: Int, upTo: Int)
        /// 1 to 12.
        case halfDayHour(digits: Int, upTo: Int)
        /// 0 to 11.
        case halfDayHourFromZero(digits: Int, upTo: Int)
        case halfDay
        case minute(digits: Int, upTo: Int)
        case second(digits: Int, upTo: Int)
        case fraction(upTo: Int)
        case zone
        case spaces
        case literal(UInt8)
    }

    /// A pattern that cannot be read.
    struct Fault: Error, Equatable {
        /// The fault and the remedy, as the end of a sentence.
        let message: String
    }

    /// Nil when only Foundation can read the pattern.
    let steps: [Step]?
    /// Nil when the steps suffice.
    private let foundation: FoundationDateFormat?
    private let zone: LocalZone

    /// - Parameter zone: the zone of dates without one.
    init(pattern: String, zone: LocalZone) throws(Fault) {
        let tokens = try DatePatternToken.tokens(of: pattern)
        self.zone = zone
        steps = Self.compile(tokens)
        // The steps read offsets and UTC only; Foundation reads names of zones.
        let namesZones = tokens.contains { $0.letter == UInt8(ascii: "z") }
        foundation = steps == nil || namesZones ? FoundationDateFormat(pattern: pattern, zone: zone) : nil
    }

    /// Returns nil when the text does not match the pattern, or names a day or time that does not exist.
    func instant(_ text: UnsafeBufferPointer<UInt8>) -> Instant? {
        if let steps, let instant = Self.instant(text, steps: steps, zone: zone) { return instant }
        return foundation?.instant(text)
    }

    /// Returns the day that the text names, in whatever zone it is.
    ///
    /// - Precondition: the steps suffice: see ``readsDays``.
    func day(_ text: UnsafeBufferPointer<UInt8>) -> CivilDate? {
        guard let steps, var fields = Self.fields(text, steps: steps) else { return nil }
        fields.zoneOffset = nil
        guard fields.instant(in: .utc) != nil else { return nil }
        return CivilDate(year: fields.year, month: fields.month, day: fields.day)
    }

    /// The pattern names a year, a month and a day, and steps read it.
    var readsDays: Bool {
        guard let steps else { return false }
        let hasYear = steps.contains { if case .year = $0 { true } else { $0 == .twoDigitYear } }
        let hasMonth = steps.contains { if case .month = $0 { true } else { $0 == .monthName } }
        let hasDay = steps.contains { if case .day = $0 { true } else { false } }
        return hasYear && hasMonth && hasDay
    }
}
