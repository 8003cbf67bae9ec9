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
