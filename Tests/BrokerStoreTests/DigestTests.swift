import BrokerStaging
import TestSupport
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
            "line": {"entity": "Tag", "toMany": true, "ordered": true}, "badge": {"entity": "Tag", "inverse": "owner"},
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
        try test.apply(#"{"Part": [{"id": 5}, {"id": 6}], "Tag": [{"id": 5}, {"id": 6}]}"#)
        try test.run(before)
        test.nextSequence = 101
        try test.store.beginLog("log", after: 100)
        let storeJob = try test.job(operations: job, wantsKeys: false).with(hash: [1])
        let end = try test.apply(storeJob)
        #expect(!end.isFailure, "\(end)")
        return (try #require(test.store.history).digits, end.body(of: storeJob))
    }

    @Test(arguments: cases) func `what a job changes is part of the history`(_ sample: Case) throws {
        let (one, other) = sample.before
        let histories = (try history(one, sample.job), try history(other, sample.job))
        #expect(histories.0.digits != histories.1.digits)
        #expect(histories.0.outcome == histories.1.outcome, "\(String(decoding: histories.1.outcome, as: UTF8.self))")
        #expect(try history(one, sample.job).digits == histories.0.digits)
    }
}

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
        let job = try test.job(payload).with(hash: [1])
        try test.store.begin()
        if together { _ = try #require(try test.store.applyBatch([job])) } else { _ = try test.store.apply(job) }
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
            try test.apply(test.job(operations: operations, wantsKeys: false).with(hash: [1]))
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
        ] { #expect(try history(payload) == history(payload, together: true), "\(payload)") }
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

@Suite(.timeLimit(.minutes(5))) struct ApplicationFingerprintTests {
    private func fingerprint(_ zones: String...) throws -> ApplicationFingerprint {
        let attributes = zones.enumerated().map { #""a\#($0)": {"type": "date", "timeZone": "\#($1)"}"# }
        return ApplicationFingerprint(
            try stagingPlan("{\"entities\": {\"Row\": {\"attributes\": {\(attributes.joined(separator: ","))}}}}"))
    }

    @Test func `a fingerprint has what decides outcomes, and its text has all of it`() throws {
        let fingerprint = try fingerprint("Europe/Berlin", "+02:00")
        let names = fingerprint.text.split(separator: "\n").map { $0.prefix { $0 != "=" } }
        #expect(names == ["broker", "sqlite", "swift", "timeZoneData", "re2", "timeZone Europe/Berlin"])
        #expect(fingerprint.text.contains("sqlite=20") && !fingerprint.text.contains("none"))
        #expect(ApplicationFingerprint(fingerprint.text) == fingerprint)
        #expect(ApplicationFingerprint("sqlite") == nil)
        #expect(fingerprint.digits.wholeMatch(of: /[0-9a-f]{16}/) != nil)
        #expect(try fingerprint == self.fingerprint("+02:00", "Europe/Berlin"))
    }

    @Test func `two fingerprints say in what they differ`() throws {
        let (one, other) = (try fingerprint("Europe/Berlin"), try fingerprint("Asia/Kolkata", "Europe/Berlin"))
        #expect(one.digits != other.digits)
        let differences = other.differences(from: one)
        #expect(differences.count == 1 && differences[0].hasPrefix("timeZone Asia/Kolkata was absent, is "))
        let older = try #require(ApplicationFingerprint(one.text.replacing("sqlite=20", with: "sqlite=19")))
        #expect(one.differences(from: older).map { $0.prefix(13) } == ["sqlite was 19"])
        #expect(one.differences(from: one) == [])
    }

    @Test func `statistics of ANALYZE are in the fingerprint of a store that is opened after them`() throws {
        let test = try TestStore(#"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#)
        try test.apply(#"{"Row": [{"id": 1}, {"id": 2}]}"#)
        let before = test.store.fingerprint
        #expect(before == ApplicationFingerprint(test.store.merger.plan))
        try test.store.connection.execute("ANALYZE")
        try test.reopen()
        let again = test.store.fingerprint
        #expect(again.differences(from: before).map { $0.prefix(26) } == ["statistics was absent, is "])
        try test.reopen()
        #expect(test.store.fingerprint == again)
    }

    /// Vienna's clocks were once changed on other days than Berlin's; Busingen's have gone like Zurich's since 1970.
    @Test func `a zone whose clocks were once changed at another time is another zone`() throws {
        func hash(_ zone: String) throws -> Substring { try fingerprint(zone).text.split(separator: "=").last! }
        #expect(try hash("Europe/Berlin") != hash("Europe/Vienna"))
        #expect(try hash("Europe/Busingen") == hash("Europe/Zurich"))
    }
}
