import BrokerJSON
import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// The memory that a job takes while it is applied.
@Suite(.timeLimit(.minutes(5))) struct JobMemoryTests {
    private static let model = """
        {"entities": {
          "E": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {"dept": {"entity": "D"}}},
          "D": {"identity": "id", "attributes": {"id": "integer64", "title": {"type": "string", "optional": false},
            "code": {"type": "string", "unique": true}}, "relationships": {"head": {"entity": "E"}}},
          "M": {"identity": "id", "modified": "at", "attributes": {"id": "integer64", "at": "integer64", "text": "string"}}}}
        """

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    private func apply(_ payload: String, _ policy: InvalidRecordPolicy, _ allowance: TestAllowance) throws
        -> JobOutcome
    {
        let job = try store.job(payload, policy)
        return try store.apply(
            StoreJob(
                id: job.id, contentHash: nil, sequence: job.sequence, policy: policy, wantsKeys: false, work: job.work,
                now: 0, memory: allowance))
    }

    private func end(of operations: String, _ allowance: TestAllowance) throws -> String? {
        let job = try store.job(operations: operations, wantsKeys: false)
        let end = try store.apply(
            StoreJob(
                id: job.id, contentHash: nil, sequence: job.sequence, policy: .fail, wantsKeys: false, work: job.work,
                now: 0, memory: allowance))
        guard case .failed(let fault) = end else { return nil }
        return "\(fault.code.rawValue) \(fault.path ?? "nowhere"): \(fault.message)"
    }

    @Test(arguments: [10_000, 100_000, 300_000]) func `a job that needs more memory than it may take fails as busy`(
        limit: Int
    ) throws {
        let records = (0..<2_000).map { #"{"id": \#($0), "title": "t", "code": "same"}"# }
        let allowance = TestAllowance(limit)
        guard case .failed(let fault) = try apply(#"{"D": [\#(records.joined(separator: ","))]}"#, .skip, allowance)
        else {
            return #expect(Bool(false))
        }
        #expect(fault.code == .busy)
        #expect(allowance.used == 0)
        #expect(try store.rows("SELECT count(*) FROM D") == ["0"])
        try store.apply(#"{"D": {"id": 1, "title": "t"}}"#)
    }

    @Test func `unique values that are parked take the job's memory, and give it back`() throws {
        func records(_ ids: Range<Int>, from first: Int = 0) -> String {
            ids.map { #"{"id": \#(first + $0), "title": "t", "code": "\#($0)"}"# }.joined(separator: ",")
        }
        try store.apply(#"{"D": [\#(records(0..<1_500))]}"#)
        // Each step parks the values that its rows claim; the claims themselves take memory for one step alone.
        let steps = [0..<500, 500..<1_000, 1_000..<1_500].map {
            #"{"entity": "D", "json": [\#(records($0, from: 10_000))]}, {"op": "delete", "entity": "E", "objects": [1]}"#
        }
        let objects = (0..<1_500).map(String.init).joined(separator: ",")
        let operations = steps.joined(separator: ",") + #", {"op": "delete", "entity": "D", "objects": [\#(objects)]}"#
        let scarce = TestAllowance(1_500 * 320)
        let fault = try end(of: operations, scarce)
        #expect(fault?.hasPrefix("busy ") == true, "\(fault ?? "")")
        let ample = TestAllowance(.max)
        #expect(try end(of: operations, ample) == nil)
        #expect(scarce.used == 0 && ample.used == 0)
    }

    @Test func `a sync's record of named objects takes the job's memory`() throws {
        let test = try TestStore(#"{"entities": {"Note": {"attributes": {"text": "string"}}}}"#)
        let notes =
            #"{"op": "sync", "entity": "Note", "json": [\#(Array(repeating: "{}", count: 500).joined(separator: ","))]}"#
        func end(_ allowance: TestAllowance) throws -> String? {
            let job = try test.job(operations: notes, wantsKeys: false)
            let end = try test.apply(
                StoreJob(
                    id: job.id, contentHash: nil, sequence: job.sequence, policy: .fail, wantsKeys: false,
                    work: job.work, now: 0, memory: allowance))
            guard case .failed(let fault) = end else { return nil }
            return "\(fault.code.rawValue) \(fault.path ?? "nowhere")"
        }
        let ample = TestAllowance(.max)
        #expect(try end(ample) == nil)
        #expect(ample.most >= 500 * 64 && ample.used == 0)
        #expect(try end(TestAllowance(ample.most - 1)) == "busy /0")
        #expect(try test.rows("SELECT count(*) FROM Note") == ["500"])
    }
}
