import Testing

@testable import BrokerStore

/// The history of a store that is fed from a log covers what its jobs wrote.
@Suite(.timeLimit(.minutes(5))) struct StateDigestTests {
    private static let model = """
        {"entities": {
          "Note": {"attributes": {"text": "string"}},
          "Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"},
            "relationships": {"parts": {"entity": "Part", "toMany": true, "inverse": "row", "deleteRule": "cascade"}}},
          "Part": {"identity": "id", "attributes": {"id": "integer64", "text": "string"},
            "relationships": {"row": {"entity": "Row", "inverse": "parts"}}}}}
        """

    /// The digits of the history after the job that does the same to stores of which only the rows before differ.
    ///
    /// - Parameter before: jobs that the history does not cover.
    private func history(before: [String] = [], _ payload: String, together: Bool = false) throws -> String {
        let test = try TestStore(Self.model)
        for payload in before { try test.apply(payload) }
        test.nextSequence = 101
        try test.store.beginLog("log", after: 100)
        let job = StoreJob(
            id: "job", contentHash: [1], sequence: 101, policy: .fail, wantsKeys: false,
            work: try test.job(payload).work, now: 0)
        try test.store.begin()
        if together {
            _ = try #require(try test.store.applyBatch([job]))
        } else {
            _ = try test.store.apply(job)
        }
        try test.store.commit()
        return try #require(test.store.history).digits
    }

    @Test(arguments: TestStore.interpretsAll ? [false] : [false, true])
    func `another value, column or key of a written row gives another history`(isTogether: Bool) throws {
        let history = { (before: [String], payload: String) in
            try self.history(before: before, payload, together: isTogether)
        }
        let note = #"{"Note": {"text": "a"}}"#
        let all = try [
            history([], note), history([], #"{"Note": {"text": "b"}}"#), history([], #"{"Note": {"text": null}}"#),
            history([note], note), history([], #"{"Row": {"id": 1}}"#), history([], #"{"Row": {"id": 2}}"#),
            history([], #"{"Row": {"id": 1, "text": ""}}"#), history([], #"{"Row": {"id": 1, "text": "1"}}"#),
            history([], #"{"Row": {"id": 1, "text": "123456789"}}"#),
            history([], #"{"Row": {"id": 1, "text": "12345678"}}"#), history([], #"{"Part": {"id": 1}}"#),
        ]
        #expect(Set(all).count == all.count)
        #expect(try history([], note) == all[0])
    }

    @Test func `the rows that are inserted, and those that a later step changes or deletes, are part of the history`()
        throws
    {
        func history(before: String, _ operations: String) throws -> String {
            let test = try TestStore(Self.model)
            try test.apply(before)
            test.nextSequence = 101
            try test.store.beginLog("log", after: 100)
            let work = try test.job(operations: operations).work
            _ = try test.apply(
                StoreJob(
                    id: "job", contentHash: [1], sequence: 101, policy: .fail, wantsKeys: false, work: work, now: 0))
            return try #require(test.store.history).digits
        }
        let delete = #"{"op": "delete", "entity": "Row", "objects": [1]}"#
        let update = { (text: String) in
            #"{"op": "delete", "entity": "Note", "objects": []}, {"entity": "Row", "json": {"id": 1, "text": "\#(text)"}}"#
        }
        let both = #"{"entity": "Row", "json": [{"id": 1}, {"id": 2}]}"#
        // The outcomes in each pair are the same.
        for (one, other) in try [
            (history(before: #"{"Row": {"id": 1}}"#, both), history(before: #"{"Row": {"id": 2}}"#, both)),
            (
                history(before: #"{"Row": {"id": 1, "text": "a"}}"#, delete),
                history(before: #"{"Row": {"id": 1, "text": "b"}}"#, delete)
            ),
            (
                history(before: #"{"Row": {"id": 1, "parts": [{"id": 5}]}}"#, delete),
                history(before: #"{"Row": {"id": 1, "parts": [{"id": 6}]}}"#, delete)
            ),
            (
                history(before: #"{"Row": {"id": 1}}"#, update("a")),
                history(before: #"{"Row": {"id": 1}}"#, update("b"))
            ),
        ] { #expect(one != other) }
    }

    @Test(.mergesSets) func `a job gives the same history by itself and together with others`() throws {
        for payload in [
            #"{"Note": [{"text": "a"}, {"text": "b"}]}"#, #"{"Row": [{"id": 1, "text": "x"}]}"#,
            #"{"Part": {"id": 1, "row": {"id": 5}}}"#,
        ] {
            #expect(try history(payload) == history(payload, together: true), "\(payload)")
        }
    }

    @Test func `the history is that of the transactions that became durable`() throws {
        let test = try TestStore(Self.model)
        try test.store.beginLog("log", after: 0)
        try test.apply(#"{"Row": {"id": 1}}"#)
        let history = test.store.history
        try test.store.begin()
        _ = try test.store.apply(try test.job(#"{"Row": {"id": 2}}"#))
        test.store.rollback()
        #expect(test.store.history == history)
    }

    @Test func `a job of the journal is not applied at a position that is already applied`() throws {
        let test = try TestStore(Self.model)
        try test.store.beginLog("log", after: 0)
        try test.apply(#"{"Row": {"id": 1}}"#)
        test.nextSequence = 1
        let error = #expect(throws: StoreError.self) { try test.apply(#"{"Row": {"id": 2}}"#, id: "again") }
        #expect(error?.code == .defect)
        #expect(try test.rows("SELECT id FROM Row") == ["1"])
    }
}
