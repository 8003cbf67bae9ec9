import BrokerModel
import Testing

@testable import BrokerStore

/// Exactly once: what the ledger remembers of a job, and for how long.
@Suite(.timeLimit(.minutes(5))) struct LedgerTests {
    private static let model =
        #"{"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64", "value": "string"}}}}"#

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    private func things(_ values: (Int, String)...) -> String {
        "{\"Thing\": [\(values.map { #"{"id": \#($0), "value": "\#($1)"}"# }.joined(separator: ","))]}"
    }

    @Test func `the same id with the same content answers the first outcome and does nothing`() throws {
        try store.apply(things((1, "a")), id: "job")
        try store.apply(things((1, "b")), id: "other")
        guard case .duplicate(let outcome) = try store.apply(things((1, "a")), id: "job") else {
            Issue.record("not a duplicate")
            return
        }
        #expect(outcome.sequence == 1)
        #expect(!outcome.isFailure)
        #expect(String(decoding: outcome.body, as: UTF8.self).contains(#""inserted":1"#))
        #expect(try store.rows("SELECT value FROM Thing") == ["b"])
    }

    @Test func `the same id with other content is a conflict, and the first outcome stays`() throws {
        try store.apply(things((1, "a")), id: "job")
        guard case .conflict(let fault, let committed) = try store.apply(things((1, "b")), id: "job") else {
            Issue.record("not refused")
            return
        }
        #expect(committed.sequence == 1)
        #expect(fault.code == .idConflict)
        #expect(fault.message.contains("\"job\"") && fault.message.contains("compared byte by byte: another encoder"))
        #expect(try store.rows("SELECT value FROM Thing") == ["a"])
        #expect(try store.store.outcome(ofJob: "job")?.isFailure == false)
    }

    @Test func `an outcome keeps some of many rejections and counts the others, and the answer lists them all`() throws
    {
        let records = Array(repeating: "{}", count: 11_000).joined(separator: ",")
        guard case .completed(let outcome) = try store.apply("{\"Thing\": [\(records)]}", id: "bad", .skip)
        else {
            Issue.record("not completed")
            return
        }
        #expect(outcome.rejected.count == 10_000)
        #expect(String(decoding: outcome.members, as: UTF8.self).contains("/Thing/9999"))
        let stored = String(decoding: try #require(try store.store.outcome(ofJob: "bad")).body, as: UTF8.self)
        #expect(stored.utf8.count < 70_000)
        let listed = stored.split(separator: "\"code\":\"missingIdentity\"", omittingEmptySubsequences: false).count - 1
        #expect(listed > 100)
        #expect(stored.contains(#""code":"rejectedNotListed","entity":"","count":\#(11_000 - listed)}"#))
        #expect(stored.contains(#""rejected":11000"#))
    }

    @Test func `an outcome keeps some of many warnings and counts the others, and quotes keys briefly`() throws {
        let long = String(repeating: "k", count: 100_000)
        let keys = (0..<900).map { "\"unknown key number \($0)\": 1" } + ["\"\(long)\": 1"]
        try store.apply("{\"Thing\": {\"id\": 1, \(keys.joined(separator: ","))}}", id: "warned")
        let stored = String(decoding: try #require(try store.store.outcome(ofJob: "warned")).body, as: UTF8.self)
        #expect(stored.utf8.count < 20_000)
        let listed = stored.split(separator: "unknown key number", omittingEmptySubsequences: false).count - 1
        #expect(listed > 100)
        #expect(stored.contains(#"{"code":"unknownKey","entity":"Thing","count":\#(901 - listed)}"#))
        guard case .completed(let outcome) = try store.apply("{\"Thing\": {\"id\": 1, \"\(long)\": 1}}") else {
            return
        }
        #expect(outcome.members.count < 1_000)
    }

    @Test func `a failed job is remembered, and its id may run again with any content`() throws {
        let bad = #"{"Thing": [{"id": "x"}]}"#
        #expect(isFailed(try store.apply(bad, id: "job")))
        let remembered = try #require(try store.store.outcome(ofJob: "job"))
        #expect(remembered.isFailure)
        #expect(String(decoding: remembered.body, as: UTF8.self).contains(#""path":"/Thing/0/id""#))
        #expect(isFailed(try store.apply(bad, id: "job")))
        #expect(try store.store.outcome(ofJob: "job")?.sequence == 2)
        guard case .completed = try store.apply(things((1, "a")), id: "job") else {
            Issue.record("not run again")
            return
        }
        #expect(try store.store.outcome(ofJob: "job")?.isFailure == false)
        #expect(try store.rows("SELECT count(*) FROM _broker_jobs") == ["1"])
    }

    @Test func `an id that the server made is taken, too`() throws {
        try store.apply(things((1, "a")))
        guard case .conflict(let fault, _) = try store.apply(things((1, "a")), id: "job-1") else {
            Issue.record("not refused")
            return
        }
        #expect(fault.code == .idConflict)
    }

    @Test func `two jobs of one id in one transaction are one job`() throws {
        try store.store.begin()
        _ = try store.store.apply(store.job(things((1, "a")), id: "job"))
        let second = try store.store.apply(store.job(things((1, "a")), id: "job"))
        try store.store.commit()
        guard case .duplicate(let outcome) = second else {
            Issue.record("applied twice")
            return
        }
        #expect(outcome.sequence == 1)
    }

    @Test func `outcomes and the newest sequence survive reopening`() throws {
        try store.apply(things((1, "a")), id: "é \u{1F600} \"job\"")
        try store.apply(#"{"Thing": 5}"#, id: "failed")
        try store.reopen()
        #expect(try store.store.lastSequence() == 2)
        #expect(try store.store.outcome(ofJob: "failed")?.isFailure == true)
        #expect(try store.store.outcome(ofJob: "never") == nil)
        guard case .duplicate = try store.apply(things((1, "a")), id: "é \u{1F600} \"job\"") else {
            Issue.record("forgotten")
            return
        }
    }

    @Test func `a new store has no sequence`() throws {
        #expect(try store.store.lastSequence() == 0)
    }

    @Test func `a reader beside the writer sees what is committed and cannot write`() throws {
        try store.apply(things((1, "a")), id: "job")
        let reader = try LedgerReader(path: store.path, store.store.jobs)
        #expect(try reader.outcome(ofJob: "job") == store.store.outcome(ofJob: "job"))
        try store.store.begin()
        _ = try store.store.apply(store.job(things((2, "a")), id: "open"))
        #expect(try reader.outcome(ofJob: "open") == nil)
        try store.store.commit()
        #expect(try reader.outcome(ofJob: "open")?.sequence == 2)
    }

    @Test func `outcomes beyond the count are forgotten, oldest first`() throws {
        var options = StoreOptions()
        options.retention = LedgerRetention(count: 100, seconds: 1_000)
        let store = try TestStore(Self.model, options: options)
        try store.store.begin()
        for number in 1...2_000 { _ = try store.store.apply(store.job("{}", id: "job \(number)")) }
        try store.store.commit()
        // Some more are there, so that most jobs need not forget any.
        #expect(
            try store.rows("SELECT min(sequence), max(sequence), count(*) FROM _broker_jobs") == ["1898|2000|103"])
    }

    @Test(arguments: [false, true])
    func `an outcome that expires with a job is unknown to the next one, also in one batch`(isTogether: Bool) throws {
        var options = StoreOptions()
        options.retention = LedgerRetention(count: 1_000, seconds: 10)
        let store = try TestStore(Self.model, options: options)
        try store.apply(things((1, "x")), id: "a", now: 0)
        let jobs = try [(2, "b"), (3, "a")].map { try store.job(things(($0, "x")), id: $1, now: 20_000) }
        let ends = isTogether ? try store.applyBatch(jobs) : nil
        #expect(ends == nil)
        for job in jobs { try store.apply(job) }
        #expect(try store.rows("SELECT id FROM Thing ORDER BY id") == ["1", "2", "3"])
    }

    @Test func `with a journal, an opening takes no line that was replaced for a forgotten one`() throws {
        try store.store.beginLog("log", after: 0)
        try store.apply(#"{"Thing": 5}"#, id: "a")
        try store.apply(things((1, "x")), id: "b")
        try store.apply(things((2, "x")), id: "a")
        try store.reopen()
        #expect(try store.rows("SELECT sequence FROM _broker_jobs") == ["2", "3"])
        #expect(try store.rows("SELECT value FROM _broker_meta WHERE key = 'forgotten'") == [])
    }

    @Test func `outcomes beyond their time are forgotten`() throws {
        var options = StoreOptions()
        options.retention = LedgerRetention(count: 1_000_000, seconds: 60)
        let store = try TestStore(Self.model, options: options)
        try store.store.begin()
        for number in 1...500 { _ = try store.store.apply(store.job("{}", now: number <= 450 ? 0 : 60_001)) }
        try store.store.commit()
        #expect(try store.rows("SELECT min(sequence), count(*) FROM _broker_jobs") == ["451|50"])
        try store.store.begin()
        for _ in 1...500 { _ = try store.store.apply(store.job("{}", now: 1_000_000)) }
        try store.store.commit()
        #expect(try store.rows("SELECT min(sequence) FROM _broker_jobs") == ["501"])
        #expect(try store.store.lastSequence() == 1_000)
    }

    // MARK: - Retention counts rows

    private func store(keeping count: Int, seconds: Int = 1_000) throws -> TestStore {
        var options = StoreOptions()
        options.retention = LedgerRetention(count: count, seconds: seconds)
        return try TestStore(Self.model, options: options)
    }

    private func count(_ store: TestStore) throws -> Int {
        Int(try store.rows("SELECT count(*) FROM _broker_jobs")[0])!
    }

    @Test func `duplicates and failing retries of other ids push no outcome out`() throws {
        let store = try store(keeping: 1_000)
        try store.apply(things((1, "a")), id: "first")
        try store.apply(things((2, "a")), id: "other")
        for _ in 0..<8 {
            try store.store.begin()
            for _ in 0..<300 {
                _ = try store.store.apply(store.job(things((2, "a")), id: "other"))
                _ = try store.store.apply(store.job(#"{"Thing": 5}"#, id: "failing"))
            }
            try store.store.commit()
        }
        #expect(store.nextSequence > 4_000)
        guard case .duplicate = try store.apply(things((1, "a")), id: "first") else {
            Issue.record("applied twice")
            return
        }
    }

    @Test func `the newest outcomes are stored, whatever the gaps between sequences`() throws {
        let store = try store(keeping: 1_000)
        for number in 1...1_000 {
            store.nextSequence += Int64(number % 7) * 1_000
            try store.apply("{}", id: "\(number)")
        }
        #expect(try count(store) == 1_000)
        for number in 1_001...1_200 { try store.apply("{}", id: "\(number)") }
        #expect(try (1_000...1_062).contains(count(store)))
        #expect(try store.store.outcome(ofJob: "201") != nil)
    }

    @Test func `a small limit holds in every transaction`() throws {
        let store = try store(keeping: 10)
        for number in 1...60 {
            try store.apply(number.isMultiple(of: 3) ? #"{"Thing": 5}"# : "{}")
            #expect(try count(store) == min(number, 10))
        }
        #expect(try store.rows("SELECT min(sequence), max(sequence) FROM _broker_jobs") == ["51|60"])
    }

    @Test func `lines of a rolled back transaction do not count`() throws {
        let store = try store(keeping: 10)
        for _ in 1...10 { try store.apply("{}") }
        for _ in 1...5 {
            try store.store.begin()
            for _ in 1...20 { _ = try store.store.apply(store.job("{}")) }
            store.store.rollback()
        }
        try store.apply("{}")
        #expect(try store.rows("SELECT count(*), max(sequence) FROM _broker_jobs") == ["10|111"])
        try store.reopen()
        try store.apply("{}")
        #expect(try count(store) == 10)
    }

    @Test func `outcomes of a transaction that was undone push none out`() throws {
        let store = try store(keeping: 10)
        for number in 1...5 { try store.apply("{}", id: "job \(number)") }
        try store.store.begin()
        for _ in 1...4 { _ = try store.store.apply(store.job("{}")) }
        store.store.rollback()
        for _ in 1...5 { try store.apply("{}") }
        #expect(try count(store) == 10)
        #expect(try store.store.outcome(ofJob: "job 1") != nil)
        #expect(store.store.forgottenThrough == 0)
    }

    @Test func `the newest sequence of which the outcome is forgotten is exact, after a rollback and a start, too`()
        throws
    {
        let test = try store(keeping: 10)
        #expect(test.store.forgottenThrough == 0)
        for number in 1...10 { try test.apply("{}", id: "job \(number)") }
        #expect(test.store.forgottenThrough == 0)
        for number in 11...13 {
            try test.apply("{}", id: "job \(number)")
            #expect(test.store.forgottenThrough == Int64(number - 10))
        }
        try test.store.begin()
        for _ in 1...5 { _ = try test.store.apply(test.job("{}")) }
        test.store.rollback()
        #expect(test.store.forgottenThrough == 3)
        #expect(try test.store.outcome(ofJob: "job 3") == nil)
        #expect(try test.store.outcome(ofJob: "job 4") != nil)
        try test.reopen()
        #expect(test.store.forgottenThrough == 3)
    }

    @Test func `the oldest job that is remembered is not applied again when many others have come`() throws {
        let store = try store(keeping: 1_000)
        for number in 1...3_000 { try store.apply("{}", id: "job \(number)") }
        let oldest = store.store.forgottenThrough + 1
        #expect(oldest > 1_000)
        guard case .duplicate = try store.apply("{}", id: "job \(oldest)") else {
            Issue.record("the job \(oldest) was applied twice")
            return
        }
    }

    @Test func `a count that was lowered is reached in steps`() throws {
        let path: TestStore = try store(keeping: 10_000)
        try path.store.begin()
        for _ in 1...2_500 { _ = try path.store.apply(path.job("{}")) }
        try path.store.commit()
        var options = StoreOptions()
        options.retention = LedgerRetention(count: 10, seconds: 1_000)
        let store = try Store(path: path.path, plan: path.plan, options: options)
        var counts: [Int] = []
        for _ in 1...3 {
            try store.begin()
            _ = try store.apply(path.job("{}"))
            try store.commit()
            counts.append(try count(path))
        }
        #expect(counts == [1_501, 502, 10])
    }

    @Test func `a time without end forgets nothing`() throws {
        let store = try store(keeping: 100, seconds: .max)
        for number in 0..<3 { try store.apply("{}", now: Int64(number) * 1_000_000_000) }
        #expect(try count(store) == 3)
    }

    @Test func `a clock that is set back removes no outcome early, and later outcomes are removed on time`() throws {
        let store = try store(keeping: 100, seconds: 60)
        for now: Int64 in [1_000_000, 5_000, 5_500, 6_200, 1_060_500] { try store.apply("{}", now: now) }
        #expect(try store.rows("SELECT sequence FROM _broker_jobs") == ["5"])
    }

    // MARK: - Sequences, ids, locks

    @Test func `reserved sequences stay reserved for the next server`() throws {
        #expect(try store.store.openSequences(100) == 0)
        #expect(try store.store.lastSequence() == 100)
        try store.reopen()
        #expect(try store.store.openSequences(100) == 100)
        try store.store.begin()
        try store.store.reserveSequences(through: 107)
        try store.store.commit()
        try store.reopen()
        #expect(try store.store.lastSequence() == 107)
    }

    @Test func `a failure that is written late does not hide what came after it`() throws {
        let early = try store.job(#"{"Thing": 5}"#, id: "job")
        let earlyOther = try store.job(#"{"Thing": 5}"#, id: "other")
        try store.apply(#"{"Thing": 6}"#, id: "job")
        try store.apply(things((1, "a")), id: "other")
        try store.store.begin()
        _ = try store.store.apply(early)
        _ = try store.store.apply(earlyOther)
        try store.store.commit()
        #expect(try store.store.outcome(ofJob: "job")?.sequence == 3)
        #expect(try store.store.outcome(ofJob: "other")?.isFailure == false)
    }

    @Test func `ids that differ in Unicode form only are two`() throws {
        try store.apply(things((1, "a")), id: "e\u{301}")
        guard case .completed = try store.apply(things((2, "a")), id: "\u{e9}") else {
            Issue.record("taken for one")
            return
        }
        #expect(try store.store.outcome(ofJob: "e\u{301}")?.sequence == 1)
        #expect(try store.store.outcome(ofJob: "\u{e9}")?.sequence == 2)
    }

    @Test func `every connection waits for locks from its first statement on`() throws {
        for access in [Connection.Access.write, .read, .look] {
            #expect(try Connection(store: store.path, access).integer("PRAGMA busy_timeout") == 5_000)
        }
    }

    @Test func `a transaction that meets a lock says so at once, and the next one goes through`() throws {
        let other = try Connection(store: store.path)
        try other.execute("BEGIN IMMEDIATE")
        let error = try #require(throws: StoreError.self) { try store.store.begin() }
        #expect(error.isLocked)
        store.store.rollback()
        try other.execute("COMMIT")
        try store.apply(things((1, "a")), id: "job")
    }

    private func isFailed(_ end: JobOutcome) -> Bool {
        if case .failed = end { true } else { false }
    }
}
