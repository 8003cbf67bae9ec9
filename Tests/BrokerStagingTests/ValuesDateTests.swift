import BrokerModel
import Foundation
import TestSupport
import Testing

@testable import BrokerStaging

@Suite(.timeLimit(.minutes(5))) struct ValuesDateTests {
    private func stored(
        _ json: String, formats: [String] = [], zone: String? = nil, storage: DateStorage = .iso8601
    ) throws -> StoredValue {
        try ValueConverter.compiled(
            Attribute(name: "at", type: .date, dateFormats: formats, timeZone: zone, dateStorage: storage)
        ).stored(json)
    }

    @Test func `ISO 8601 is read with its variations`() throws {
        for (text, expected) in [
            ("2011-12-22T02:24:51Z", "2011-12-22T02:24:51.000Z"), ("2011-12-22t02:24:51z", "2011-12-22T02:24:51.000Z"),
            ("2011-12-22 02:24:51", "2011-12-22T02:24:51.000Z"), ("2011-12-22T02:24", "2011-12-22T02:24:00.000Z"),
            ("2011-12-22T02:24:51+07:00", "2011-12-21T19:24:51.000Z"),
            ("2011-12-22T02:24:51+0700", "2011-12-21T19:24:51.000Z"),
            ("2011-12-22T02:24:51+07", "2011-12-21T19:24:51.000Z"),
            ("2011-12-22 02:24:51 -0730", "2011-12-22T09:54:51.000Z"),
            ("2011-12-22T02:24:51.1Z", "2011-12-22T02:24:51.100Z"),
            ("2011-12-22T02:24:51,1239999999999999Z", "2011-12-22T02:24:51.123Z"),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"), ("2011-12-22", "2011-12-22T00:00:00.000Z"),
            ("2012-02-29", "2012-02-29T00:00:00.000Z"), ("2000-02-29", "2000-02-29T00:00:00.000Z"),
            ("2011-12-31T24:00:00", "2012-01-01T00:00:00.000Z"), ("0001-01-01", "0001-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] { #expect(try stored("\"\(text)\"") == .text(expected), "\(text)") }
    }

    @Test(arguments: [
        ("1388349427", "2013-12-29T20:37:07.000Z"), ("1388349427543", "2013-12-29T20:37:07.543Z"),
        ("1388349427543.9", "2013-12-29T20:37:07.543Z"), ("1.388349427543e12", "2013-12-29T20:37:07.543Z"),
        ("1388349427.5", "2013-12-29T20:37:07.500Z"), (#""1388349427543""#, "2013-12-29T20:37:07.543Z"),
        (#""1388349427""#, "2013-12-29T20:37:07.000Z"), ("0", "1970-01-01T00:00:00.000Z"),
        ("253402300799", "9999-12-31T23:59:59.000Z"), ("1000000000000", "2001-09-09T01:46:40.000Z"),
        ("999999999999", nil), ("-1000000000001", "1938-04-24T22:13:19.999Z"),
        ("-1000000000000.5", "1938-04-24T22:13:19.999Z"), (#""2011-12-22T02:24:51Z""#, "2011-12-22T02:24:51.000Z"),
        ("1388349427543000", nil), (#""soon""#, nil), ("9223372036854775807", nil), ("-9223372036854775808", nil),
    ])
    func `UnixTime is seconds, and with 13 digits or more milliseconds`(json: String, expected: String?) throws {
        #expect(try stored(json, formats: ["UnixTime"]) == expected.map { .text($0) } ?? .inconvertible)
    }

    @Test func `a text in the stored form, or nearly in it, is stored as it is with a format`() throws {
        var generator = SeededGenerator(for: "dates near the stored form")
        // A format keeps the text from being taken as it is; no text here has this one.
        let (plain, read) = try (
            ValueConverter.compiled(Attribute(name: "at", type: .date)),
            ValueConverter.compiled(Attribute(name: "at", type: .date, dateFormats: ["yyyy MMM"]))
        )
        var stored = 0
        for _ in 0..<20_000 {
            var text = Array(Self.fields.map { $0.randomElement(using: &generator)! }.joined().utf8)
            if Bool.random(using: &generator) {
                let byte = "0:-.TZtz+/;@".utf8.randomElement(using: &generator)!
                text[Int.random(in: 0..<text.count, using: &generator)] = byte
            }
            let json = "\"\(String(decoding: text, as: UTF8.self))\""
            let expected = try read.stored(json)
            if case .text = expected { stored += 1 }
            #expect(try plain.stored(json) == expected, "\(json)")
        }
        #expect(stored > 500, "\(stored)")
    }

    private static let fields = [
        ["0000", "0001", "1900", "2000", "2011", "2012", "9999"], ["-"], ["00", "01", "02", "04", "12", "13", "20"],
        ["-"],
        ["00", "01", "28", "29", "30", "31", "32", "40"], ["T"], ["00", "19", "23", "24", "30"], [":"],
        ["00", "59", "60"], [":"],
        ["00", "59", "60"], ["Z", ".000Z", ".999Z", ".123", "+00:00"],
    ]

    @Test func `a date in the stored form is not copied`() throws {
        let converter = try ValueConverter.compiled(Attribute(name: "at", type: .date))
        #expect(try converter.storesInPlace("\"2011-12-22T02:24:51.123Z\""))
    }

    @Test func `milliseconds are rejected without the format UnixTime`() throws {
        #expect(try stored("1388349427543") == .inconvertible)
        #expect(try stored("\"1388349427\"") == .inconvertible)
    }

    @Test func `values that are no date are rejected`() throws {
        for text in [
            "", "tomorrow", "2011", "2011-12", "20111222", "2011-13-01", "2011-00-01", "2011-02-29", "1900-02-29",
            "2011-04-31", "2011-12-00", "2011-12-32", "0000-01-01", "2011-12-22T", "2011-12-22T25:00",
            "2011-12-22T24:01",
            "2011-12-22T24:00:00.1", "2011-12-22T02:60", "2011-12-22T02:24:60Z", "2011-12-22T02:24:51.Z",
            "2011-12-22T02:24:51 ", " 2011-12-22", "2011-12-22Z", "2011-12-22T02:24:51+7", "2011-12-22T02:24:51+07:",
            "2011-12-22T02:24:51+24:00", "2011-12-22T02:24:51+07:60", "2011-12-22T02:24:51ZZ", "2011-12-22  02:24:51",
            "11-12-22", "2011/12/22", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "1324520691",
            "+2011-12-22", "２011-12-22",
        ] { #expect(try stored("\"\(text)\"") == .inconvertible, "\(text)") }
        for json in ["true", "false", "[]", "{}"] { #expect(try stored(json) == .inconvertible) }
    }

    @Test func `numbers are seconds since 1970`() throws {
        for (json, expected) in [
            ("0", "1970-01-01T00:00:00.000Z"), ("1324520691", "2011-12-22T02:24:51.000Z"),
            ("1324520691.1239", "2011-12-22T02:24:51.123Z"), ("1.324520691e9", "2011-12-22T02:24:51.000Z"),
            ("-0.5", "1969-12-31T23:59:59.500Z"), ("-1", "1969-12-31T23:59:59.000Z"),
            ("-1.0", "1969-12-31T23:59:59.000Z"), ("-0.0000000001", "1969-12-31T23:59:59.999Z"),
            ("-0.9999999999", "1969-12-31T23:59:59.000Z"),
            ("-62135596800", "0001-01-01T00:00:00.000Z"), ("253402300799.9", "9999-12-31T23:59:59.900Z"),
        ] { #expect(try stored(json) == .text(expected), "\(json)") }
        for json in [
            "-62135596801", "-62135596800.1", "253402300800", "1324520691000", "1e300", "99999999999999999999",
        ] { #expect(try stored(json) == .inconvertible, "\(json)") }
    }

    @Test func `dates are stored as the attribute says`() throws {
        #expect(try stored("\"2011-12-22T02:24:51.9Z\"", storage: .unix) == .integer(1_324_520_691))
        #expect(try stored("-0.5", storage: .unix) == .integer(-1))
        #expect(try stored("\"2001-01-01\"", storage: .coreData) == .real(0))
        #expect(try stored("\"2001-01-01T00:00:01.25Z\"", storage: .coreData) == .real(1.25))
        #expect(try stored("978307199.5", storage: .coreData) == .real(-0.5))
    }

    @Test func `a date without a zone is in the attribute's`() throws {
        #expect(try stored("\"2011-12-22\"", zone: "+05:30") == .text("2011-12-21T18:30:00.000Z"))
        #expect(try stored("\"2011-12-22T01:00\"", zone: "-0100") == .text("2011-12-22T02:00:00.000Z"))
        #expect(try stored("\"2011-12-22T01:00Z\"", zone: "-0100") == .text("2011-12-22T01:00:00.000Z"))
        #expect(try stored("\"2011-12-22\"", zone: "Europe/Berlin") == .text("2011-12-21T23:00:00.000Z"))
        #expect(try stored("\"2011-07-22\"", zone: "Europe/Berlin") == .text("2011-07-21T22:00:00.000Z"))
        #expect(try stored("\"2011-07-22\"", zone: "UTC") == .text("2011-07-22T00:00:00.000Z"))
    }

    @Test func `a local time that occurs twice is the first, one that never occurs counts by the old offset`() throws {
        let zone = "America/New_York"
        #expect(try stored("\"2011-11-06T01:30\"", zone: zone) == .text("2011-11-06T05:30:00.000Z"))
        #expect(try stored("\"2011-11-06T02:30\"", zone: zone) == .text("2011-11-06T07:30:00.000Z"))
        #expect(try stored("\"2011-03-13T01:59\"", zone: zone) == .text("2011-03-13T06:59:00.000Z"))
        #expect(try stored("\"2011-03-13T02:30\"", zone: zone) == .text("2011-03-13T07:30:00.000Z"))
        #expect(try stored("\"2011-03-13T03:00\"", zone: zone) == .text("2011-03-13T07:00:00.000Z"))
    }

    @Test func `formats come first, in order, then ISO 8601`() throws {
        let formats = ["yyyy-dd-MM", "dd.MM.yyyy"]
        #expect(try stored("\"2011-02-01\"", formats: formats) == .text("2011-01-02T00:00:00.000Z"))
        #expect(try stored("\"01.02.2011\"", formats: formats) == .text("2011-02-01T00:00:00.000Z"))
        #expect(try stored("\"2011-02-01T00:00Z\"", formats: formats) == .text("2011-02-01T00:00:00.000Z"))
        #expect(try stored("\"Feb 1\"", formats: formats) == .inconvertible)
        #expect(try stored("1", formats: formats) == .text("1970-01-01T00:00:01.000Z"))
    }

    @Test func `days of the calendar round trip`() {
        var previous = CivilDate(daysSince1970: -719_163)
        #expect(previous.daysSince1970 == -719_163)
        for days in -719_162...2_932_896 {
            let date = CivilDate(daysSince1970: days)
            let follows =
                date.day == 1
                ? previous.day == CivilDate.days(inMonth: previous.month, of: previous.year)
                    && (date.month == previous.month + 1 || (date.month == 1 && date.year == previous.year + 1))
                : date.day == previous.day + 1 && date.month == previous.month && date.year == previous.year
            guard follows, date.daysSince1970 == days else {
                Issue.record("\(date) after \(previous)")
                return
            }
            previous = date
        }
        #expect(previous == CivilDate(year: 9999, month: 12, day: 31))
    }

    @Test func `random instants are written as Foundation writes them, and read back`() throws {
        var generator = SeededGenerator(for: "instants")
        let formatter = ISO8601DateFormatter()
        let converter = try ValueConverter.compiled(Attribute(name: "at", type: .date))
        for _ in 0..<5000 {
            let seconds = Int.random(in: -12_000_000_000...Instant.representableSeconds.upperBound, using: &generator)
            let millisecond = Int.random(in: 0...999, using: &generator)
            let whole = formatter.string(from: Date(timeIntervalSince1970: Double(seconds)))
            let expected = "\(whole.dropLast()).\(String(1000 + millisecond).dropFirst())Z"
            let instant = try #require(Instant(seconds: seconds, nanoseconds: millisecond * 1_000_000))
            let written = withBytes(of: "") { _, arena in
                String(decoding: ISO8601.write(instant, digits: 3, arena: &arena), as: UTF8.self)
            }
            #expect(written == expected)
            #expect(try converter.stored("\"\(expected)\"") == .text(expected))
        }
    }
}

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

@Suite(.timeLimit(.minutes(5))) struct ValuesDateFormatTests {
    private func seconds(_ text: String, _ pattern: String, zone: String = "UTC") throws -> Double? {
        let format = try DateFormat(pattern: pattern, zone: try #require(LocalZone(zone)))
        return withBytes(of: text) { bytes, _ in format.instant(bytes) }
            .map { Double($0.seconds) + Double($0.nanoseconds) / 1e9 }
    }

    @Test func `patterns of the field are read without Foundation`() throws {
        for (pattern, text, expected) in [
            ("EEE MMM dd HH:mm:ss Z yyyy", "Sun Aug 31 00:29:15 +0000 2014", 1_409_444_955),
            ("EEE MMM dd HH:mm:ss Z yyyy", "sun AUG  3 00:29:15 -0100 2014", 1_407_029_355),
            ("yyyy/MM/dd HH:mm:ss Z", "2014/08/31 00:29:15 +0000", 1_409_444_955),
            ("yyyy/MM/dd HH:mm:ss Z", "2014/8/31 2:29:15 +02:00", 1_409_444_955),
            ("yyyyMMddHHmmss", "20140831002915", 1_409_444_955),
            ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2014-08-31T00:29:15.250Z", 1_409_444_955.25),
            ("yyyyMMddHHmmssSSS", "20140831002915250", 1_409_444_955.25),
            ("EEEE, d MMMM y 'at' h:mm a", "Sunday, 31 August 2014 at 12:29 am", 1_409_444_940),
            ("d MMM yy K:mm a", "31 Aug 14 0:29 PM", 1_409_488_140), ("yy-MM-dd", "69-01-01", -31_536_000),
            ("dd/MM/yyyy kk:mm", "31/08/2014 24:29", 1_409_444_940),
            ("EEE, dd MMM yyyy HH:mm:ss zzz", "Sun, 31 Aug 2014 00:29:15 GMT", 1_409_444_955),
            ("yyyy", "2014", 1_388_534_400), ("yyyy-MM", "2014-08", 1_406_851_200),
            ("yyyy-MM-dd''HH", "2014-08-31'01", 1_409_446_800), ("yyyy年M月d日", "2014年8月31日", 1_409_443_200),
            ("x yyyy-MM-dd", "GMT+01:00 2014-08-31", 1_409_439_600),
        ] as [(String, String, Double)] {
            #expect(try DateFormat(pattern: pattern, zone: .utc).isCommon, "\(pattern)")
            #expect(try seconds(text, pattern) == expected, "\(pattern) \(text)")
        }
        #expect(try seconds("2014-08-31", "yyyy-MM-dd", zone: "+02:00") == 1_409_436_000)
    }

    @Test func `texts that do not match the pattern are rejected`() throws {
        for (pattern, text) in [
            ("yyyy/MM/dd", "2014/08/31 "), ("yyyy/MM/dd", "2014/02/30"), ("yyyy/MM/dd", "2014/13/01"),
            ("yyyy/MM/dd", "14/01/01"), ("yyyy/MM/dd", "2014-01-01"), ("yyyy/MM/dd", ""), ("yyyy/MM/dd", "2014/001/01"),
            ("yyyyMMdd", "2014831"), ("yyyyMMdd", "2014081"), ("yyyy HH", "2014 25"), ("yyyy hh a", "2014 13 am"),
            ("yyyy hh a", "2014 0 am"),
            ("yyyy hh a", "2014 1 xm"), ("yyyy kk", "2014 0"), ("yyyy KK a", "2014 12 am"), ("yyyy MMM", "2014 Foo"),
            ("yyyy EEE", "2014 Foo"), ("yyyy Z", "2014 +7"), ("yyyy mm", "2014 60"), ("yyyy ss", "2014 60"),
            ("yyyy SSS", "2014 "), ("yyyy 'x'", "2014 y"), ("yyyy Z", "2014 GMT+"), ("yyyy MM", "2014"),
        ] {
            #expect(try seconds(text, pattern) == nil, "\(pattern) \(text)")
        }
    }

    @Test func `Foundation reads other patterns`() throws {
        for (pattern, text, expected) in [
            ("yyyy-DDD", "2014-243", 1_409_443_200), ("G yyyy-MM-dd", "AD 2014-08-31", 1_409_443_200),
            ("YYYY-'W'ww-e", "2014-W36-1", 1_409_443_200),
            ("yyyy-MM-dd HH:mm zzz", "2014-08-31 00:29 PST", 1_409_473_740),
            ("G yyyy-MM-dd HH:mm:ss.SSS", "AD 2014-08-31 00:29:15.123", 1_409_444_955.123),
            ("G yyyy-MM-dd", "AD 1500-03-01", -14_826_672_000),
        ] as [(String, String, Double)] {
            #expect(try seconds(text, pattern) == expected, "\(pattern) \(text)")
        }
        #expect(try seconds("AD 2014-08-31", "G yyyy-MM-dd", zone: "Europe/Berlin") == 1_409_436_000)
        for (pattern, text) in [
            ("yyyy-DDD", "2014-367"), ("G yyyy-MM-dd", "AD 2014-02-30"), ("G yyyy-MM-dd", "AD 2014-08-31 trailing"),
            ("yyyy-DDD", ""),
        ] {
            #expect(try seconds(text, pattern) == nil, "\(pattern) \(text)")
        }
    }

    @Test func `patterns that cannot be read are rejected`() {
        for pattern in ["", "'yyyy'", "yyyy 'T", "yyyy-MM-ddTHH", "jjmm", "yyyy C", "yyyy P"] {
            #expect(throws: DateFormat.Fault.self, "\(pattern)") { _ = try DateFormat(pattern: pattern, zone: .utc) }
        }
    }

    @Test func `random dates are read as Foundation's formatter writes them`() throws {
        var generator = SeededGenerator(for: "date formats")
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        for pattern in [
            "EEE MMM dd HH:mm:ss Z yyyy", "yyyy/MM/dd HH:mm:ss Z", "EEEE d MMMM yyyy h:mm:ss a ZZZZZ",
            "yyyyMMddHHmmss X", "M/d/y k:m:s xxx", "dd-MMM-yyyy K:mm:ss a ZZZZ", "LLLL d yyyy HHmmss XX",
        ] {
            formatter.dateFormat = pattern
            let format = try DateFormat(pattern: pattern, zone: .utc)
            try #require(format.isCommon, "\(pattern)")
            for _ in 0..<300 {
                formatter.timeZone = TimeZone(secondsFromGMT: Int.random(in: -48...48, using: &generator) * 900)
                let seconds = Int.random(in: -12_000_000_000...250_000_000_000, using: &generator)
                let text = formatter.string(from: Date(timeIntervalSince1970: Double(seconds)))
                let instant = withBytes(of: text) { bytes, _ in format.instant(bytes) }
                #expect(instant == Instant(seconds: seconds), "\(pattern) \(text)")
            }
        }
    }
}
