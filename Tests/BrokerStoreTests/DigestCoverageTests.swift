import Testing

@testable import BrokerStore

/// The history of a store covers every row and link that a job changes: two stores that differ in one row or link before a job
/// that changes it have other histories after it, though the job and its counts are the same.
@Suite(.timeLimit(.minutes(5))) struct DigestCoverageTests {
    private static let model = """
        {"entities": {
          "Note": {"attributes": {"text": "string"}},
          "Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}, "relationships": {
            "parts": {"entity": "Part", "toMany": true, "inverse": "row", "deleteRule": "cascade"},
            "loose": {"entity": "Part", "toMany": true, "inverse": "near", "assignment": "replace"},
            "list": {"entity": "Part", "toMany": true, "ordered": true, "inverse": "in"},
            "tags": {"entity": "Tag", "toMany": true, "inverse": "rows", "assignment": "replace"},
            "line": {"entity": "Tag", "toMany": true, "ordered": true},
            "badge": {"entity": "Tag", "inverse": "owner"},
            "items": {"entity": "Item", "toMany": true, "owned": true}}},
          "Part": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "row": {"entity": "Row", "inverse": "parts"}, "near": {"entity": "Row", "inverse": "loose"},
            "in": {"entity": "Row", "inverse": "list"}}},
          "Tag": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "rows": {"entity": "Row", "toMany": true, "inverse": "tags"}, "owner": {"entity": "Row", "inverse": "badge"}}},
          "Item": {"identity": "no", "attributes": {"no": "integer64", "text": "string"}}}}
        """

    private static let note = #"{"op": "delete", "entity": "Note", "where": "text == 'x'"}"#

    private static func row(_ members: String) -> String { #"{"entity": "Row", "json": {\#(members)}}"# }

    struct Case: CustomTestStringConvertible {
        let testDescription: String
        let before: (String, String)
        let job: String

        init(_ name: String, _ one: String, _ other: String, _ job: String) {
            (testDescription, before, self.job) = (name, (one, other), job)
        }
    }

    static let cases: [Case] = [
        Case(
            "an object that a cascade deletes", row(#""id": 1, "parts": [5]"#), row(#""id": 1, "parts": [6]"#),
            #"{"op": "delete", "entity": "Row", "objects": [1]}"#),
        Case(
            "a link that a deletion ends", row(#""id": 1, "loose": [5]"#), row(#""id": 1, "loose": [6]"#),
            #"{"op": "delete", "entity": "Row", "objects": [1]}"#),
        Case(
            "a link in a join table that a deletion ends", row(#""id": 1, "tags": [5]"#), row(#""id": 2, "tags": [5]"#),
            #"{"op": "delete", "entity": "Tag", "objects": [5]}"#),
        Case(
            "a link in a join table that a later step ends", row(#""id": 1, "tags": [5]"#),
            row(#""id": 1, "tags": [6]"#),
            "\(note), \(row(#""id": 1, "tags": []"#))"),
        Case(
            "a link that one to one ends", row(#""id": 1, "badge": 5"#), row(#""id": 2, "badge": 5"#),
            row(#""id": 3, "badge": 5"#)),
        Case(
            "a link that a replaced set ends", row(#""id": 1, "loose": [5]"#), row(#""id": 1, "loose": [6]"#),
            row(#""id": 1, "loose": []"#)),
        Case(
            "a link in a join table that a replaced set ends", row(#""id": 1, "tags": [5]"#),
            row(#""id": 1, "tags": [6]"#), row(#""id": 1, "tags": []"#)),
        Case(
            "a position", row(#""id": 1, "list": [5]"#), row(#""id": 1, "list": [5, 6]"#), row(#""id": 1, "list": [9]"#)
        ),
        Case(
            "a position in a join table", row(#""id": 1, "line": [5]"#), row(#""id": 1, "line": [5, 6]"#),
            row(#""id": 1, "line": [9]"#)),
        Case(
            "a position in a later step", row(#""id": 1, "line": [5]"#), row(#""id": 1, "line": [5, 6]"#),
            "\(note), \(row(#""id": 1, "line": [9]"#))"),
        Case(
            "an owned object that no value names", row(#""id": 1, "items": [{"no": 1}]"#),
            row(#""id": 1, "items": [{"no": 2}]"#), row(#""id": 1, "items": []"#)),
        Case(
            "an object that a sync does not name", row(#""id": 1"#), row(#""id": 2"#),
            #"{"op": "sync", "entity": "Row", "json": [{"id": 3}]}"#),
        Case(
            "a link that follows a renamed object", row(#""id": 1, "parts": [5]"#), row(#""id": 1, "parts": [6]"#),
            #"{"entity": "Row", "object": 1, "json": {"id": 7}}"#),
        Case(
            "a link in a join table that follows a renamed object", row(#""id": 1, "tags": [5]"#),
            row(#""id": 1, "tags": [6]"#), #"{"entity": "Row", "object": 1, "json": {"id": 7}}"#),
        Case(
            "a key that is taken", #"{"entity": "Note", "json": []}"#, #"{"entity": "Note", "json": {"text": "y"}}"#,
            #"{"entity": "Note", "json": {"text": "z"}}"#),
        Case(
            "a key that is taken in a later step", #"{"entity": "Note", "json": []}"#,
            #"{"entity": "Note", "json": {"text": "y"}}"#, "\(note), \(#"{"entity": "Note", "json": {"text": "z"}}"#)"),
    ]

    private func history(_ before: String, _ job: String) throws -> (digits: String, outcome: [UInt8]) {
        let test = try TestStore(Self.model)
        // Objects that both stores have.
        _ = try test.outcome(
            ofOperations:
                #"{"entity": "Part", "json": [{"id": 5}, {"id": 6}]}, {"entity": "Tag", "json": [{"id": 5}, {"id": 6}]}"#
        )
        _ = try test.outcome(ofOperations: before)
        test.nextSequence = 101
        try test.store.beginLog("log", after: 100)
        let work = try test.job(operations: job).work
        let storeJob = StoreJob(
            id: "job", contentHash: [1], sequence: 101, policy: .fail, wantsKeys: false, work: work, now: 0)
        let end = try test.apply(storeJob)
        #expect(!end.isFailure, "\(end)")
        return (try #require(test.store.history).digits, end.body(of: storeJob))
    }

    @Test(arguments: cases) func `what a job changes is part of the history`(_ sample: Case) throws {
        let (one, other) = sample.before
        let histories = (try history(one, sample.job), try history(other, sample.job))
        #expect(histories.0.digits != histories.1.digits)
        #expect(
            histories.0.outcome == histories.1.outcome, "\(String(decoding: histories.1.outcome, as: UTF8.self))")
        #expect(try history(one, sample.job).digits == histories.0.digits)
    }
}
