import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// Jobs whose sender may not delete objects (the role `insert`).
@Suite(.timeLimit(.minutes(5))) struct InsertRoleTests {
    private static let model = """
        {"entities": {
          "Order": {"identity": "id", "tombstone": "gone == true", "attributes": {
            "id": "integer64", "gone": "boolean", "note": "string"}, "relationships": {
            "lines": {"entity": "Line", "toMany": true, "owned": true},
            "stamp": {"entity": "Stamp", "owned": true}}},
          "Line": {"identity": "n", "tombstone": "n == 99", "attributes": {"n": "integer64", "text": "string"}, "relationships": {
            "parts": {"entity": "Part", "toMany": true, "owned": true},
            "photo": {"entity": "Photo", "deleteRule": "cascade", "inverse": "line"}}},
          "Part": {"attributes": {"size": "integer64"}},
          "Stamp": {"attributes": {"by": "string"}},
          "Photo": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "line": {"entity": "Line", "inverse": "photo", "missing": "ignore"}}},
          "Animal": {"identity": "id", "abstract": true, "attributes": {"id": "integer64"}},
          "Dog": {"parent": "Animal", "attributes": {"name": "string"}}}}
        """

    private let store: TestStore

    init() throws {
        store = try TestStore(Self.model)
        try store.run(
            #"""
            {"entity": "Order", "json": [
              {"id": 1, "note": "a", "stamp": {"by": "x"}, "lines": [{"n": 1, "text": "t", "parts": [{"size": 1}, {"size": 2}]}, {"n": 2}]},
              {"id": 2, "lines": [{"n": 1, "photo": {"id": 5}}]}]},
            {"entity": "Dog", "json": {"id": 1, "name": "Rex"}}
            """#)
    }

    /// The code and the message of the fault, or the changes.
    ///
    /// - Parameter wantsKeys: without them, deletions may be counted alone.
    private func insert(
        _ operations: String, _ policy: InvalidRecordPolicy = .fail, isDryRun: Bool = false, wantsKeys: Bool = false
    ) throws -> String {
        let job = try store.job(operations: operations, policy, wantsKeys: wantsKeys)
            .with(isDryRun: isDryRun, mayDelete: false)
        switch try store.apply(job) {
        case .completed(let outcome):
            return outcome.changes.filter { $0.counts.hasChanges }.map {
                "\($0.entity) +\($0.counts.inserted) ~\($0.counts.updated) -\($0.counts.deleted)"
            }.joined(separator: ", ")
        case .failed(let fault): return "\(fault.code.rawValue): \(fault.message)"
        default: return "?"
        }
    }

    private var rows: [String] {
        get throws {
            try store.rows(
                "SELECT (SELECT count(*) FROM \"Order\"), (SELECT count(*) FROM Line), (SELECT count(*) FROM Part), "
                    + "(SELECT count(*) FROM Stamp), (SELECT count(*) FROM Photo), (SELECT count(*) FROM Dog)")
        }
    }

    @Test(arguments: [
        (#"{"op": "delete", "entity": "Line", "objects": [{"parent_id": 1, "n": 1}]}"#, "1 Line, 2 Part"),
        (#"{"op": "delete", "entity": "Line", "where": "n == 2"}"#, "1 Line"),
        (#"{"op": "delete", "entity": "Stamp", "where": "TRUEPREDICATE"}"#, "1 Stamp"),
        (#"{"op": "sync", "entity": "Line", "json": []}"#, "1 Photo, 2 Part, 3 Line"),
        (#"{"op": "delete", "entity": "Order", "objects": [1]}"#, "1 Order"),
        (#"{"op": "delete", "entity": "Order", "objects": [1]}, {"entity": "Order", "json": {"id": 1}}"#, "1 Order"),
        (#"{"entity": "Order", "json": [{"id": 1, "gone": true}, {"id": 1, "note": "a"}]}"#, "1 Order"),
        (#"{"op": "sync", "entity": "Order", "json": [{"id": 1}]}, {"entity": "Order", "json": {"id": 2}}"#, "1 Order"),
        (#"{"op": "delete", "entity": "Dog", "where": "id == 1"}, {"entity": "Dog", "json": {"id": 1}}"#, "1 Dog"),
        (#"{"entity": "Line", "object": {"parent_id": 1, "n": 2}, "json": {"n": 99}}"#, "1 Line"),
        (#"{"entity": "Order", "json": {"id": 2, "lines": []}}"#, "1 Photo"),
        (#"{"entity": "Order", "json": {"id": 2, "lines": []}}, {"entity": "Photo", "json": {"id": 5}}"#, "1 Photo"),
        (
            #"{"entity": "Order", "json": {"id": 1, "note": "b"}}, {"op": "delete", "entity": "Order", "objects": [1]}, {"entity": "Order", "json": {"id": 1}}"#,
            "1 Order"
        ),
    ])
    func `each other deletion is unauthorized, also of what is made again`(operations: String, deleted: String) throws {
        let (before, digest) = (try rows, try store.rows("SELECT * FROM Line, \"Order\" ORDER BY 1, 2, 3"))
        for (isDryRun, wantsKeys) in [(true, false), (true, true), (false, false), (false, true)] {
            let answer = try insert(operations, isDryRun: isDryRun, wantsKeys: wantsKeys)
            #expect(answer.hasPrefix("unauthorized: The job would delete "), "\(operations): \(answer)")
            for part in deleted.split(separator: ", ") { #expect(answer.contains(part), "\(operations): \(answer)") }
        }
        #expect(try rows == before)
        #expect(try store.rows("SELECT * FROM Line, \"Order\" ORDER BY 1, 2, 3") == digest)
        // Another sender may.
        #expect(throws: Never.self) { try store.run(operations) }
        #expect(try store.isSound())
    }

    @Test(arguments: [
        #"{"entity": "Order", "json": {"id": 1, "lines": [{"n": 2}]}}"#,
        #"{"entity": "Order", "json": {"id": 1, "lines": null, "stamp": null}}"#,
        #"{"entity": "Order", "json": {"id": 1, "lines": [{"n": 1, "parts": []}, {"n": 3}]}}"#,
        #"{"op": "relate", "entity": "Order", "object": 1, "relationship": "lines", "json": [{"n": 7}]}"#,
        #"{"entity": "Order", "json": [{"id": 1, "lines": []}, {"id": 1, "lines": [{"n": 1}]}]}"#,
        #"{"entity": "Order", "json": {"id": 1, "lines": []}}, {"entity": "Order", "json": {"id": 1, "lines": [{"n": 1}]}}"#,
    ])
    func `owned objects go with the value of their owner`(operations: String) throws {
        for (policy, wantsKeys) in [(InvalidRecordPolicy.fail, true), (.skip, false), (.skip, true), (.fail, false)] {
            for isDryRun in [true, false] where isDryRun || policy == .fail && !wantsKeys {
                let answer = try insert(operations, policy, isDryRun: isDryRun, wantsKeys: wantsKeys)
                #expect(!answer.hasPrefix("unauthorized"), "\(answer)")
                #expect(!answer.isEmpty)
            }
        }
        #expect(try store.rows("SELECT count(*) FROM \"Order\"") == ["2"])
        #expect(try store.isSound())
    }

    @Test func `an object that the job itself made may go`() throws {
        #expect(
            try insert(
                #"{"entity": "Order", "json": {"id": 9}}, {"op": "delete", "entity": "Order", "objects": [9]}, {"entity": "Dog", "json": {"id": 2}}"#
            ) == "Dog +1 ~0 -0")
        #expect(try insert(#"{"op": "delete", "entity": "Order", "objects": [77]}"#) == "")
        #expect(
            try insert(#"{"op": "sync", "entity": "Order", "json": [{"id": 1}, {"id": 2}, {"id": 3}]}"#)
                == "Order +1 ~0 -0")
    }
}
