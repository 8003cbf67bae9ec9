import BrokerJournal
import BrokerModel
import BrokerStore
import Glibc
import TestSupport
import Testing

@testable import BrokerCoordinator

/// The memory that one job may take, and the treatment of jobs without room.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorMemoryTests {
    private let model = Models.of(["Row": "id integer64, text string", "Other": "id integer64"])

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
        while test.coordinator.memory.total == 0 { sched_yield() }
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
        test.waitUntil("its rows to be counted") { test.coordinator.memory.total > 2_000 }
        test.coordinator.resume()
        #expect(test.events.ends(1).map(\.code) == [nil])
        test.waitUntil("its memory to be given back") { test.coordinator.memory.total == 0 }
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
        while test.coordinator.memory.total != 0 { sched_yield() }
    }

    @Test func `operations on two entities in turn take time by their number`() throws {
        let test = try TestCoordinator(model)
        let operations = (0..<8_000).map { "\"Row\": {\"id\": \($0)}, \"Other\": {\"id\": \($0)}" }
        test.submit("{" + operations.joined(separator: ",") + "}", id: "turns")
        #expect(test.events.ends(1).map(\.code) == [nil])
        #expect(try test.rows("SELECT (SELECT count(*) FROM Row), (SELECT count(*) FROM Other)") == ["8000|8000"])
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

/// The attempts to stage one job, and the memory that each has.
@Suite(.timeLimit(.minutes(5))) struct JobMemoryTests {
    private let budget = MemoryBudget(shared: 1_000, one: 3_000)
    private let first: JobMemory
    private let second: JobMemory

    init() {
        first = budget.admit(0, payloadBytes: 0)
        second = budget.admit(1, payloadBytes: 0)
        second.begin(granted: 0)
    }

    /// The memory granted to the next attempt.
    private func wait(contentBytes: Int = 0) -> Int? {
        let granted = Monitor<Int?>(nil)
        second.wait(contentBytes: contentBytes) { bytes in granted.update { $0 = bytes } }
        return granted.withLock { $0 }
    }

    @Test func `memory for which an attempt waited stays its own until it has ended`() throws {
        #expect(!second.take(1_001))
        let granted = try #require(wait())
        #expect(granted == 1_000, "more is not shared")
        second.begin(granted: granted)
        #expect(second.take(300))
        second.giveBack(200)
        #expect(budget.total == 1_000)
        #expect(second.take(900))
        second.giveBack(700)
        second.end()
        #expect(budget.total == 300)
    }

    @Test func `a job that is merged takes memory up to its limit, whatever the others hold`() throws {
        #expect(first.take(900))
        #expect(second.take(1_000))
        second.beginTurn()
        #expect(second.take(2_000))
        #expect(!second.take(1), "no job has more than one may take")
        #expect(budget.total == 3_900)
        second.giveBack(2_000)
        #expect(budget.total == 1_900)
    }

    @Test func `a logged job that is merged takes what it asks for, because its store limits it`() throws {
        #expect(second.take(1_000))
        second.beginTurn(isUnlimited: true)
        #expect(second.take(20_000))
        #expect(budget.total == 21_000)
        second.giveBack(20_000)
        #expect(budget.total == 1_000)
    }

    @Test func `the memory of a job is returned with the job`() {
        var third: JobMemory? = budget.admit(2, payloadBytes: 10)
        third?.begin(granted: 0)
        #expect(third?.take(90) == true)
        #expect(budget.total == 100)
        third = nil
        #expect(budget.total == 0)
        withExtendedLifetime((first, second)) {}
    }
}

/// The distribution of memory, and the waiting holders.
@Suite(.timeLimit(.minutes(5))) struct MemorySharesTests {
    private func shares(_ tickets: Int, shared: Int = 100, one: Int = 300) -> MemoryShares<String> {
        var shares = MemoryShares<String>(shared: shared, one: one)
        for ticket in 0..<tickets { shares.add(ticket, bytes: 0) }
        return shares
    }

    @Test func `the first that was read from the log is never refused, whatever earlier tickets hold`() {
        var shares = shares(2)
        for ticket in 2...3 { shares.add(ticket, bytes: 0, isLogged: true) }
        #expect(shares.take(300, for: 0) == .granted)
        #expect(shares.take(100, for: 1) == .granted)
        #expect(shares.take(1_000, for: 2) == .granted)
        #expect(shares.isNext(0) && !shares.isNext(1) && shares.isNext(2) && !shares.isNext(3))
        #expect(shares.take(1, for: 3) == .later)
        // It need not wait for the earlier ones of this server, which may be merged after it.
        shares.wait(1, for: 50, "one")
        shares.wait(3, for: 500, "three")
        shares.remove(2)
        let woken = shares.takeWoken()
        #expect(woken.map(\.waiter) == ["three"] && woken.map(\.granted) == [500])
        #expect(shares.isNext(3))
    }

    @Test func `a waiting holder is woken when it has become the first`() {
        var shares = shares(3)
        shares.wait(1, for: 1_000, "one")
        #expect(shares.takeWoken().isEmpty)
        shares.remove(0)
        let woken = shares.takeWoken()
        #expect(woken.map(\.waiter) == ["one"])
        #expect(woken.map(\.granted) == [0])
        #expect(shares.takeWoken().isEmpty)
    }

    @Test func `a waiting holder is woken when there is room, which is then its own`() {
        var shares = shares(3)
        #expect(shares.take(100, for: 1) == .granted)
        shares.wait(2, for: 50, "two")
        shares.giveBack(49, of: 1)
        #expect(shares.takeWoken().isEmpty)
        shares.giveBack(1, of: 1)
        let woken = shares.takeWoken()
        #expect(woken.map(\.waiter) == ["two"])
        #expect(woken.map(\.granted) == [50])
        #expect(shares.take(1, for: 1) == .later)
    }
}

/// The objects of jobs on their way from the writer to their clients.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorObjectsTests {
    @Test func `jobs with long answers do not share one transaction, and their memory is released`() throws {
        let test = try TestCoordinator()
        let text = String(repeating: "t", count: 1 << 20)
        test.submit(#"{"Row": {"id": 1, "text": "\#(text)"}}"#, ends: 1)
        // While it is locked, all of them become ready.
        let locker = try Locker(test.storePath)
        test.submit(#"{"Row": {"id": 2}}"#)
        test.log.waitUntil("warning: Another program has locked the store")
        let count = 16
        for _ in 0..<count { test.submit(#"{"Row": {"id": 1}}"#, wantsObjects: true) }
        while !test.statistics.contains(#""opening":0"#) { sched_yield() }
        try locker.unlock()
        let ends = test.events.ends(2 + count).suffix(count)
        #expect(ends.allSatisfy { $0.objects?.count == 1 && $0.objects?.json?.count ?? 0 > text.count })
        #expect(test.commits >= 1 + count / 4)
        while test.coordinator.memory.total != 0 { sched_yield() }
    }

    @Test func `a caller that awaits a job does not get its objects`() throws {
        let test = try TestCoordinator()
        let locker = try Locker(test.storePath)
        test.submit(#"{"Row": {"id": 1}}"#, id: "a", wantsObjects: true)
        test.log.waitUntil("warning: Another program has locked the store")
        let awaited = test.startAwaiting("a")
        try locker.unlock()
        let objects = test.events.ends(1)[0].objects?.json
        #expect(objects.map { String(decoding: $0, as: UTF8.self) } == #"[[{"id":1,"value":null,"text":null}]]"#)
        #expect(awaited.answer.ending?.sequence == 1)
        #expect(awaited.answer.ending?.objects == nil)
    }

    @Test func `the writer waits while many objects are unsent, and continues when they are sent`() {
        let replyBudget = ReplyBudget()
        replyBudget.waitForRoom()
        replyBudget.add(ReplyBudget.maximumBytes)
        let isThrough = Monitor(false)
        let writer = Thread(named: "waiting") {
            replyBudget.waitForRoom()
            isThrough.update { $0 = true }
        }
        #expect(!isThrough.withLock { $0 })
        replyBudget.remove(1)
        writer.join()
        #expect(isThrough.withLock { $0 })
    }
}

/// Jobs whose statements are interrupted, because their work budget is spent.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorWorkTests {
    private static let model = """
        {"entities": {
            "Parent": {"identity": "id", "attributes": {"id": "integer64"}},
            "Row": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"parent": {"entity": "Parent"}}}}}
        """

    private func coordinator(in folder: TemporaryFolder = TemporaryFolder(), journal: Bool) throws -> TestCoordinator {
        try TestCoordinator(Self.model, in: folder) { options in
            options.keepsJournal = journal
            options.store.synchronous = .full
            options.store.jobWork = 40_000
        }
    }

    private func ends(_ test: TestCoordinator, _ count: Int) -> [String] {
        test.events.ends(count).suffix(3).map { end in
            let remedy = end.body.contains("Send the operations in several jobs") ? ", with a remedy" : ""
            return "\(end.sequence ?? 0) \(end.id) \(end.code ?? "completed")\(remedy)"
        }
    }

    @Test(arguments: [false, true])
    func `a job that is interrupted fails alone, at once and in a replay`(journal: Bool) throws {
        let test = try coordinator(journal: journal)
        let rows = (1...5_000).map { "{\"id\": \($0), \"parent\": 1}" }.joined(separator: ",")
        test.submit("{\"Row\": [\(rows)]}", id: "rows", ends: 1)
        _ = test.coordinator.pause()
        test.submit(#"{"Row": {"id": 6001}}"#, id: "before", wantsAcceptance: true)
        // The foreign keys of all rows follow.
        test.submit(#"{"Parent": null}"#, id: "delete-1", deletingWhere: "TRUEPREDICATE", from: 1)
        test.submit(#"{"Row": {"id": 6002}}"#, id: "later", from: 2, accepted: 4)
        let folder = journal ? try CoordinatorJournalTests().crashed(test) : nil
        test.coordinator.resume()
        let expected = ["2 before completed", "3 delete-1 busy, with a remedy", "4 later completed"]
        #expect(ends(test, 4) == expected)
        let found = "SELECT count(*), sum(parent), (SELECT count(*) FROM Parent) FROM Row"
        #expect(try test.rows(found) == ["5002|5000|1"])
        #expect(test.log.count("warning: A transaction was undone") == 0, "a client must not fill the log")
        #expect(test.log.count("debug: A transaction was undone") == 1)
        guard let folder else { return }
        let again = try coordinator(in: folder, journal: true)
        #expect(ends(again, 3) == expected)
        #expect(try again.rows(found) == ["5002|5000|1"])
        #expect(again.await("delete-1").ending?.code == "busy")
    }
}
