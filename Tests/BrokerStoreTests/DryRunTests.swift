import BrokerModel
import Testing

@testable import BrokerStore

/// Jobs that are tried, and jobs that may delete only so many objects.
@Suite(.timeLimit(.minutes(5))) struct DryRunTests {
    private static let model = """
        {"entities": {
          "Land": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
              "towns": {"entity": "Town", "toMany": true, "inverse": "land", "deleteRule": "cascade"}}},
          "Town": {"identity": "id", "attributes": {"id": "string"}, "relationships": {
              "land": {"entity": "Land", "inverse": "towns"}}},
          "Port": {"parent": "Town", "attributes": {"depth": "integer64"}},
          "Note": {"attributes": {"text": "string"}}
        }}
        """

    private static let sync = #"{"op": "sync", "entity": "Land", "json": [{"id": 1, "name": "b"}, {"id": 30}]}"#

    /// 20 lands with three towns each, one of them a port.
    private func store() throws -> TestStore {
        let test = try TestStore(Self.model)
        let lands = (1...20).map {
            #"{"id": \#($0), "name": "a", "towns": [{"id": "a\#($0)"}, {"id": "b\#($0)"}]}"#
        }
        let ports = (1...20).map { #"{"id": "p\#($0)", "land": \#($0)}"# }
        try test.apply(
            #"{"Land": [\#(lands.joined(separator: ","))], "Port": [\#(ports.joined(separator: ","))]}"#)
        return test
    }

    private func rows(_ test: TestStore) throws -> [String] {
        try ["Land", "Town", "Note", "_broker_jobs", "_broker_feed"].flatMap {
            try test.rows("SELECT '\($0)', * FROM \($0) ORDER BY 2")
        }
    }

    private func job(
        _ test: TestStore, _ operations: String, isDryRun: Bool = false, _ limit: DeletionLimit? = nil
    ) throws -> StoreJob {
        try test.job(operations: operations, wantsKeys: false).with(isDryRun: isDryRun, limit)
    }

    private func counts(_ outcome: Outcome) -> [String] {
        outcome.changes.map { "\($0) +\($1.inserted) ~\($1.updated) =\($1.unchanged) -\($1.deleted)" }
    }

    // MARK: - Dry runs

    @Test(arguments: [sync, #"{"entity": "Note", "json": [{}, {}]}, \#(sync)"#])
    func `a dry run says what the job would do, and leaves nothing`(_ operations: String) throws {
        let test = try store()
        let before = try rows(test)
        let end = try test.apply(job(test, operations, isDryRun: true))
        guard case .completed(let tried) = end else { throw Fault(.internal, "\(end)") }
        #expect(try rows(test) == before)
        guard case .completed(let outcome) = try test.apply(job(test, operations)) else {
            throw Fault(.internal, "the job failed")
        }
        #expect(counts(tried) == counts(outcome))
        #expect(counts(tried).contains("Land +1 ~1 =0 -19"))
        #expect(counts(tried).contains("Port +0 ~0 =0 -19"))
    }

    @Test func `the examples are ten keys of each entity and change at most, whatever is counted`() throws {
        let test = try store()
        for operations in [Self.sync, "\(Self.sync), \(Self.sync)"] {
            guard case .completed(let outcome) = try test.apply(job(test, operations, isDryRun: true)) else {
                throw Fault(.internal, "the job failed")
            }
            let text = String(decoding: try #require(outcome.examples), as: UTF8.self)
            #expect(
                text.contains(#""Land":{"inserted":[30],"updated":[1],"deleted":[2,3,4,5,6,7,8,9,10,11]}"#), "\(text)")
            let ports = try #require(text.firstMatch(of: #/"Port":\{"deleted":\[([^\]]*)\]\}/#)?.output.1)
            #expect(ports.split(separator: ",").count == 10)
            #expect(outcome.keys == nil)
        }
    }

    @Test func `a dry run that fails leaves its id free, and one whose id is committed is a duplicate`() throws {
        let test = try TestStore(Self.model)
        func apply(_ payload: String, isDryRun: Bool = true) throws -> JobOutcome {
            try test.apply(test.job(payload, id: "a").with(isDryRun: isDryRun))
        }
        guard case .failed = try apply(#"{"Land": {"id": "x"}}"#) else { throw Fault(.internal, "no failure") }
        #expect(try test.store.outcome(ofJob: "a") == nil)
        guard case .completed = try apply(#"{"Land": {"id": 1}}"#) else { throw Fault(.internal, "a failure") }
        #expect(try test.store.outcome(ofJob: "a") == nil)
        guard case .completed = try apply(#"{"Land": {"id": 2}}"#, isDryRun: false) else {
            throw Fault(.internal, "a failure")
        }
        guard case .duplicate = try apply(#"{"Land": {"id": 2}}"#) else { throw Fault(.internal, "no duplicate") }
        guard case .conflict = try apply(#"{"Land": {"id": 3}}"#) else { throw Fault(.internal, "no conflict") }
        #expect(try test.rows("SELECT id FROM Land") == ["2"])
    }

    @Test func `a dry run has a position in the journal, and row keys go on as if it had not been`() throws {
        let test = try TestStore(Self.model)
        try test.store.beginLog("log", after: 0)
        let note = #"{"entity": "Note", "json": {}}"#
        _ = try test.apply(job(test, note, isDryRun: true))
        #expect(test.store.history?.position == 1)
        _ = try test.apply(job(test, note))
        #expect(try test.rows("SELECT _pk FROM Note") == ["1"])
        #expect(try test.rows("SELECT sequence FROM _broker_jobs") == ["2"])
    }

    // MARK: - Limits of deletions

    private func fault(
        _ test: TestStore, _ limit: DeletionLimit, _ operations: String = sync
    ) throws -> String? {
        let end = try test.apply(job(test, operations, isDryRun: true, limit))
        guard case .failed(let fault) = end else { return nil }
        #expect(fault.code == .tooManyDeletions)
        return fault.message
    }

    @Test func `what delete rules delete counts for the limit of all objects`() throws {
        let test = try store()
        #expect(try fault(test, .objects(76)) == nil)
        let message = try #require(try fault(test, .objects(75)))
        #expect(message.contains("19 Land, 19 Port, 38 Town, 76 objects in all, and its `maximumDeletions` is 75"))
        let before = try rows(test).filter { !$0.hasPrefix("_broker") }
        let end = try test.apply(job(test, Self.sync, .objects(0)))
        guard case .failed = end else { throw Fault(.internal, "\(end)") }
        #expect(try rows(test).filter { !$0.hasPrefix("_broker") } == before)
    }

    @Test func `a share is of the objects that an entity with its subentities had before the job`() throws {
        let test = try store()
        // 19 of 20 lands, and 57 of 60 towns, ports among them.
        #expect(try fault(test, .share(thousandthsOfPercent: 95_000)) == nil)
        let message = try #require(try fault(test, .share(thousandthsOfPercent: 94_999)))
        #expect(
            message.contains("19 of 20 Land, 57 of 60 Town, and its `maximumDeletions` is 94.999% of"), "\(message)")
        let port = #"{"op": "delete", "entity": "Port", "objects": ["p1", "p2", "p3"]}"#
        #expect(try fault(test, .share(thousandthsOfPercent: 5_000), port) == nil)
        #expect(try fault(test, .share(thousandthsOfPercent: 4_000), port) != nil)
    }

    @Test func `an object that is deleted and made again is not deleted`() throws {
        let test = try store()
        let operations =
            #"{"op": "delete", "entity": "Port", "objects": ["p1"]}, {"entity": "Port", "json": {"id": "p1"}}"#
        #expect(try fault(test, .objects(0), operations) == nil)
    }
}
