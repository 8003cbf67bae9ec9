import Testing

@testable import BrokerCoordinator

/// How many searches go on at a time, by how long they took.
@Suite(.timeLimit(.minutes(5))) struct ScanConcurrencyTests {
    private let second: Int64 = 1_000_000

    @Test func `of unknown scans one runs at a time`() {
        var pace = ScanConcurrency()
        #expect(pace.width(atMost: 4) == 1)
        pace.note(10, at: 5 * second)
        #expect(pace.width(atMost: 4) == 1, "one alone says little")
    }

    @Test func `when the first scans were cheap, several run at a time`() {
        var pace = ScanConcurrency()
        for _ in 1..<ScanConcurrency.firstScans {
            pace.note(1_000, at: 0)
            #expect(pace.width(atMost: 4) == 1)
        }
        pace.note(100, at: 0)
        #expect(pace.width(atMost: 4) == 4 && pace.width(atMost: 32) == 20)
        pace.note(400_000, at: 0)
        for _ in 0..<100 { pace.note(10, at: 0) }
        #expect(pace.width(atMost: 32) == 1)
    }

    @Test func `the slowest recent scan counts, and is forgotten gradually`() {
        var pace = ScanConcurrency()
        for time in 0...60 { pace.note(1_000, at: Int64(time) * second) }
        #expect(pace.width(atMost: 4) == 4)
        pace.note(6_000, at: 61 * second)
        #expect(pace.width(atMost: 4) == 3)
        pace.note(400_000, at: 62 * second)
        for time in 63..<72 { pace.note(10, at: Int64(time) * second) }
        #expect(pace.width(atMost: 4) == 1)
        for time in 72..<110 { pace.note(10, at: Int64(time) * second) }
        #expect(pace.width(atMost: 4) == 1, "a sixteenth of it is still much")
        for time in 110..<140 { pace.note(10, at: Int64(time) * second) }
        #expect(pace.width(atMost: 4) == 4)
    }

    @Test func `a flood of cheap searches does not make an expensive one forgotten sooner`() {
        var pace = ScanConcurrency()
        pace.note(400_000, at: 0)
        for number in 1...100_000 { pace.note(10, at: Int64(number) * 100) }
        #expect(pace.width(atMost: 4) == 1)
    }

    @Test(arguments: [Int64.max, 0, 1]) func `any measured time gives a permitted concurrency`(microseconds: Int64) {
        var pace = ScanConcurrency()
        pace.note(microseconds, at: 0)
        pace.note(0, at: Int64.max / 2)
        #expect((1...4).contains(pace.width(atMost: 4)))
    }
}
