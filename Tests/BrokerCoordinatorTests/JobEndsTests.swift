import Synchronization
import Testing

@testable import BrokerCoordinator

@Suite(.timeLimit(.minutes(5))) struct JobEndsTests {
    private final class Log: Sendable {
        let told = Mutex<[Int]>([])
        func waiter(_ place: Int) -> JobEnds.Waiter { { self.told.withLock { $0.append(place) } } }
    }

    @Test func `who waits is told when every job before its place has ended, and not of later ones`() {
        var ends = JobEnds()
        let log = Log()
        // Opened out of order.
        for place in [3, 1, 7, 4] { ends.began(place) }
        let waits = [1, 5, 2, 9].map { ends.wait(before: $0, log.waiter($0)) }
        #expect(waits == [false, true, true, true])
        for (ended, told) in [(1, [2]), (3, [2]), (4, [2, 5]), (7, [2, 5, 9])] {
            ends.ended(ended)
            for waiter in ends.takeReady() { waiter() }
            #expect(log.told.withLock { $0 } == told)
        }
        let waitsLate = ends.wait(before: 99, log.waiter(99))
        #expect(!waitsLate)
    }
}
