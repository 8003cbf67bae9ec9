import Testing

@testable import BrokerServer

@Suite(.timeLimit(.minutes(5))) struct LogRationTests {
    private let start = ContinuousClock.now

    @Test func `a user causes a burst of lines, then one a second, and the omitted ones are counted`() {
        var ration = LogRation(at: start)
        func lines(_ count: Int, after seconds: Double) -> Int {
            (0..<count).count { _ in ration.take(at: start + .seconds(seconds)) }
        }
        #expect(lines(200, after: 0) == LogRation.burst)
        let omitted = [ration.takeOmitted(), ration.takeOmitted()]
        #expect(omitted == [200 - LogRation.burst, 0])
        #expect(lines(10, after: 0.9) == 0)
        #expect(lines(10, after: 3) == 3)
        // A day of failures has as many lines as it has seconds.
        let day = (1...86_400).reduce(0) { sum, second in sum + lines(2, after: 3 + Double(second)) }
        #expect(day == 86_400)
    }

    @Test func `credit does not grow above the burst`() {
        var ration = LogRation(at: start)
        #expect(ration.isFull(at: start))
        let isTaken = ration.take(at: start)
        #expect(isTaken && !ration.isFull(at: start + .milliseconds(900)))
        #expect(ration.isFull(at: start + .seconds(3_600)))
        let later = start + .seconds(7_200)
        let taken = (0..<200).count { _ in ration.take(at: later) }
        #expect(taken == LogRation.burst)
        #expect(!ration.isFull(at: later + .seconds(3_600)), "omitted lines are not in a line yet")
    }
}
