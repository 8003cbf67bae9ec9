import BrokerJournal
import BrokerJSON
import BrokerJournal
import BrokerModel
import BrokerStaging
import BrokerStore
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Jobs take effect, and end, in the order of their tickets.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorOrderTests {

    private func row(_ value: some CustomStringConvertible) -> String {
        "{\"Row\": {\"id\": 1, \"value\": \(value)}}"
    }

    @Test func `200 jobs of several threads leave the last ticket's value, and end in order`() throws {
        let test = try TestCoordinator()
        let threads = (0..<8).map { number in
            BrokerCoordinator.Thread(named: "sender-\(number)") { [self] in
                for job in 0..<25 { test.submit(row(number * 100 + job), id: "\(number * 100 + job)") }
            }
        }
        for thread in threads { thread.join() }
        let ends = test.events.ends(200)
        #expect(ends.map(\.sequence) == (1...200).map { $0 })
        #expect(ends.allSatisfy { $0.code == nil })
        #expect(try test.rows("SELECT id, value FROM Row") == ["1|\(ends[199].id)"])
        for sender in 0..<8 {
            let own = ends.compactMap { Int($0.id) }.filter { $0 / 100 == sender }
            #expect(own == own.sorted(), "sender \(sender) was overtaken by itself")
        }
    }

    @Test func `a job is accepted with its sequence before it ends`() throws {
        let test = try TestCoordinator()
        let gate = Gate()
        test.submit(row(1), id: "a", wantsAcceptance: true, behind: gate)
        test.submit(row(2), id: "b")
        test.submit(row("[]"), id: "c", wantsAcceptance: true)
        gate.open()
        _ = test.events.ends(3)
        let all = test.events.all
        #expect(all.filter { !$0.contains("accepted") } == ["ended a 1", "ended b 2", "ended c 3"])
        for (id, sequence) in [("a", 1), ("c", 3)] {
            let accepted = all.firstIndex(of: "accepted \(id) \(sequence)")
            #expect(accepted.map { $0 < all.firstIndex(of: "ended \(id) \(sequence)")! } == true, "\(all)")
        }
        #expect(all.count == 5)
    }

    @Test func `sequences and outcomes go on after a restart`() throws {
        let folder = TemporaryFolder()
        do {
            let test = try TestCoordinator(in: folder)
            test.submit(row(1), id: "a")
            test.submit(row(2), ends: 2)
        }
        let test = try TestCoordinator(in: folder)
        test.submit(row(1), id: "a")
        test.submit(row(3))
        let ends = test.events.ends(2)
        #expect(ends.map(\.sequence) == [1, 4])
        #expect(ends.map(\.isDuplicate) == [true, false])
        #expect(try test.rows("SELECT value FROM Row") == ["3"])
    }
}

