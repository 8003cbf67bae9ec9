import BrokerModel
import Foundation
import Testing
import TestSupport

@testable import BrokerStaging

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
            #expect(try DateFormat(pattern: pattern, zone: .utc).steps != nil, "\(pattern)")
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
            try #require(format.steps != nil, "\(pattern)")
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
