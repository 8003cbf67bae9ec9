import BrokerModel
import Foundation
import Testing
import TestSupport

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
        ] {
            #expect(try stored("\"\(text)\"") == .text(expected), "\(text)")
        }
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
        ] {
            #expect(try stored("\"\(text)\"") == .inconvertible, "\(text)")
        }
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
        ] {
            #expect(try stored(json) == .text(expected), "\(json)")
        }
        for json in [
            "-62135596801", "-62135596800.1", "253402300800", "1324520691000", "1e300", "99999999999999999999",
        ] {
            #expect(try stored(json) == .inconvertible, "\(json)")
        }
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
