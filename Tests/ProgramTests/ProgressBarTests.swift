import Testing

@testable import BrokerCommand

@Suite(.timeLimit(.minutes(5))) struct ProgressBarTests {
    @Test func `a progress line is never wider than the terminal`() {
        for columns in 0...130 {
            for (share, records) in [(0.0, 0), (0.33, 1_200_000), (1, 123_456_789), (nil, 5_000)] as [(Double?, Int)] {
                let line = ProgressBar.line(
                    columns: columns, share: share, bytes: 7 << 30, records: records, perSecond: 600_000)
                #expect(line.count <= columns, "\(line)")
            }
        }
        func line(_ columns: Int) -> String {
            ProgressBar.line(columns: columns, share: 0.5, bytes: 12 << 20, records: 1_200_000, perSecond: 600_000)
        }
        #expect(
            line(120) == "[" + String(repeating: "#", count: 15) + String(repeating: ".", count: 15)
                + "] 50 %, 12 MiB read, 1200000 records committed, 600000 a second")
        #expect(line(77) == "[######.......] 50 %, 12 MiB read, 1200000 records committed, 600000 a second")
        #expect(line(37) == "[######.......] 50 %, 1200000 records")
        #expect(line(20) == "50 %, 1200000 records" || line(20) == "50 %")
        #expect(line(4) == "50 %")
    }

    @Test func `the time that is left is estimated from the time so far`() {
        #expect(ProgressBar.secondsLeft(after: 1.9, share: 0.5) == nil)
        #expect(ProgressBar.secondsLeft(after: 60, share: 0.009) == nil)
        #expect(ProgressBar.secondsLeft(after: 30, share: 0.25) == 90)
        #expect(ProgressBar.secondsLeft(after: 30, share: 1) == 0)
        #expect(
            [7, 99, 100, 5_940, 5_941, 11_100].map(ProgressBar.text(ofSeconds:)) == [
                "7 s", "99 s", "2 min", "99 min", "1 h 40 min", "3 h 05 min",
            ])
        let line = ProgressBar.line(
            columns: 70, share: 0.25, bytes: 1 << 20, records: 9, perSecond: 3, secondsLeft: 90)
        #expect(line == "[####...............] 25 %, 90 s left, 9 records committed, 3 a second")
    }
}
