import BrokerJSON
import BrokerModel

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
