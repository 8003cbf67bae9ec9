import Synchronization
import Testing

@testable import BrokerCoordinator

@Suite(.timeLimit(.minutes(5))) struct CompletionBarrierTests {
    private final class Log: Sendable {
        let notified = Mutex<[Int]>([])
        func waiter(_ ticket: Int) -> CompletionBarrier.Waiter { { self.notified.withLock { $0.append(ticket) } } }
    }

    @Test func `a waiter is called when every job before its ticket has ended, and not for later ones`() {
        var ends = CompletionBarrier()
        let log = Log()
        // Opened out of order.
        for ticket in [3, 1, 7, 4] { ends.began(ticket, from: ticket % 2) }
        let waits = [1, 5, 2, 9].map { ends.wait(before: $0, log.waiter($0)) }
        #expect(waits == [false, true, true, true])
        for (ended, notified) in [(1, [2]), (3, [2]), (4, [2, 5]), (7, [2, 5, 9])] {
            ends.ended(ended, from: ended % 2)
            for waiter in ends.takeReady() { waiter() }
            #expect(log.notified.withLock { $0 } == notified)
        }
        let waitsLate = ends.wait(before: 99, log.waiter(99))
        #expect(!waitsLate)
    }

    @Test func `a waiter for the jobs of one source is called when those have ended, whatever others still do`() {
        var ends = CompletionBarrier()
        let log = Log()
        for (ticket, source) in [(1, 10), (2, 20), (3, 10), (4, 20), (5, 20)] { ends.began(ticket, from: source) }
        let waits = [(6, 10), (3, 20), (5, 20), (2, 20), (9, 30)].map { ticket, source in
            ends.wait(before: ticket, from: source, log.waiter(ticket))
        }
        #expect(waits == [true, true, true, false, false])
        for (ended, source, notified) in [(1, 10, []), (2, 20, [3]), (3, 10, [3, 6]), (4, 20, [3, 6, 5])] {
            ends.ended(ended, from: source)
            for waiter in ends.takeReady() { waiter() }
            #expect(log.notified.withLock { $0 } == notified)
        }
    }
}
