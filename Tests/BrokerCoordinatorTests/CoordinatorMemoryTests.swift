import Glibc
import Testing
import TestSupport

@testable import BrokerCoordinator

/// The memory that one job may take, and the treatment of jobs without room.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorMemoryTests {
    private let model = """
        {"entities": {
          "Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}},
          "Other": {"identity": "id", "attributes": {"id": "integer64"}}}}
        """

    private func rows(_ count: Int, from first: Int = 0) -> String {
        "{\"Row\": [" + (first..<first + count).map { "{\"id\": \($0)}" }.joined(separator: ",") + "]}"
    }

    @Test func `a job that finds no room waits, and takes effect in its ticket`() throws {
        // Some 6,000 rows take half a MiB and more: only the first in order may have that.
        let test = try TestCoordinator(model) {
            $0.limits.memory = 300_000
            $0.limits.jobMemory = 64 << 20
        }
        let gate = Gate()
        test.submit("{}", id: "first", behind: gate)
        for number in 0..<5 { test.submit(rows(6_000, from: number * 5_000), id: "\(number)", from: number) }
        // They are opened, and wait; the first ticket's memory may not be given to another job.
        while test.coordinator.memoryTotal == 0 { sched_yield() }
        gate.open()
        let ends = test.events.ends(6)
        #expect(ends.map(\.id) == ["first", "0", "1", "2", "3", "4"])
        #expect(ends.map(\.sequence) == [1, 2, 3, 4, 5, 6])
        #expect(ends.allSatisfy { $0.code == nil })
        #expect(try test.rows("SELECT count(*) FROM Row") == ["26000"])
    }

    @Test func `a job that could never fit fails alone, and says how to go on`() throws {
        let test = try TestCoordinator(model) {
            $0.limits.memory = 300_000
            $0.limits.jobMemory = 2_000_000
        }
        test.submit(rows(10), id: "before", wantsAcceptance: true)
        test.submit(rows(20_000), id: "large", wantsAcceptance: true)
        test.submit(rows(10), id: "behind")
        let ends = test.events.ends(3)
        #expect(ends.map(\.id) == ["before", "large", "behind"])
        #expect(ends.map(\.code) == [nil, "busy", nil])
        #expect(ends.map(\.sequence) == [1, 2, 3])
        #expect(ends[1].body.contains("2000000. Split it"))
        #expect(test.await("large").ending?.code == "busy")
        #expect(test.events.all.filter { $0.hasPrefix("accepted large") } == ["accepted large 2"])
    }

    @Test func `predicates are charged before they are compiled`() throws {
        let test = try TestCoordinator(model) {
            $0.limits.memory = 300_000
            $0.limits.jobMemory = 4_000_000
        }
        // A few hundred kilobytes of JSON: one long text, and many short values.
        let text = String(repeating: "x", count: 1_000_000)
        let values = Array(repeating: "1", count: 100_000).joined(separator: ",")
        test.submit("{\"Row\": [\"\(text)\"]}", id: "text", deletingWhere: "text CONTAINS[c] %@")
        test.submit("{\"Row\": [[\(values)]]}", id: "values", deletingWhere: "id IN %@")
        #expect(test.events.ends(2).map(\.code) == ["busy", "busy"])
    }

    @Test func `a frame that cannot even be opened is refused once, and others never notice`() throws {
        let test = try TestCoordinator(model) {
            $0.limits.memory = 200_000
            $0.limits.jobMemory = 400_000
        }
        test.submit(rows(10), id: "before")
        test.submit("{\"Row\": [" + String(repeating: "{},", count: 100_000) + "{}]}", id: "large")
        test.submit(rows(10), id: "behind")
        #expect(test.events.refusal.contains("Split it"))
        #expect(test.events.ends(2).map(\.id) == ["before", "behind"])
    }

    @Test func `a small job that is staged holds the memory of its rows until it has ended`() throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        let payload = rows(1)
        test.submit(payload, id: "one")
        test.waitUntil("the job to be staged") { test.coordinator.jobTable.withLock { $0.application.isReady(0) } }
        // Its frame has been given back; a context takes some kilobytes.
        test.waitUntil("its rows to be counted") { test.coordinator.memoryTotal > 2_000 }
        test.coordinator.resume()
        #expect(test.events.ends(1).map(\.code) == [nil])
        test.waitUntil("its memory to be given back") { test.coordinator.memoryTotal == 0 }
    }

    @Test func `all memory is given back`() throws {
        let test = try TestCoordinator(model) {
            $0.limits.memory = 500_000
            $0.limits.jobMemory = 3_000_000
        }
        for round in 0..<4 {
            test.submit(rows(3_000 * (round + 1)), id: "rows \(round)", from: round)
            test.submit("no JSON", id: "none", from: round)
            test.submit("{\"Row\": [" + String(repeating: "{},", count: 3_000) + "{}]}", .skip, from: round)
            test.submit("{\"Other\": [{\"id\": 1}], " + rows(2_000).dropFirst(), .skip, from: round)
        }
        _ = test.events.ends(12)
        test.coordinator.refuseNewJobs()
        test.coordinator.finishAdmitted()
        // The rows are freed right after their end was reported.
        while test.coordinator.memoryTotal != 0 { sched_yield() }
    }

    @Test func `operations on two entities in turn take time by their number`() throws {
        let test = try TestCoordinator(model)
        let operations = (0..<20_000).map { "\"Row\": {\"id\": \($0)}, \"Other\": {\"id\": \($0)}" }
        test.submit("{" + operations.joined(separator: ",") + "}", id: "turns")
        #expect(test.events.ends(1).map(\.code) == [nil])
        #expect(try test.rows("SELECT (SELECT count(*) FROM Row), (SELECT count(*) FROM Other)") == ["20000|20000"])
    }

    @Test func `names are quoted briefly and looked up by their bytes`() throws {
        let test = try TestCoordinator(model)
        let name = "a" + String(repeating: "\u{301}\u{316}", count: 20_000)
        test.submit("{\"\(name)\": []}", id: "long")
        let ends = test.events.ends(1)
        #expect(ends.map(\.code) == ["unknownEntity"])
        #expect(ends[0].body.utf8.count < 100_000)
    }

    @Test func `a flood of questions does not keep a job of another source waiting`() throws {
        let test = try TestCoordinator(model) { $0.limits.workers = 1 }
        let flood = Flood(test.coordinator, sources: 4)
        flood.start()
        test.submit(rows(100), id: "job", from: 99)
        #expect(test.events.ends(1).map(\.code) == [nil])
        flood.stop()
    }
}

/// Questions of several sources, each answered by the next one.
private final class Flood: Sendable {
    private let coordinator: Coordinator
    private let sources: Int
    private let state = Monitor((isStopping: false, inFlight: 0))

    init(_ coordinator: Coordinator, sources: Int) {
        self.coordinator = coordinator
        self.sources = sources
    }

    func start() {
        for source in 0..<sources {
            for _ in 0..<200 { ask(source) }
        }
    }

    /// Ends the flood, and waits for the last answer.
    func stop() {
        state.withLock { $0.isStopping = true }
        state.wait { $0.inFlight == 0 ? () : nil }
    }

    private func ask(_ source: Int) {
        state.withLock { $0.inFlight += 1 }
        coordinator.admit(
            from: source, payloadBytes: 10,
            open: { [self] _ in
                .question { [self] _ in
                    if !state.withLock({ $0.isStopping }) { ask(source) }
                    state.broadcast {
                        $0.inFlight -= 1
                        return $0.inFlight == 0
                    }
                }
            }, refuse: { _ in })
    }
}
