import BrokerModel
import TestSupport
import Testing

@testable import BrokerStore

/// Exactly once: what the ledger remembers of a job, and for how long.
@Suite(.timeLimit(.minutes(5))) struct LedgerTests {
    private static let model = Models.of(["Thing": "id integer64, value string"])

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    private func things(_ values: (Int, String)...) -> String {
        payload("Thing", values.map { #"{"id": \#($0), "value": "\#($1)"}"# })
    }

    private func storedText(_ id: String) throws -> String {
        String(decoding: try #require(try store.store.outcome(ofJob: id)).body, as: UTF8.self)
    }

    @Test func `the same id with the same content answers the first outcome and does nothing`() throws {
        try store.apply(things((1, "a")), id: "job")
        try store.apply(things((1, "b")), id: "other")
        let outcome = try #require(try store.apply(things((1, "a")), id: "job").earlier)
        #expect(outcome.sequence == 1 && !outcome.isFailure)
        #expect(String(decoding: outcome.body, as: UTF8.self).contains(#""inserted":1"#))
        #expect(try store.rows("SELECT value FROM Thing") == ["b"])
    }

    @Test func `the same id with other content is a conflict, and the first outcome stays`() throws {
        try store.apply(things((1, "a")), id: "job")
        guard case .conflict(let fault, let committed) = try store.apply(things((1, "b")), id: "job") else {
            return #expect(Bool(false), "not refused")
        }
        #expect(committed.sequence == 1 && fault.code == .idConflict)
        #expect(fault.message.contains("\"job\"") && fault.message.contains("compared byte by byte: another encoder"))
        #expect(try store.rows("SELECT value FROM Thing") == ["a"])
        #expect(try store.store.outcome(ofJob: "job")?.isFailure == false)
    }

    @Test func `an outcome keeps some of many rejections and counts the others, and the answer lists them all`() throws
    {
        let outcome = try #require(
            try store.apply(payload("Thing", Array(repeating: "{}", count: 11_000)), id: "bad", .skip).outcome)
        #expect(outcome.rejected.count == 10_000)
        #expect(String(decoding: outcome.members, as: UTF8.self).contains("/Thing/9999"))
        let stored = try storedText("bad")
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
        let stored = try storedText("warned")
        #expect(stored.utf8.count < 20_000)
        let listed = stored.split(separator: "unknown key number", omittingEmptySubsequences: false).count - 1
        #expect(listed > 100)
        #expect(stored.contains(#"{"code":"unknownKey","entity":"Thing","count":\#(901 - listed)}"#))
        #expect(try store.outcome("{\"Thing\": {\"id\": 1, \"\(long)\": 1}}").members.count < 1_000)
    }

    @Test func `a failed job is remembered, and its id may run again with any content`() throws {
        let bad = #"{"Thing": [{"id": "x"}]}"#
        #expect(try store.apply(bad, id: "job").fault != nil)
        #expect(try store.store.outcome(ofJob: "job")?.isFailure == true)
        #expect(try storedText("job").contains(#""path":"/Thing/0/id""#))
        #expect(try store.apply(bad, id: "job").fault != nil)
        #expect(try store.store.outcome(ofJob: "job")?.sequence == 2)
        #expect(try store.apply(things((1, "a")), id: "job").outcome != nil)
        #expect(try store.store.outcome(ofJob: "job")?.isFailure == false)
        #expect(try store.rows("SELECT count(*) FROM _broker_jobs") == ["1"])
    }

    @Test func `an id that the server made is taken, too`() throws {
        try store.apply(things((1, "a")))
        #expect(try store.apply(things((1, "a")), id: "job-1").isConflict)
    }

    @Test func `two jobs of one id in one transaction are one job`() throws {
        let jobs = try (0..<2).map { _ in try store.job(things((1, "a")), id: "job") }
        #expect(try store.applyTogether(jobs)[1].earlier?.sequence == 1)
    }

    @Test func `outcomes and the newest sequence survive reopening`() throws {
        #expect(try store.store.lastSequence() == 0)
        try store.apply(things((1, "a")), id: "é \u{1F600} \"job\"")
        try store.apply(#"{"Thing": 5}"#, id: "failed")
        try store.reopen()
        #expect(try store.store.lastSequence() == 2)
        #expect(try store.store.outcome(ofJob: "failed")?.isFailure == true)
        #expect(try store.store.outcome(ofJob: "never") == nil)
        #expect(try store.apply(things((1, "a")), id: "é \u{1F600} \"job\"").earlier != nil)
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

    // MARK: - Retention counts rows

    private func store(keeping count: Int, seconds: Int = 1_000) throws -> TestStore {
        try TestStore(Self.model) { $0.retention = LedgerRetention(count: count, seconds: seconds) }
    }

    private func count(_ store: TestStore) throws -> Int {
        Int(try store.rows("SELECT count(*) FROM _broker_jobs")[0])!
    }

    private func apply(_ count: Int, to store: TestStore, isUndone: Bool = false) throws {
        try store.applyTogether((0..<count).map { _ in try store.job("{}") }, isUndone: isUndone)
    }

    @Test func `outcomes beyond the count are forgotten, oldest first`() throws {
        let store = try store(keeping: 100)
        try apply(2_000, to: store)
        // Some more are there, so that most jobs need not forget any.
        #expect(try store.rows("SELECT min(sequence), max(sequence), count(*) FROM _broker_jobs") == ["1898|2000|103"])
    }

    @Test(arguments: [false, true])
    func `an outcome that expires with a job is unknown to the next one, also in one batch`(isTogether: Bool) throws {
        let store = try store(keeping: 1_000, seconds: 10)
        try store.apply(things((1, "x")), id: "a", now: 0)
        let jobs = try [(2, "b"), (3, "a")].map { try store.job(things(($0, "x")), id: $1, now: 20_000) }
        if isTogether { #expect(try store.applyBatch(jobs) == nil) }
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
        let store = try store(keeping: 1_000_000, seconds: 60)
        try store.applyTogether((1...500).map { try store.job("{}", now: $0 <= 450 ? 0 : 60_001) })
        #expect(try store.rows("SELECT min(sequence), count(*) FROM _broker_jobs") == ["451|50"])
        try store.applyTogether((1...500).map { _ in try store.job("{}", now: 1_000_000) })
        #expect(try store.rows("SELECT min(sequence) FROM _broker_jobs") == ["501"])
        #expect(try store.store.lastSequence() == 1_000)
    }

    @Test func `duplicates and failing retries of other ids push no outcome out`() throws {
        let store = try store(keeping: 1_000)
        try store.apply(things((1, "a")), id: "first")
        try store.apply(things((2, "a")), id: "other")
        for _ in 0..<8 {
            try store.applyTogether(
                (0..<300).flatMap { _ in
                    try [store.job(things((2, "a")), id: "other"), store.job(#"{"Thing": 5}"#, id: "failing")]
                })
        }
        #expect(store.nextSequence > 4_000)
        #expect(try store.apply(things((1, "a")), id: "first").earlier != nil)
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

    @Test func `lines of a transaction that was undone do not count, and push none out`() throws {
        let store = try store(keeping: 10)
        for number in 1...5 { try store.apply("{}", id: "job \(number)") }
        try apply(4, to: store, isUndone: true)
        for _ in 1...5 { try store.apply("{}") }
        #expect(
            try count(store) == 10 && store.store.outcome(ofJob: "job 1") != nil && store.store.forgottenThrough == 0)
        for _ in 1...5 { try apply(20, to: store, isUndone: true) }
        try store.apply("{}")
        #expect(try store.rows("SELECT count(*), max(sequence) FROM _broker_jobs") == ["10|115"])
        try store.reopen()
        try store.apply("{}")
        #expect(try count(store) == 10)
    }

    @Test func `the newest sequence of which the outcome is forgotten is exact, after a rollback and a start, too`()
        throws
    {
        let test = try store(keeping: 10)
        #expect(test.store.forgottenThrough == 0)
        for number in 1...13 {
            try test.apply("{}", id: "job \(number)")
            #expect(test.store.forgottenThrough == Int64(max(0, number - 10)))
        }
        try apply(5, to: test, isUndone: true)
        #expect(test.store.forgottenThrough == 3)
        #expect(try test.store.outcome(ofJob: "job 3") == nil && test.store.outcome(ofJob: "job 4") != nil)
        try test.reopen()
        #expect(test.store.forgottenThrough == 3)
    }

    @Test func `the oldest job that is remembered is not applied again when many others have come`() throws {
        let store = try store(keeping: 1_000)
        for number in 1...3_000 { try store.apply("{}", id: "job \(number)") }
        let oldest = store.store.forgottenThrough + 1
        #expect(oldest > 1_000)
        #expect(try store.apply("{}", id: "job \(oldest)").earlier != nil)
    }

    @Test func `the time of the oldest outcome follows what is deleted and replaced, and is read again`() throws {
        let test = try store(keeping: 100, seconds: 60)
        #expect(test.store.oldestOutcomeTime == nil)
        try test.apply(#"{"Thing": [{"id": "x"}]}"#, id: "failed", now: 4_000)
        try test.apply("{}", now: 5_000)
        #expect(test.store.oldestOutcomeTime == 4_000)
        // A failed job that is sent again has its outcome at the end.
        try test.apply("{}", id: "failed", now: 6_000)
        #expect(test.store.oldestOutcomeTime == 5_000)
        try test.applyTogether([test.job("{}", now: 7_000)], isUndone: true)
        #expect(test.store.oldestOutcomeTime == 5_000)
        try test.apply("{}", now: 65_500)
        #expect(test.store.oldestOutcomeTime == 6_000)
        try test.reopen()
        #expect(test.store.oldestOutcomeTime == 6_000)
    }

    @Test func `a count that was lowered is reached in steps`() throws {
        let test = try store(keeping: 10_000)
        try apply(2_500, to: test)
        var options = StoreOptions()
        options.retention = LedgerRetention(count: 10, seconds: 1_000)
        let store = try Store(path: test.path, plan: test.plan, options: options)
        let counts = try (1...3).map { _ in
            try store.begin()
            _ = try store.apply(test.job("{}"))
            try store.commit()
            return try count(test)
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
        let early = try ["job", "other"].map { try store.job(#"{"Thing": 5}"#, id: $0) }
        try store.apply(#"{"Thing": 6}"#, id: "job")
        try store.apply(things((1, "a")), id: "other")
        try store.applyTogether(early)
        #expect(try store.store.outcome(ofJob: "job")?.sequence == 3)
        #expect(try store.store.outcome(ofJob: "other")?.isFailure == false)
    }

    @Test func `ids that differ in Unicode form only are two`() throws {
        try store.apply(things((1, "a")), id: "e\u{301}")
        #expect(try store.apply(things((2, "a")), id: "\u{e9}").outcome != nil)
        #expect(try ["e\u{301}", "\u{e9}"].map { try store.store.outcome(ofJob: $0)?.sequence } == [1, 2])
    }

    @Test func `every connection waits for locks from its first statement on`() throws {
        for access in [Connection.Access.write, .read, .look] {
            #expect(try Connection(store: store.path, access).integer("PRAGMA busy_timeout") == 5_000)
        }
    }

    @Test func `a transaction that meets a lock says so at once, and the next one goes through`() throws {
        let other = try Connection(store: store.path)
        try other.execute("BEGIN IMMEDIATE")
        #expect(try #require(throws: StoreError.self) { try store.store.begin() }.isLocked)
        store.store.rollback()
        try other.execute("COMMIT")
        try store.apply(things((1, "a")), id: "job")
    }
}

/// The list of failed jobs, from the ledger.
@Suite(.timeLimit(.minutes(5))) struct FailureListTests {
    private let store: TestStore

    init() throws { store = try TestStore(Models.of(["Thing": "id integer64"])) }

    private func failures(_ filter: FailureFilter = FailureFilter(), as asker: JobOwner = .server) throws -> [String] {
        try LedgerReader(path: store.path, store.store.jobs).failures(9, filter, as: asker).map(\.id)
    }

    /// Many lines at once, of jobs that never were.
    private func insert(_ count: Int, after sequence: Int, failed: Bool, code: String = "busy", user: Int = 1) throws {
        try store.execute(
            """
            INSERT INTO _broker_jobs (sequence, id, failed, ended, outcome, owner)
                WITH RECURSIVE n (i) AS (SELECT \(sequence + 1) UNION ALL SELECT i + 1 FROM n WHERE i < \(sequence + count))
                SELECT i, 'line-' || i, \(failed ? 1 : 0), 1000 * i, '{"code":"\(code)","message":"m"}', \(user) FROM n
            """)
    }

    @Test func `a failure is listed, however many jobs completed or failed after it`() throws {
        try store.apply(#"{"Thing": [{"id": "x"}]}"#, id: "first")
        try insert(30_000, after: 1, failed: false)
        #expect(try failures() == ["first"])
        try insert(30_000, after: 40_000, failed: true)
        #expect(try failures().first == "line-70000" && failures().count == 9)
        #expect(try failures(FailureFilter(code: "invalidValue")) == ["first"])
    }

    @Test func `failures are chosen by their time, user and code, and by all of them`() throws {
        try insert(3, after: 0, failed: true, code: "busy", user: 70_001)
        try insert(3, after: 3, failed: true, code: "busyOtherwise", user: 70_002)
        let first = ["line-3", "line-2", "line-1"]
        #expect(try failures(FailureFilter(since: 5_000)) == ["line-6", "line-5"])
        #expect(try failures(FailureFilter(user: 70_001)) == first)
        #expect(try failures(FailureFilter(code: "busy")) == first)
        #expect(try failures(FailureFilter(since: 2_000, user: 70_001, code: "busy")) == ["line-3", "line-2"])
        #expect(try failures(FailureFilter(user: 70_002, code: "busy")).isEmpty)
        #expect(try failures(as: JobOwner(user: 70_001)) == first)
        #expect(try failures(FailureFilter(user: 70_002), as: JobOwner(user: 70_001)).isEmpty)
        let error = Array(#"{"code":"busyOtherwise","message":"m"}"#.utf8)
        #expect(!FailureFilter(code: "busy").includes(acceptedAt: 1, of: .server, error: error))
        #expect(FailureFilter(since: 1, code: "busyOtherwise").includes(acceptedAt: 1, of: .server, error: error))
        #expect(!FailureFilter(since: 2).includes(acceptedAt: 1, of: .server, error: error))
    }

    @Test func `the index has failures alone`() throws {
        try insert(10, after: 0, failed: false)
        try insert(2, after: 10, failed: true)
        let count = "SELECT count(*) FROM _broker_jobs INDEXED BY _broker_failures WHERE failed = 1"
        #expect(try store.rows(count) == ["2"])
        #expect(try store.rows("EXPLAIN QUERY PLAN " + count)[0].contains("INDEX _broker_failures"))
        #expect(try store.isSound())
    }
}

/// Texts that jobs write with their changes.
@Suite(.timeLimit(.minutes(5))) struct BookmarkTests {
    private static let model = Models.of(["Land": "id integer64, name string"])
    private static let land = #"{"Land": {"id": 1, "name": "a"}}"#

    private let test: TestStore

    init() throws { test = try TestStore(Self.model) { $0.retention = LedgerRetention(count: 10, seconds: 1_000) } }

    private func job(
        _ value: String?, of name: String = "feed", _ payload: String = land, id: String? = nil
    ) throws -> StoreJob {
        try test.job(payload, id: id).with(bookmark: Bookmark(name: name, value: value))
    }

    private var bookmarks: [String] {
        get throws { try test.rows("SELECT name, value, sequence FROM _broker_bookmarks ORDER BY name") }
    }

    @Test func `a job writes its bookmark, also if it changes nothing, and null deletes it`() throws {
        try test.apply(job("a"))
        #expect(try bookmarks == ["feed|a|1"])
        try test.apply(job("b\u{0}\u{1F600}"))
        try test.apply(job("", of: "Feed"))
        let reader = try LedgerReader(path: test.path, test.store.jobs)
        #expect(try reader.bookmark(named: "feed") == StoredBookmark(value: "b\u{0}\u{1F600}", sequence: 2))
        #expect(try reader.bookmark(named: "Feed") == StoredBookmark(value: "", sequence: 3))
        #expect(try reader.bookmark(named: "fee") == nil)
        for _ in 0..<2 {
            try test.apply(job(nil))
            #expect(try reader.bookmark(named: "feed") == nil)
        }
        #expect(try bookmarks == ["Feed||3"])
    }

    @Test func `a job that fails, is tried or is a duplicate writes no bookmark`() throws {
        try test.apply(job("a", id: "one"))
        #expect(try test.apply(job("b", #"{"Land": {"id": "x"}}"#)).fault != nil)
        try test.apply(job("c").with(isDryRun: true))
        #expect(try test.apply(job("d", id: "one")).earlier != nil)
        #expect(try test.apply(job("e", #"{"Land": []}"#, id: "one")).isConflict)
        #expect(try bookmarks == ["feed|a|1"])
    }

    @Test(.mergesSets) func `jobs that share a transaction write theirs in order, and none if it is undone`() throws {
        #expect(try test.applyBatch([job("a"), job(nil), job("b"), job("c", of: "other")])?.count == 4)
        #expect(try bookmarks == ["feed|b|3", "other|c|4"])
        try test.store.begin()
        _ = try test.store.apply(job("d"))
        #expect(try test.ownRows("SELECT value FROM _broker_bookmarks WHERE name = 'feed'") == ["d"])
        test.store.rollback()
        #expect(try bookmarks == ["feed|b|3", "other|c|4"])
    }

    @Test func `bookmarks stay when the model changes and outcomes are forgotten`() throws {
        try test.apply(job("a"))
        for _ in 0..<20 { try test.apply(Self.land) }
        #expect(try test.store.outcome(ofJob: "job-1") == nil)
        try test.reopen(Models.of(["Land": "id integer64, name string, size double"]))
        #expect(try bookmarks == ["feed|a|1"])
    }
}

/// Ids in memory, and the lines of the ledger that they lead to.
@Suite(.timeLimit(.minutes(5))) struct JobIndexTests {
    @Test func `the index agrees with a dictionary, whatever is set, replaced, undone and forgotten`() {
        var generator = SeededGenerator(for: "job index")
        let index = JobIndex()
        var durable: [String: Int64] = [:]
        var sequence: Int64 = 0
        var first: Int64 = 0
        for _ in 0..<300 {
            var pending = durable
            for _ in 0..<Int.random(in: 0...60, using: &generator) {
                let id = "job \(Int.random(in: 0..<4_000, using: &generator))"
                sequence += 1
                index.set(id, to: sequence, replacing: pending[id])
                pending[id] = sequence
            }
            let isDurable = Int.random(in: 0..<3, using: &generator) > 0
            index.transactionEnded(isDurable: isDurable)
            if isDurable { durable = pending }
            if Int.random(in: 0..<10, using: &generator) == 0 {
                first = sequence / 2
                index.expire(before: first)
                durable = durable.filter { $0.value >= first }
            }
            for id in (0..<4_000).map({ "job \($0)" }).shuffled(using: &generator).prefix(50) {
                let found = index.sequences(of: id)
                if let line = durable[id] { #expect(found.contains(line)) }
                // A forgotten id may be found for a while, and its line is not.
                #expect(found.allSatisfy { $0 == durable[id] || $0 < first })
            }
        }
    }

    @Test func `the oldest id that is remembered is found when others have made every shard grow`() {
        let index = JobIndex()
        for number in 1...2_000 { index.load("job \(number)", Int64(number)) }
        index.expire(before: 1_000)
        for number in 2_001...60_000 { index.load("job \(number)", Int64(number)) }
        #expect(index.sequences(of: "job 1000") == [1_000])
        #expect(index.sequences(of: "job 1001") == [1_001])
    }

    @Test func `ids that are added and removed again and again use no memory`() {
        let index = JobIndex()
        for round in 1...5_000 {
            index.set("job \(round)", to: Int64(round), replacing: nil)
            index.transactionEnded(isDurable: false)
        }
        #expect(index.sequences(of: "job 5000").isEmpty)
        #expect(index.capacity <= 256 * 16 * 2)
    }

    @Test func `an id whose line is of another id is unknown`() throws {
        let test = try TestStore(Models.of(["T": "id integer64"]))
        try test.apply(#"{"T": {"id": 1}}"#, id: "one")
        // As if two ids had one hash.
        test.store.jobs.set("two", to: 1, replacing: nil)
        #expect(try test.store.outcome(ofJob: "two") == nil)
        #expect(try test.store.outcome(ofJob: "one")?.sequence == 1)
    }
}

@Suite(.timeLimit(.minutes(5))) struct ContentHashTests {
    /// The hashes of the bytes 0, 1, 2 … with the key 0, 1 … 15, from `openssl mac -macopt size:16 SIPHASH`.
    ///
    /// The first ones are those of the authors' own test.
    @Test(arguments: [
        (0, "a3817f04ba25a8e66df67214c7550293"), (1, "da87c1d86b99af44347659119b22fc45"),
        (2, "8177228da4a45dc7fca38bdef60affe4"), (7, "a1f1ebbed8dbc153c0b84aa61ff08239"),
        (8, "3b62a9ba6258f5610f83e264f31497b4"), (9, "264499060ad9baabc47f8b02bb6d71ed"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"), (16, "6ee2a4ca67b054bbfd3315bf85230577"),
        (17, "473d06e8738db89854c066c47ae47740"), (63, "5150d1772f50834a503e069a973fbd7c"),
        (255, "1c9bb67528165f8e468248e3799b0eab"), (256, "67a00304d3834c4612eaee7b5f579acb"),
        (257, "1b25fee1ef6fbb23179c26056c2995fc"), (1_000, "24dafa789ae03d86536a4b57372f0ba6"),
    ])
    func `it is SipHash-2-4 of 128 bits`(count: Int, expected: String) {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        let key: (UInt64, UInt64) = (0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908)
        let hash = bytes.withUnsafeBytes { ContentHash.hash($0, key: key) }
        #expect(hash.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() == expected)
    }

    /// The hashes of as many words, whose bytes are 0, 1, 2 …, from `openssl mac -macopt size:16 -macopt c-rounds:1
    /// -macopt d-rounds:3 SIPHASH`. SipHash ends with a word that has the length in its highest byte.
    @Test(arguments: [
        (0, "01f136da4fcd17c8fedd139ae28ece33"), (1, "4be210f8d4e4c9abef2ff400154ab242"),
        (2, "9544c73d8b7c7024499f21434191b659"), (3, "fda0561c14d19d99fba903ff06a6af16"),
        (7, "7cf73258947de50fee9193afe69d1f5d"), (8, "d14568fca9dcfc82e9b1e7b54ff115ea"),
        (16, "a52ae315f3538c356a7a3f59744ed4da"), (125, "d69b4128235fc535033a46e85b3d1bc8"),
    ])
    func `fields are hashed by SipHash-1-3 of 128 bits`(count: Int, expected: String) {
        var hasher = FieldHasher()
        for word in 0..<count {
            hasher.add((0..<8).reduce(0) { $0 | UInt64(UInt8(truncatingIfNeeded: 8 * word + $1)) << (8 * UInt64($1)) })
        }
        hasher.add(UInt64(UInt8(truncatingIfNeeded: 8 * count)) << 56)
        let hash = hasher.finish().withBytes { Array($0) }
        #expect(hash.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() == "03" + expected)
    }

    @Test func `a field of bytes is hashed like its length and its words`() {
        let bytes = (0..<40).map { UInt8($0 * 6) }
        for count in 0...40 {
            var whole = FieldHasher()
            bytes[..<count].withUnsafeBytes { whole.add($0) }
            var words = FieldHasher()
            words.add(UInt64(count))
            for start in stride(from: 0, through: count, by: 8) {
                let word = bytes[start..<min(start + 8, count)]
                words.add(word.reversed().reduce(0) { $0 << 8 | UInt64($1) })
            }
            #expect(whole.finish() == words.finish(), "\(count) bytes")
        }
    }

    @Test func `a job's hash has the bytes that it is made of, and differs where they do`() {
        let hashes = (0...40).map { count in (0..<count).map { UInt8($0 + 1) } }
        for bytes in hashes {
            #expect(JobHash(bytes).withBytes { Array($0) } == bytes)
            #expect(hashes.count { JobHash($0) == JobHash(bytes) } == 1)
            guard !bytes.isEmpty else { continue }
            for place in bytes.indices {
                var changed = bytes
                changed[place] ^= 0x80
                #expect(JobHash(changed) != JobHash(bytes))
            }
        }
        #expect(JobHash([0]) != JobHash([0, 0]), "zeros count")
    }

    @Test func `every byte of the content counts`() {
        let content = Array(#"{"entity":"Employee","json":[{"id":1}]}"#.utf8)
        let hash = { (bytes: [UInt8]) in bytes.withUnsafeBytes { ContentHash.hash($0) } }
        let all = content.indices.map { place in
            var changed = content
            changed[place] ^= 1
            return hash(changed)
        }
        #expect(Set(all + [hash(content), hash(content + [0])]).count == content.count + 2)
    }
}