/// Rules for which steps precede others.
@Suite(.timeLimit(.minutes(5))) struct CompletionOrderTests {

    @Test func `a job is not merged while its cancellation is being logged`() throws {
        let disk = GatedSystem()
        let test = try TestCoordinator {
            $0.keepsJournal = true
            $0.journalSystem = disk
        }
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", accepted: 1)
        test.waitUntil("a staged job") { test.coordinator.jobTable.withLock { $0.application.isReady(0) } }
        disk.close()
        let cancelled = Monitor<String?>(nil)
        test.coordinator.cancel("a") { result in cancelled.update { $0 = "\(result)" } }
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
        let test = try TestCoordinator()
        _ = test.coordinator.pause()
        let order = Monitor<[String]>([])
        for number in 1...count {
            let json = Array(row(number).utf8)
            test.coordinator.admit(payloadBytes: json.count) { _ in
                .job(
                    TestCoordinator.job(json, id: "\(number)") { event in
                        guard case .ended(let end) = event else { return }
                        order.update { $0.append("ended \(end.id)") }
                    })
            } refuse: { _ in
            }
        }
        test.waitUntil(#""inFlight":\#(count)"#)
        let waits = test.coordinator.jobTable.withLock { jobTable in
            jobTable.ends.wait(before: .max) { order.update { $0.append("notified") } }
        }
        #expect(waits)
        test.coordinator.resume()
        let events = order.patiently("all ends") { $0.count == count + 1 ? $0 : nil }
        #expect(events == (1...count).map { "ended \($0)" } + ["notified"])
    }

    @Test func `the payload of a job is released when the job is staged`() throws {
        let test = try TestCoordinator()
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
        test.waitUntil("the payload's memory to be given back") { test.coordinator.memory.total < 1 << 20 }
        test.waitUntil("the payload to be released") { released == nil }
        #expect(test.coordinator.jobTable.withLock { $0.application.next != nil })
        #expect(test.events.all.isEmpty)
        test.coordinator.resume()
        #expect(test.events.ends(1).map(\.code) == [nil])
    }
}

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

/// The machines of the log's two sides, and the log in memory, as pure values, without threads.
@Suite(.timeLimit(.minutes(5))) struct LogOrderTests {
    private func place(_ position: Int64?, _ time: Int64 = 0) -> LogPlace { LogPlace(position: position, time: time) }

    // MARK: - Application

    @Test func `a log that delivers out of order is found out`() throws {
        var application = Application<String>(after: 10)
        application.began(0, "a")
        application.began(1, "b")
        func expect(_ violation: StoreError, _ body: () throws -> Void) {
            #expect(#expect(throws: StoreError.self, performing: body)?.message == violation.message)
        }
        expect(.unexpectedJob) { _ = try application.deliver(own: 1, at: place(11)) }
        expect(.fallingPosition) { _ = try application.deliver(own: 0, at: place(10)) }
        expect(.fallingPosition) { _ = try application.deliver(other: 5, at: place(9)) }
        try application.deliver(own: 0, at: place(11))
        expect(.unexpectedJob) { _ = try application.deliver(own: 0, at: place(12)) }
        expect(.fallingPosition) { _ = try application.advance(to: place(11)) }
        try application.advance(to: place(12))
        try application.deliver(own: 1, at: place(13))
    }

    // MARK: - The log in memory

    @Test func `the last reserved position is given, and no later one`() {
        var log = MemoryLog(after: 10, reservedThrough: 12, block: 10)
        for ticket in 0..<3 { log.append(ticket, at: 5) }
        #expect(log.read()?.place == place(11, 5) && log.read()?.place == place(12, 5))
        #expect(log.read() == nil && log.isStarved && log.newest == 12)
        log.extend(through: 20)
        let last = log.read()
        #expect(last?.ticket == 2 && last?.place == place(13, 5) && !log.isStarved)
    }

    @Test func `the time of a position never falls, though the clock is set back`() {
        var log = MemoryLog(after: 0, reservedThrough: 10, block: 10)
        for (ticket, time) in [100, 40, 101].enumerated() { log.append(ticket, at: Int64(time)) }
        #expect((0..<3).map { _ in log.read()?.place.time } == [100, 100, 101])
    }

    @Test func `jobs for which nothing can be reserved are refused, in order`() {
        var log = MemoryLog(after: 0, reservedThrough: 0, block: 10)
        for ticket in 3..<6 { log.append(ticket, at: 0) }
        #expect(log.refuse() == [3, 4, 5])
        #expect(!log.isStarved)
        log.extend(through: 5)
        log.append(6, at: 0)
        #expect(log.read()?.place == place(1))
    }

    @Test func `a block is due when half of one or less is left`() {
        let left = { (left: Int64) in MemoryLog(after: 100, reservedThrough: 100 + left, block: 10) }
        #expect(left(6).reservationDue == nil)
        #expect(left(5).reservationDue == 110)
        #expect(left(0).reservationDue == 110)
        #expect(left(10).reservationDue == nil)
    }
}

/// The memory that the operations of a job take before anything is staged.
@Suite(.timeLimit(.minutes(5))) struct JobStepsTests {
    private final class Allowance: StagingAllowance {
        let taken = Atomic(0)
        let limit: Int

        init(_ limit: Int) { self.limit = limit }

        func take(_ bytes: Int) -> Bool { taken.add(bytes, ordering: .relaxed).newValue <= limit }
    }

    private static func model(_ text: String) throws -> Model {
        try ModelReader.read(JSONText(copying: Array(text.utf8)))
    }

    private static func model(routes: [String] = []) throws -> Model {
        try Self.model(
            """
            {"entities": {"E": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}},
             "mappings": {"m": {"entity": "E"}}, "routes": [\(routes.joined(separator: ","))]}
            """)
    }

    /// The memory of operations' steps; nil when they are refused.
    ///
    /// - Parameter operations: members of an array, each with the `json` and the other fields of an operation.
    private func memory(
        _ operations: [String], in model: Model, limit: Int = .max,
        _ action: (JSONValue) -> JobOperation.Action
    ) throws -> Int? {
        let text = JSONText(copying: Array("[\(operations.joined(separator: ","))]".utf8))
        let document = try JSONDocument(parsing: text)
        let operations = document.root.elements.map {
            JobOperation(entity: "E", json: $0["json"]!, action($0), entityPointer: "/entity")
        }
        let allowance = Allowance(limit)
        do throws(StagingRefusal) {
            _ = try JobSteps(ShortList(operations), in: document, model, allowance)
            return allowance.taken.load(ordering: .relaxed)
        } catch {
            guard case .noRoom = error else { throw error }
            return nil
        }
    }

    @Test func `each step takes memory`() throws {
        let model = try Self.model(routes: [])
        let deletes = Array(repeating: #"{"json": [1]}"#, count: 1_000)
        let taken = try #require(try memory(deletes, in: model) { _ in .delete })
        #expect(taken >= 1_000 * MemoryLayout<StepPlan>.stride)
        #expect(try memory(deletes, in: model, limit: taken - 1) { _ in .delete } == nil)
    }

    @Test func `the routes of a path take memory once for operations with the same path, and once for each other path`()
        throws
    {
        let model = try Self.model(routes: (0..<50).map { _ in #"{"path": "/a/:id", "mapping": "m", "keyPath": "k"}"# })
        func taken(_ paths: [String]) throws -> Int {
            let operations = paths.map { #"{"path": "\#($0)", "json": {"k": {"id": 1}}}"# }
            return try #require(try memory(operations, in: model) { .map(mapping: nil, path: $0["path"]) })
        }
        let value = String(repeating: "x", count: 1_000)
        let one = try taken(["/a/\(value)"])
        // The value is in the parameters of each route.
        #expect(one > 50 * value.utf8.count)
        let step = try taken(["/a/\(value)", "/a/\(value)"]) - one
        #expect(step < one / 10)
        #expect(try taken((0..<100).map { _ in "/a/\(value)" }) == one + 99 * step)
        #expect(try taken((0..<100).map { "/a/\(value)\($0 % 10)" }) >= 100 * one)
    }

    @Test func `the definition of a part of a sync takes as much as its arguments`() throws {
        let arguments = "[\"\(String(repeating: "a", count: 100_000))\"]"
        let part = try memory(
            [#"{"json": [], "arguments": \#(arguments)}"#], in: Self.model(routes: [])
        ) {
            .sync(
                where: "name == %@", arguments: $0["arguments"], actions: (true, true, true),
                part: (id: "p", isLast: true))
        }
        #expect(try #require(part) > 100_000)
    }

    @Test func `a text that is longer than any name names no mapping, and is not decoded`() throws {
        let long = String(repeating: "m", count: 10_000)
        let error = #expect(throws: StagingRefusal.self) {
            try memory([#"{"mapping": "\#(long)", "json": {}}"#], in: Self.model(routes: [])) {
                .map(mapping: $0["mapping"], path: nil)
            }
        }
        guard case .fault(let fault) = error else {
            Issue.record("it was staged")
            return
        }
        #expect(fault.code == .unknownMapping)
        #expect(fault.message.utf8.count < 500)
    }

    @Test func `a deletion that may reach many objects is a search, and another is none`() throws {
        let model = try Self.model(
            """
            {"entities": {
                "Parent": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"rows": {"entity": "Row", "toMany": true, "inverse": "parent"}}},
                "Row": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"parent": {"entity": "Parent", "inverse": "rows"}, "tag": {"entity": "Tag"}}},
                "Tag": {"identity": "id", "attributes": {"id": "integer64"}},
                "Key": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"lock": {"entity": "Lock", "inverse": "key"}}},
                "Lock": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"key": {"entity": "Key", "inverse": "lock"}}},
                "Guard": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"row": {"entity": "Row", "deleteRule": "deny"}}},
                "Base": {"identity": "id", "attributes": {"id": "integer64"}},
                "Child": {"parent": "Base", "relationships": {"tags": {"entity": "Tag", "toMany": true}}}}}
            """)
        let document = try JSONDocument(parsing: JSONText(copying: Array("[1]".utf8)))
        let searches = model.entities.map(\.name).filter { name in
            JobOperation(entity: name, json: document.root, .delete, entityPointer: "/entity").isSearch(in: model)
        }
        // A row is linked to one parent, one tag and, by a relationship without inverse, to any number of guards.
        #expect(searches == ["Parent", "Row", "Tag", "Guard", "Base", "Child"])
    }

    @Test func `an operation that may read all objects is a search, and another is none`() throws {
        let model = try Self.model(Models.of(["Row": "id integer64"]))
        let document = try JSONDocument(parsing: JSONText(copying: Array("[1]".utf8)))
        let key = document.root
        func isSearch(_ action: JobOperation.Action) -> Bool {
            JobOperation(entity: "Row", json: key, action, entityPointer: "/entity").isSearch(in: model)
        }
        func sync(deletes: Bool = true, part isLast: Bool? = nil) -> JobOperation.Action {
            .sync(
                where: nil, arguments: nil, actions: (inserts: true, updates: true, deletes: deletes),
                part: isLast.map { (id: "s", isLast: $0) })
        }
        for action in [.process(object: key), .deleteMatching(where: nil, arguments: nil), sync(), sync(part: true)] {
            #expect(isSearch(action), "\(action)")
        }
        for action in [
            .process(object: nil), .delete, .relate(object: key, relationship: key), .map(mapping: nil, path: nil),
            sync(deletes: false), sync(part: false),
        ] { #expect(!isSearch(action), "\(action)") }
        var operation = JobOperation(entity: "Row", json: key, .process(object: key), entityPointer: "/entity")
        operation.adjustment = JobAdjustment(increment: key, append: nil, hasRecord: false)
        #expect(!operation.isSearch(in: model), "it renames nothing")
        operation.expectation = JobExpectation(.present, json: key)
        #expect(!operation.isSearch(in: model))
        operation.expectation = JobExpectation(.matching(where: "ANY rows.id > 3", arguments: nil), json: key)
        #expect(operation.isSearch(in: model))
    }

    private static let linkedModel = """
        {"entities": {
            "Team": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
                "members": {"entity": "Member", "toMany": true, "inverse": "team"},
                "tags": {"entity": "Tag", "toMany": true, "assignment": "replace", "key": "extra.labels"},
                "list": {"entity": "Tag", "toMany": true, "ordered": true},
                "notes": {"entity": "Note", "toMany": true, "owned": true},
                "plan": {"entity": "Plan", "owned": true}}},
            "Member": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"team": {"entity": "Team", "inverse": "members"}}},
            "Tag": {"identity": "id", "attributes": {"id": "integer64"}},
            "Note": {"attributes": {"text": "string"}}, "Plan": {"attributes": {"text": "string"}}}}
        """

    /// The content of a job that processes a record of a team.
    private func content(
        _ record: String, _ model: String = linkedModel, operations: Int = 1, _ change: (Job) -> Void = { _ in }
    ) throws -> ScanContent {
        let plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(model.utf8))))
        let text = JSONText(copying: Array(record.utf8))
        let document = try JSONDocument(parsing: text)
        let operation = JobOperation(entity: "Team", json: document.root, entityPointer: "/entity")
        let job = Job(
            id: nil, document: document, operations: ShortList(Array(repeating: operation, count: operations)),
            content: text, observer: { _ in })
        change(job)
        return withExtendedLifetime(document) { job.content(under: plan) }
    }

    @Test(arguments: [
        (#"{"id": 1, "name": "a"}"#, false), (#"{"id": 1, "members": [{"id": 1}, 2]}"#, false),
        (#"{"id": 1, "members": null}"#, true), (#"{"id": 1, "extra": {"labels": []}}"#, true),
        (#"{"id": 1, "list": [4]}"#, true), (#"{"id": 1, "notes": [{"text": "a"}]}"#, true),
        (#"{"id": 1, "plan": null}"#, true), (#"[{"id": 1}, {"id": 2, "members": [{"team": {"notes": []}}]}]"#, true),
        (#"{"id": 1, "tags": []}"#, false),
    ])
    func `a record that may end very many links or delete very many objects makes its job take turns`(
        record: String, isLinking: Bool
    ) throws {
        #expect(try content(record) == (isLinking ? .linking : .job))
        // A job that is undone may be sent again.
        let undone: ScanContent = isLinking ? .search : .job
        #expect(try content(record) { $0.terms.isDryRun = true } == undone)
        #expect(try content(record) { $0.terms.mayDelete = false } == undone)
        #expect(try content(record) { $0.terms.maximumDeletions = .objects(5) } == undone)
        #expect(try content(record, operations: 2) == undone)
        let denying = Self.linkedModel.replacing(
            #""inverse": "members"}"#, with: #""inverse": "members", "deleteRule": "deny"}"#)
        #expect(try content(record, denying) == undone)
    }

    @Test func `any record of a model with a tombstone that deletes others makes its job take turns`() throws {
        let model = Self.linkedModel.replacing(
            #""Team": {"identity""#, with: #""Team": {"tombstone": "name == 'gone'", "identity""#)
        #expect(try content(#"{"id": 1}"#, model) == .linking)
    }
}
