import Testing

@testable import BrokerCoordinator

/// How many searches go on at a time, by how long they took.
@Suite(.timeLimit(.minutes(5))) struct ScanConcurrencyTests {
    private let second: Int64 = 1_000_000

    @Test func `of unknown scans one runs at a time`() {
        var pace = ScanConcurrency()
        #expect(pace.width == 1)
        pace.note(10, at: 5 * second)
        #expect(pace.width == 1, "one alone says little")
    }

    @Test func `the slowest recent scan counts, and is forgotten gradually`() {
        var pace = ScanConcurrency()
        for time in 0...60 { pace.note(1_000, at: Int64(time) * second) }
        #expect(pace.width == ScanConcurrency.widest)
        pace.note(6_000, at: 61 * second)
        #expect(pace.width == 3)
        pace.note(400_000, at: 62 * second)
        for time in 63..<72 { pace.note(10, at: Int64(time) * second) }
        #expect(pace.width == 1)
        for time in 72..<110 { pace.note(10, at: Int64(time) * second) }
        #expect(pace.width == 1, "a sixteenth of it is still much")
        for time in 110..<140 { pace.note(10, at: Int64(time) * second) }
        #expect(pace.width == ScanConcurrency.widest)
    }

    @Test func `a flood of cheap searches does not make an expensive one forgotten sooner`() {
        var pace = ScanConcurrency()
        pace.note(400_000, at: 0)
        for number in 1...100_000 { pace.note(10, at: Int64(number) * 100) }
        #expect(pace.width == 1)
    }

    @Test(arguments: [Int64.max, 0, 1]) func `any measured time gives a permitted concurrency`(microseconds: Int64) {
        var pace = ScanConcurrency()
        pace.note(microseconds, at: 0)
        pace.note(0, at: Int64.max / 2)
        #expect((1...ScanConcurrency.widest).contains(pace.width))
    }
}
