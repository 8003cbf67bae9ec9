import BrokerModel
import Testing

@testable import BrokerStore

/// Exactly once: what the ledger remembers of a job, and for how long.
@Suite struct LedgerTests {
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
        guard case .failed(let fault) = try store.apply(things((1, "b")), id: "job") else {
            Issue.record("not refused")
            return
        }
        #expect(fault.code == .idConflict)
        #expect(fault.message.contains("\"job\""))
        #expect(try store.rows("SELECT value FROM Thing") == ["a"])
        #expect(try store.store.outcome(ofJob: "job")?.isFailure == false)
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
        guard case .failed(let fault) = try store.apply(things((1, "a")), id: "job-1") else {
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
        let reader = try LedgerReader(path: store.path)
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
        #expect(try store.rows("SELECT min(sequence), max(sequence), count(*) FROM _broker_jobs") == ["1901|2000|100"])
    }

    @Test func `outcomes beyond their time are forgotten, but never the newest`() throws {
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

    private func isFailed(_ end: JobEnd) -> Bool {
        if case .failed = end { true } else { false }
    }
}
