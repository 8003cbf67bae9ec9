import BrokerModel
import Testing
import TestSupport

@testable import BrokerStaging

@Suite(.timeLimit(.minutes(5))) struct ValuesCalendarDateTests {
    private func converter(
        _ formats: [String] = [], _ constraints: ValueConstraints = ValueConstraints()
    ) throws -> ValueConverter {
        try ValueConverter.compiled(
            Attribute(name: "day", type: .calendarDate, dateFormats: formats, constraints: constraints))
    }

    @Test(arguments: ["1985-12-10", "2012-02-29", "0001-01-01", "9999-12-31"])
    func `a day is stored as it is written`(day: String) throws {
        #expect(try converter().stored("\"\(day)\"") == .text(day))
    }

    @Test(arguments: [
        #""1985-12-10T00:00:00Z""#, #""1985-12-10 ""#, #""1985-12""#, #""2011-02-29""#, #""0000-01-01""#,
        #""19851210""#,
        #""10/12/1985""#, #""""#, "0", "true", "[]",
    ])
    func `times, numbers and days that do not exist are rejected`(json: String) throws {
        #expect(try converter().stored(json) == .inconvertible)
    }

    @Test func `a refusal names a remedy`() throws {
        #expect(
            try converter().refusal(of: #""1985-12-10T00:00:00Z""#)
                == "\"1985-12-10T00:00:00Z\" is not a calendar date; attribute \"day\" is calendarDate (one is a day, like "
                + "2011-12-22; for texts with a time, give the attribute a \"format\", or the type date)")
    }

    @Test(arguments: [
        ("dd/MM/yyyy", "10/12/1985", "1985-12-10"), ("d MMM yy", "3 Feb 49", "2049-02-03"),
        ("yyyyMMdd", "19851210", "1985-12-10"), ("dd/MM/yyyy", "1985-12-10", "1985-12-10"),
        // The day of the text itself, not that of UTC.
        ("yyyy-MM-dd'T'HH:mm:ssX", "1985-12-10T00:30:00+02:00", "1985-12-10"),
        ("yyyy-MM-dd'T'HH:mm:ssX", "1985-12-10T23:30:00-08:00", "1985-12-10"),
        ("dd/MM/yyyy", "31/02/1985", nil), ("dd/MM/yyyy", "10/12/85", nil),
        ("yyyy-MM-dd'T'HH:mm:ssX", "1985-12-10T25:30:00Z", nil),
    ])
    func `formats are tried before ISO 8601`(format: String, text: String, expected: String?) throws {
        #expect(try converter([format]).stored("\"\(text)\"") == expected.map { .text($0) } ?? .inconvertible)
    }

    @Test(arguments: ["yyyy", "yyyy-MM", "MM-dd", "UnixTime", "YYYY-'W'ww-e", "HH:mm"])
    func `a format without a day is refused`(format: String) {
        #expect(throws: ModelError.self) { try converter([format]) }
    }

    @Test func `days have limits and listed values`() throws {
        let range = ValueConstraints(
            minimum: JSONFragment(#""1900-01-01""#), maximum: JSONFragment(#""01/01/2000""#))
        let limited = try converter(["dd/MM/yyyy"], range)
        for (text, isAllowed) in [
            ("1900-01-01", true), ("01/01/2000", true), ("1899-12-31", false), ("2000-01-02", false),
        ] {
            #expect(try (limited.stored("\"\(text)\"") == .notAllowed) == !isAllowed, "\(text)")
        }
        let listed = try converter(["dd/MM/yyyy"], ValueConstraints(allowed: [JSONFragment(#""10/12/1985""#)]))
        #expect(try listed.stored(#""1985-12-10""#) == .text("1985-12-10"))
        #expect(try listed.stored(#""1985-12-11""#) == .notAllowed)
    }
}
