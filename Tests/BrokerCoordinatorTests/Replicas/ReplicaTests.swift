import BrokerJournal
import BrokerModel
import BrokerStore
import Foundation
import Logging
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Several coordinators with one log, in one process.
@Suite(.timeLimit(.minutes(5))) struct ReplicaTests {
    static let model = Models.of(["Row": "id integer64, value integer64"])
    static let wider = Models.of(["Row": "id integer64, value integer64, name string"])

    let log = MemorySharedLog()

    /// A server of the log.
    final class Replica: Sendable {
        let test: TestCoordinator
        let view: MemorySharedLog.View
        let halt = Monitor<String?>(nil)

        init(
            _ name: String, _ log: MemorySharedLog, in folder: TemporaryFolder = TemporaryFolder(),
            model: String = ReplicaTests.model, _ configure: (inout CoordinatorOptions) -> Void = { _ in }
        ) throws {
            let made = Monitor<MemorySharedLog.View?>(nil)
            test = try TestCoordinator(model, in: folder) { options in
                options.sharedLog = log.source(name) { view in made.withLock { $0 = view } }
                configure(&options)
            }
            view = try #require(made.withLock { $0 })
            let halt = halt
            test.coordinator.onHalt { error in halt.update { $0 = error.message } }
        }

        /// That of the store. Clients learn of it a moment later.
        var position: Int64 { test.coordinator.statistics.now.facts.history?.position ?? 0 }

        func wait(for position: Int64) { test.waitUntil("position \(position)") { self.position >= position } }

        /// Why it has halted.
        var reason: String { halt.patiently("a halt") { $0 } }
    }

    static func row(_ id: Int, _ value: Int = 1, name: String = "n") -> String {
        #"{"Row": {"id": \#(id), "value": \#(value), "name": "\#(name)"}}"#
    }

    /// Waits until all have applied everything, and compares their stores.
    func expectEqual(_ replicas: [Replica]) throws {
        // Checkpoints follow what is applied.
        var count: Int64
        repeat {
            count = log.count
            for replica in replicas { replica.wait(for: count) }
        } while log.count > count
        let histories = replicas.map { $0.test.history.split(separator: " ").prefix(2).joined(separator: " ") }
        #expect(Set(histories).count == 1, "\(histories)")
        for table in ["Row", "_broker_jobs"] {
            let rows = try replicas.map { try $0.test.rows("SELECT * FROM \(table) ORDER BY 1") }
            #expect(Set(rows).count == 1, "\(table) differs")
        }
    }

    // MARK: - Applying

    @Test func `the jobs of all servers are applied by each, in one order`() throws {
        let replicas = try ["a", "b", "c"].map { try Replica($0, log) }
        let count = Cases.count(400, of: 1_000)
        DispatchQueue.concurrentPerform(iterations: 3) { server in
            for number in 0..<count {
                replicas[server].test.submit(
                    Self.row(number % 70, server * 1_000 + number), id: "\(server)-\(number)", wantsAcceptance: true)
            }
        }
        for (server, replica) in replicas.enumerated() {
            let ends = replica.test.events.ends(count)
            #expect(ends.allSatisfy { $0.code == nil })
            // Those of one server, in the order in which they were sent.
            let own = ends.filter { $0.id.hasPrefix("\(server)-") }.compactMap(\.sequence)
            #expect(own == own.sorted())
        }
        try expectEqual(replicas)
        // A checkpoint of each server at least, and no halt.
        for replica in replicas {
            #expect(replica.halt.withLock { $0 } == nil)
            #expect(replica.test.statistics.contains(#""halted":false"#))
        }
    }

    @Test func `an id that was sent to two servers is applied once, and a conflict is the same on all`() throws {
        let replicas = try ["a", "b"].map { try Replica($0, log) }
        replicas[0].test.submit(Self.row(1, 1), id: "one")
        #expect(replicas[0].test.events.ends(1)[0].code == nil)
        replicas[1].test.submit(Self.row(1, 1), id: "one")
        replicas[1].test.submit(Self.row(1, 2), id: "one")
        let ends = replicas[1].test.events.ends(3).suffix(2)
        #expect(ends.map(\.isDuplicate) == [true, false] && ends.last?.code == "idConflict")
        #expect(replicas[1].test.await("one").ending?.sequence == replicas[0].test.await("one").ending?.sequence)
        try expectEqual(replicas)
    }

    @Test func `a job that was staged under an earlier model than its place in the log is staged again`() throws {
        let replicas = try ["a", "b"].map { try Replica($0, log) }
        replicas[0].view.hold(true)
        #expect(replicas[1].test.reload(Self.wider).count == 1)
        // It is staged, and appended, before this server knows the other model.
        let before = log.count
        let rows = (2...20_000).map { #"{"id": \#($0), "value": 1, "name": "n"}"# }.joined(separator: ",")
        replicas[0].test.submit(Self.row(1), id: "small", wantsAcceptance: true)
        replicas[0].test.submit(#"{"Row": [\#(rows)]}"#, id: "large")
        replicas[0].test.submit(#"{"Row": {"id": 1, "name": [1]}}"#, id: "wrong")
        replicas[0].test.waitUntil("appended jobs") { log.count >= before + 3 }
        replicas[0].view.hold(false)
        let ends = replicas[0].test.events.ends(3)
        #expect(ends.map(\.code) == [nil, nil, "invalidValue"], "\(ends)")
        #expect(try replicas[0].test.rows("SELECT count(*) FROM Row WHERE name = 'n'") == ["20000"])
        try expectEqual(replicas)
    }

    @Test func `a change of the model by one server is that of all, also when the store refuses it`() throws {
        let replicas = try ["a", "b"].map { try Replica($0, log) }
        replicas[0].test.submit(Self.row(1), id: "1")
        #expect(replicas[0].test.reload(Self.wider).count == 1)
        replicas[1].test.submit(Self.row(2), id: "2")
        #expect(replicas[1].test.events.ends(2).last?.code == nil)
        #expect(replicas[1].test.reload(Self.model)[0].hasPrefix("refused"))
        replicas[0].test.submit(Self.row(3), id: "3", ends: 3)
        try expectEqual(replicas)
        #expect(try replicas[1].test.rows("SELECT name FROM Row WHERE id > 1") == ["n", "n"])
    }

    @Test func `jobs of other servers go on during a reload`() throws {
        let replicas = try ["a", "b"].map { try Replica($0, log) }
        replicas[0].view.hold(true)
        // The change is appended when this job has ended, and so after those of the other server.
        replicas[0].test.submit(Self.row(0), id: "0")
        replicas[0].test.waitUntil("an appended job") { log.count >= 4 }
        let changes = replicas[0].test.startReloading(Self.wider)
        replicas[0].test.waitUntilHolding()
        for number in 1...200 { replicas[1].test.submit(Self.row(number), id: "\(number)") }
        _ = replicas[1].test.events.ends(200)
        replicas[0].view.hold(false)
        #expect(changes.patiently("the new model") { $0 }.count == 1)
        try expectEqual(replicas)
    }

    @Test func `a server that starts keeps the model and the limits of the log, and a reload changes them`() throws {
        let folder = TemporaryFolder()
        do {
            let first = try Replica("a", log, in: folder)
            first.test.submit(Self.row(1), id: "1", ends: 1)
        }
        let second = try Replica("b", log, model: Self.wider) {
            $0.store.retention = LedgerRetention(count: 7, seconds: 9)
        }
        #expect(second.test.coordinator.model.entities[0].attributes.count == 2)
        #expect(second.test.log.count("another model") == 1)
        #expect(second.test.log.count("other limits") == 1)
        let first = try Replica("a", log, in: folder)
        #expect(second.test.reload(Self.wider).count == 1)
        for replica in [first, second] {
            replica.wait(for: log.count)
            #expect(try replica.test.rows("SELECT value FROM _broker_meta WHERE key = 'limits'")[0].contains("=7"))
            #expect(replica.test.coordinator.model.entities[0].attributes.count == 3)
        }
        try expectEqual([first, second])
    }

    @Test func `a server that was away applies what it missed before it serves`() throws {
        let folder = TemporaryFolder()
        let first = try Replica("a", log)
        do {
            let second = try Replica("b", log, in: folder)
            second.test.submit(Self.row(1), id: "b", ends: 1)
        }
        for number in 0..<300 { first.test.submit(Self.row(number), id: "\(number)") }
        _ = first.test.events.ends(301)
        let second = try Replica("b", log, in: folder)
        #expect(try second.test.rows("SELECT count(*) FROM Row") == ["300"])
        try expectEqual([first, second])
    }

    @Test func `times of the log never fall, also over a start`() throws {
        let folder = TemporaryFolder()
        let first = try Replica("a", log)
        var second: Replica? = try Replica("b", log, in: folder)
        log.set(clock: 5_000_000)
        first.test.submit(Self.row(1), id: "1", ends: 1)
        second?.wait(for: log.count)
        second = nil
        log.set(clock: 1_000)
        second = try Replica("b", log, in: folder)
        first.test.submit(Self.row(2), id: "2", ends: 2)
        try expectEqual([first, try #require(second)])
        let times = try first.test.rows("SELECT ended FROM _broker_jobs ORDER BY sequence")
        #expect(times.compactMap { Int64($0) } == times.compactMap { Int64($0) }.sorted())
    }

    @Test func `a stop does not wait for the jobs of other servers`() throws {
        let folder = TemporaryFolder()
        let first = try Replica("a", log)
        let isEnough = Monitor(false)
        let flood = BrokerCoordinator.Thread(named: "flood") {
            var number = 0
            while !isEnough.withLock({ $0 }) {
                first.test.submit(Self.row(number), id: "\(number)")
                number += 1
                if number.isMultiple(of: 100) { _ = first.test.events.ends(number) }
            }
        }
        for _ in 0..<Cases.count(2, of: 5) {
            let second = try Replica("b", log, in: folder)
            second.test.submit(Self.row(1), id: "b")
            second.wait(for: log.count)
        }
        isEnough.withLock { $0 = true }
        flood.join()
        try expectEqual([first, try Replica("b", log, in: folder)])
    }

    @Test func `a client waits until a server has applied what another gave it`() throws {
        let replicas = try ["a", "b"].map { try Replica($0, log) }
        replicas[1].view.hold(true)
        replicas[0].test.submit(Self.row(1), id: "1")
        let sequence = try #require(replicas[0].test.events.ends(1)[0].sequence)
        let isApplied = Monitor(false)
        let wait = replicas[1].test.coordinator.whenApplied(through: sequence) { isApplied.update { $0 = true } }
        let impatient = try #require(
            replicas[1].test.coordinator.whenApplied(through: sequence) { Issue.record("forgotten") })
        #expect(wait != nil)
        #expect(try #require(replicas[1].test.coordinator.forget(impatient)) < sequence)
        replicas[1].view.hold(false)
        isApplied.patiently("the job of the other server") { $0 ? () : nil }
        #expect(try replicas[1].test.rows("SELECT id FROM Row") == ["1"])
        #expect(replicas[1].test.coordinator.whenApplied(through: sequence) { Issue.record("no need to wait") } == nil)
    }

    // MARK: - Refusing jobs

    @Test func `jobs that the log has no room for are refused in their turn, and later ones are not`() throws {
        let replica = try Replica("a", log)
        replica.view.hold(true)
        replica.test.submit(Self.row(1), id: "1")
        replica.test.waitUntil("an appended job") { log.count >= 3 }
        log.refuse(StoreError(.full, "no room"))
        replica.test.submit(Self.row(2), id: "2")
        replica.test.submit(Self.row(3), id: "3")
        replica.test.waitUntil("refused jobs") {
            replica.test.coordinator.jobTable.withLock { $0.admission.contents.isEmpty }
        }
        log.refuse(nil)
        replica.test.submit(Self.row(4), id: "4")
        replica.view.hold(false)
        let ends = replica.test.events.ends(4)
        #expect(ends.map(\.id) == ["1", "2", "3", "4"])
        #expect(ends.map(\.code) == [nil, "storeFull", "storeFull", nil])
        #expect(ends.map { $0.sequence == nil } == [false, true, true, false])
    }

    @Test func `while the log takes nothing, new jobs are refused, and accepted ones wait`() throws {
        let replica = try Replica("a", log)
        replica.view.hold(true)
        replica.test.submit(Self.row(1), id: "1")
        replica.test.waitUntil("an appended job") { log.count >= 3 }
        replica.view.report("no quorum")
        replica.test.submit(Self.row(2), id: "2")
        #expect(replica.test.events.ends(1)[0].code == "storeUnavailable")
        replica.view.report(nil)
        replica.view.hold(false)
        replica.test.submit(Self.row(3), id: "3")
        #expect(replica.test.events.ends(3).map(\.code) == ["storeUnavailable", nil, nil])
    }

    @Test func `it is too late to cancel a job that was appended`() throws {
        let replica = try Replica("a", log)
        replica.view.hold(true)
        replica.test.submit(Self.row(1), id: "1")
        replica.test.waitUntil("an appended job") { log.count >= 3 }
        #expect(replica.test.cancel("1") == "tooLate")
        replica.view.hold(false)
        #expect(replica.test.events.ends(1)[0].code == nil)
    }

    @Test func `a stop gives up jobs whose fate is unknown, when the log takes nothing`() throws {
        let folder = TemporaryFolder()
        do {
            let replica = try Replica("a", log, in: folder)
            replica.view.hold(true)
            replica.test.submit(Self.row(1), id: "1")
            replica.test.waitUntil("an appended job") { log.count >= 3 }
            replica.test.coordinator.refuseNewJobs(lockSeconds: 0)
        }
        let replica = try Replica("a", log, in: folder)
        #expect(try replica.test.rows("SELECT id FROM Row") == ["1"])
    }
}

/// The stores that may and may not be fed from a log.
extension ReplicaTests {
    @Test func `a server begins with a copy of another one's store`() throws {
        let first = try Replica("a", log)
        for number in 0..<50 { first.test.submit(Self.row(number), id: "\(number)") }
        _ = first.test.events.ends(50)
        let folder = TemporaryFolder()
        let copied = Monitor(false)
        first.test.coordinator.backup(to: folder.path("store.sqlite")) { end in
            if case .done = end { copied.update { $0 = true } }
        }
        copied.patiently("a backup") { $0 ? () : nil }
        first.test.submit(Self.row(50), id: "50", ends: 51)
        try expectEqual([first, try Replica("b", log, in: folder)])
    }

    @Test func `a store with objects, jobs, or a journal of its own cannot take part`() throws {
        for journal in [false, true] {
            let folder = TemporaryFolder()
            do {
                let test = try TestCoordinator(Self.model, in: folder) {
                    $0.keepsJournal = journal
                    $0.store.synchronous = .normal
                }
                test.submit(Self.row(1), id: "1", ends: 1)
            }
            #expect(throws: StoreError.self) { try Replica("a", log, in: folder) }
            #expect(try SQLRows.of("SELECT id FROM Row", in: folder.path("store.sqlite")) == ["1"])
        }
    }

    @Test func `a store without objects may take part, if its model is that of the log`() throws {
        let folder = TemporaryFolder()
        do { _ = try TestCoordinator(Self.model, in: folder) }
        let first = try Replica("a", log, in: folder)
        first.test.submit(Self.row(1), id: "1")
        #expect(first.test.events.ends(1)[0].code == nil)
        let other = TemporaryFolder()
        do { _ = try TestCoordinator(Self.wider, in: other) }
        #expect(throws: StoreError.self) { try Replica("b", log, in: other) }
    }

    @Test func `a replica's store is refused by every other way to open it`() throws {
        let folder = TemporaryFolder()
        do {
            let replica = try Replica("a", log, in: folder)
            replica.test.submit(Self.row(1), id: "1", ends: 1)
        }
        let path = folder.path("store.sqlite")
        let before = try Data(contentsOf: URL(filePath: path))
        for journal in [false, true] {
            var options = CoordinatorOptions(storePath: path, limits: CoordinatorLimits())
            options.keepsJournal = journal
            let plan = try #require(try Store.planInForce(path: path))
            let error = #expect(throws: StoreError.self) {
                try OwnedStore(plan: plan, options: options, logger: Logger(label: "test"))
            }
            #expect(error?.message.contains("is a replica") == true)
        }
        #expect(throws: StoreError.self) { try OwnedStore.unchanged(path: path, logger: Logger(label: "test")) }
        #expect(try Data(contentsOf: URL(filePath: path)) == before)
        // A restored copy is a store of its own.
        let copy = folder.path("copy.sqlite")
        _ = try StoreRestore(of: path, to: copy, time: "t").run()
        #expect(try SQLRows.of("SELECT count(*) FROM _broker_meta WHERE key IN ('log', 'replicas')", in: copy) == ["0"])
    }
}

/// The ends of a server's part in a log.
extension ReplicaTests {
    @Test func `a server whose store differs halts, serves reads, and is halted after a start`() throws {
        let folder = TemporaryFolder()
        var replicas = try [Replica("a", log, in: folder), Replica("b", log), Replica("c", log)]
        replicas[1].test.submit(Self.row(7), id: "first")
        for replica in replicas { _ = replica.test.events.ends(1) }
        // Another program writes to the store of one.
        try Locker(replicas[0].test.storePath).execute("DELETE FROM Row; COMMIT")
        for number in 0..<1_500 { replicas[1].test.submit(Self.row(7, number), id: "\(number)") }
        #expect(replicas[0].reason.contains("that of most others"))
        #expect(replicas[0].test.statistics.contains(#""halted":true,"reason":"At position 1000"#))
        let position = replicas[0].position
        // The end of another cause changes nothing.
        replicas[0].view.report(nil)
        replicas[0].test.submit(Self.row(8), id: "refused")
        replicas[0].test.waitUntil("a refusal") { replicas[0].test.events.all.contains("ended refused -") }
        #expect(replicas[0].position == position)
        #expect(replicas[1].halt.withLock { $0 } == nil && replicas[2].halt.withLock { $0 } == nil)
        _ = replicas[1].test.events.ends(1_501)
        try expectEqual([replicas[1], replicas[2]])
        replicas.removeFirst()
        let again = try Replica("a", log, in: folder)
        #expect(again.reason.contains("that of most others"))
        #expect(again.position == position)
        #expect(try again.test.rows("SELECT count(*) FROM Row") == ["1"])
    }

    @Test func `a server that has halted reads, however many jobs it had in flight`() throws {
        let replica = try Replica("a", log) { $0.limits.jobs = 4 }
        replica.wait(for: log.count)
        replica.view.hold(true)
        for number in 0..<4 { replica.test.submit(Self.row(number), id: "\(number)") }
        replica.test.waitUntil("appended jobs") { log.count >= 6 }
        #expect(!replica.test.coordinator.hasRoom())
        let isRoom = Monitor(false)
        replica.test.coordinator.whenRoom { isRoom.update { $0 = true } }
        replica.test.coordinator.halt(StoreError(.unavailable, "for a test")) {}
        isRoom.patiently("room for a question") { $0 ? () : nil }
        #expect(replica.test.coordinator.hasRoom())
    }

    @Test func `a server that was removed halts, and takes part again when it is started again`() throws {
        let folder = TemporaryFolder()
        do {
            let replica = try Replica("a", log, in: folder)
            replica.wait(for: log.count)
            log.append(.left("a"))
            #expect(replica.reason.contains("was removed from the log"))
        }
        let replica = try Replica("a", log, in: folder)
        replica.test.submit(Self.row(1), id: "1")
        #expect(replica.test.events.ends(1)[0].code == nil)
        #expect(replica.test.statistics.contains(#""replicas":{"a":"#))
    }

    @Test func `of two servers of one name, the earlier halts`() throws {
        let first = try Replica("a", log)
        first.wait(for: log.count)
        let second = try Replica("a", log)
        #expect(first.reason.contains("Another server takes part under the name a"))
        second.test.submit(Self.row(1), id: "1")
        #expect(second.test.events.ends(1)[0].code == nil)
    }

    @Test func `servers halt where the log goes over to a fingerprint that they do not have`() throws {
        let folder = TemporaryFolder()
        let digits: String
        do {
            let replica = try Replica("a", log, in: folder)
            digits = try #require(replica.test.coordinator.statistics.now.fingerprint)
            // Its own changes nothing.
            log.append(.upgrade(fingerprint: digits))
            replica.test.submit(Self.row(1), id: "1")
            #expect(replica.test.events.ends(1)[0].code == nil)
            log.append(.upgrade(fingerprint: "0123456789abcdef"))
            #expect(replica.reason.contains("went over to the fingerprint 0123456789abcdef"))
        }
        do {
            let replica = try Replica("a", log, in: folder)
            #expect(replica.reason.contains("is 0123456789abcdef, and this server has \(digits)"))
            replica.test.submit(Self.row(2), id: "2")
            #expect(replica.test.events.ends(1)[0].code == "storeUnavailable")
        }
    }

    @Test func `an entry that cannot be opened halts, and is applied by a later start`() throws {
        let folder = TemporaryFolder()
        let first = try Replica("a", log)
        do {
            let second = try Replica("b", log, in: folder)
            first.test.coordinator.admit(
                payloadBytes: 1, payload: { Array("x".utf8) },
                open: { _ in .job(TestCoordinator.job(Array(Self.row(1).utf8), id: "odd") { _ in }) }, refuse: { _ in })
            #expect(second.reason.contains(#"Job 4 of the log (id "odd") cannot be applied"#), "\(second.reason)")
        }
        let second = try Replica("b", log, in: folder)
        #expect(second.reason.contains("cannot be applied"))
    }
}

/// The consequences of entries about all servers for one of them.
@Suite(.timeLimit(.minutes(5))) struct ReplicaTableTests {
    private var table = ReplicaTable()
    private var position: Int64 = 0

    private mutating func note(_ note: ReplicaNote, as own: String = "a", at time: Int64 = 0, joined: Bool = true)
        -> [ReplicaTable.Consequence]
    {
        position += 1
        return table.note(
            note, at: LogMark(position: position, time: time, content: []), own: own, hasJoined: joined)
    }

    private mutating func checkpoint(
        _ replica: String, _ position: Int64, _ digest: String, durable: Int64 = 0, backup: Int64 = 0,
        at time: Int64 = 0
    ) -> [ReplicaTable.Consequence] {
        self.position = max(self.position, position)
        return note(
            .checkpoint(
                ReplicaCheckpoint(
                    replica: replica, position: position, digest: digest, fingerprint: "f", durable: durable,
                    backup: backup)), at: time)
    }

    private mutating func join(_ names: String...) { for name in names { _ = note(.joined(name)) } }

    private static func halts(_ consequences: [ReplicaTable.Consequence]) -> Bool {
        consequences.contains { if case .halt = $0 { true } else { false } }
    }

    @Test mutating func `servers with one digest go on`() {
        join("a", "b", "c")
        for position in stride(from: Int64(1_000), through: 9_000, by: 1_000) {
            for name in ["b", "a", "c"] { #expect(checkpoint(name, position, "\(position)").isEmpty) }
        }
    }

    @Test mutating func `a server that differs from most halts, in any order of checkpoints`() {
        for order in [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]] {
            table = ReplicaTable()
            join("a", "b", "c")
            let halts = order.map { Self.halts(checkpoint($0, 1_000, $0 == "a" ? "x" : "y")) }
            #expect(halts == [false, false, true], "\(order)")
        }
    }

    @Test mutating func `a server of the majority goes on beside one that differs`() {
        join("a", "b", "c")
        for (name, digest) in [("a", "x"), ("b", "y"), ("c", "x")] { #expect(checkpoint(name, 1_000, digest).isEmpty) }
    }

    @Test mutating func `of two servers that differ, both halt`() {
        join("a", "b")
        #expect(checkpoint("a", 1_000, "x").isEmpty)
        #expect(Self.halts(checkpoint("b", 1_000, "y")))
    }

    @Test mutating func `servers that differ do not wait for ever for one that is silent`() {
        join("a", "b", "c")
        #expect(checkpoint("a", 1_000, "x").isEmpty)
        #expect(checkpoint("b", 1_000, "y").isEmpty)
        #expect(checkpoint("b", 2_000, "y").isEmpty)
        #expect(Self.halts(checkpoint("b", 4_000, "y")))
    }

    @Test mutating func `a server that has begun later is not compared with what it did not see`() {
        join("b", "c")
        _ = checkpoint("b", 1_000, "y")
        join("a")
        #expect(checkpoint("c", 1_000, "y").isEmpty)
        #expect(checkpoint("b", 9_000, "z").isEmpty)
    }

    @Test mutating func `a server that is removed halts, and not at the entries of an earlier run`() {
        join("a", "b")
        #expect(note(.left("a"), joined: false).isEmpty)
        join("a")
        #expect(note(.left("b")).isEmpty)
        #expect(Self.halts(note(.left("a"))))
        #expect(table.members.isEmpty)
    }

    @Test mutating func `what all have applied and a backup contains is trimmed, by the server of that backup`() {
        join("a", "b", "c")
        let margin = ReplicaTable.margin
        #expect(checkpoint("b", 100_000, "x", durable: 90_000).isEmpty)
        #expect(checkpoint("c", 100_000, "x", durable: 80_000, backup: 10_000).isEmpty)
        #expect(checkpoint("a", 100_000, "x", durable: 95_000, backup: 70_000) == [.trim(70_000 - margin)])
        // Nothing new, then a newer backup of another server.
        #expect(checkpoint("a", 101_000, "x", durable: 96_000, backup: 70_000).isEmpty)
        #expect(checkpoint("c", 101_000, "x", durable: 99_000, backup: 98_000).isEmpty)
        #expect(checkpoint("a", 102_000, "x", durable: 97_000, backup: 70_000).isEmpty)
        // The slowest server decides.
        #expect(checkpoint("b", 102_000, "x", durable: 91_000).isEmpty)
        #expect(checkpoint("a", 103_000, "x", durable: 99_000, backup: 99_000) == [.trim(91_000 - margin)])
    }

    @Test mutating func `nothing is trimmed without a backup`() {
        join("a")
        #expect(checkpoint("a", 100_000, "x", durable: 100_000).isEmpty)
    }

    @Test mutating func `a server that is silent for a week is removed`() {
        join("a", "b", "c")
        let week = ReplicaTable.longestSilence
        #expect(checkpoint("c", 1_000, "x", at: week / 2).isEmpty)
        #expect(checkpoint("a", 1_000, "x", at: week) == [])
        #expect(checkpoint("a", 1_000, "x", at: week + 1) == [.remove("b")])
    }

    @Test mutating func `the table survives as text, without the digests that are compared`() throws {
        join("a", "b \"c\"")
        _ = checkpoint("a", 1_000, "x", durable: 5, backup: 4, at: 77)
        let read = try #require(ReplicaTable(table.text))
        #expect(read.members == table.members && read.text == table.text)
        #expect(ReplicaTable("[") == nil && ReplicaTable(#"{"a":{}}"#) == nil)
    }

    @Test func `notes are read as they were written, and nothing else is`() {
        let notes: [ReplicaNote] = [
            .joined("a"), .left("b\n\"é"), .upgrade(fingerprint: "0123"),
            .checkpoint(
                ReplicaCheckpoint(
                    replica: "a", position: 1_000, digest: "d", fingerprint: "f", durable: 12, backup: 0)),
        ]
        for note in notes { #expect(ReplicaNote(note.entry) == note) }
        for text in ["", "{}", "[]", #"{"joined":1}"#, #"{"replica":"a"}"#] {
            for kind in [LogEntry.Kind.replica, .checkpoint, .upgrade] {
                #expect(ReplicaNote(LogEntry(kind, payload: Array(text.utf8))) == nil)
            }
        }
    }
}
