import BrokerModel
import BrokerStore
import Glibc
import Testing
import TestSupport

@testable import BrokerCoordinator

/// Rules for which steps precede others.
@Suite(.timeLimit(.minutes(5))) struct CompletionOrderTests {
    private let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#

    private func row(_ id: Int) -> String { "{\"Row\": {\"id\": \(id)}}" }

    @Test func `a job is not merged while its cancellation is being logged`() throws {
        let disk = GatedSystem()
        let test = try TestCoordinator(model) {
            $0.keepsJournal = true
            $0.journalSystem = disk
        }
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", wantsAcceptance: true)
        test.events.waitUntil("accepted a 1")
        test.waitUntil("a staged job") { test.coordinator.jobTable.withLock { $0.application.isReady(0) } }
        disk.close()
        let cancelled = Monitor<String?>(nil)
        test.coordinator.cancel("a") { result in
            cancelled.broadcast {
                $0 = "\(result)"
                return true
            }
        }
        disk.waitForWriter()
        test.coordinator.resume()
        // The writer either sees no work, or it has taken the job already: then the job ends as completed.
        #expect(!test.coordinator.jobTable.withLock { $0.hasWork })
        disk.open()
        #expect(cancelled.patiently("an answer to the cancel") { $0 } == "cancelled")
        #expect(test.events.ends(1).map(\.code) == ["cancelled"])
        test.submit(row(2), id: "b")
        #expect(test.events.ends(2).map(\.code) == ["cancelled", nil])
        #expect(try test.rows("SELECT id FROM Row") == ["2"])
    }

    @Test(arguments: [1, 3]) func `waiters for the ends of jobs are notified after the completions`(count: Int) throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        let order = Monitor<[String]>([])
        for number in 1...count {
            let json = Array(row(number).utf8)
            test.coordinator.admit(payloadBytes: json.count) { _ in
                .job(
                    TestCoordinator.job(json, id: "\(number)") { event in
                        guard case .ended(let end) = event else { return }
                        order.broadcast {
                            $0.append("ended \(end.id)")
                            return true
                        }
                    })
            } refuse: { _ in
            }
        }
        test.waitUntil(#""inFlight":\#(count)"#)
        let waits = test.coordinator.jobTable.withLock { jobTable in
            jobTable.ends.wait(before: .max) {
                order.broadcast {
                    $0.append("notified")
                    return true
                }
            }
        }
        #expect(waits)
        test.coordinator.resume()
        let events = order.patiently("all ends") { $0.count == count + 1 ? $0 : nil }
        #expect(events == (1...count).map { "ended \($0)" } + ["notified"])
    }

    @Test func `the payload of a job is released when the job is staged`() throws {
        let test = try TestCoordinator(model)
        // The job must not keep the coordinator, which is not to be stopped by its own thread.
        let events = test.events
        _ = test.coordinator.pause()
        final class Payload: Sendable {}
        weak var released: Payload?
        let json = Array(row(1).utf8)
        do {
            let payload = Payload()
            released = payload
            // More than the job itself takes by far.
            test.coordinator.admit(payloadBytes: 8 << 20, payload: { withExtendedLifetime(payload) { [] } }) { _ in
                withExtendedLifetime(payload) { .job(TestCoordinator.job(json, id: "a") { events.note($0) }) }
            } refuse: { _ in
                withExtendedLifetime(payload) {}
            }
        }
        // The job has not ended: the pause holds it.
        test.waitUntil("the payload's memory to be given back") { test.coordinator.memoryTotal < 1 << 20 }
        test.waitUntil("the payload to be released") { released == nil }
        #expect(test.coordinator.jobTable.withLock { $0.application.next != nil })
        #expect(test.events.all.isEmpty)
        test.coordinator.resume()
        #expect(test.events.ends(1).map(\.code) == [nil])
    }
}
