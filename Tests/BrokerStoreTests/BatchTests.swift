import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// Jobs that are applied together become what they become one after the other.
@Suite(.mergesSets, .timeLimit(.minutes(5))) struct BatchMergeTests {
    private static let model = """
        {"entities": {
          "Thing": {"identity": "key", "unique": [["code"]], "attributes": {
              "key": "string", "name": {"type": "string", "optional": false}, "code": "string",
              "level": {"type": "integer32", "default": 7, "indexed": true}, "score": "double"}, "relationships": {
              "place": {"entity": "Place"}, "note": {"entity": "Note"},
              "tags": {"entity": "Tag", "toMany": true, "inverse": "things"},
              "parent": {"entity": "Thing", "inverse": "children"},
              "children": {"entity": "Thing", "toMany": true, "inverse": "parent"}}},
          "Place": {"identity": ["land", "town"], "attributes": {"land": "double", "town": "integer32", "size": "integer64"}},
          "Tag": {"identity": "id", "attributes": {"id": "integer64", "word": "string"}, "relationships": {
              "things": {"entity": "Thing", "toMany": true, "inverse": "tags"}}},
          "Note": {"attributes": {"text": "string"}}}}
        """

    private static let tables = [
        "SELECT key, name, code, level, score, place_land, place_town, note, parent FROM Thing ORDER BY key",
        "SELECT * FROM Place ORDER BY land, town", "SELECT * FROM Tag ORDER BY id", "SELECT * FROM Note ORDER BY _pk",
        "SELECT source, destination FROM Tag_things ORDER BY source, destination",
        "SELECT sequence, id, failed, outcome FROM _broker_jobs ORDER BY sequence",
    ]

    private struct RandomJobs {
        var generator: SeededGenerator
        /// Keys whose things are certainly there, with a name.
        var known = Set<String>()

        mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

        mutating func any(_ values: [String]) -> String { values.randomElement(using: &generator)! }

        mutating func place() -> String {
            let size = chance(50) ? ", \"size\": \(any(["1", "2", "null"]))" : ""
            return "{\"land\": \(any(["0.0", "-0.0", "1.5"])), \"town\": \(any(["1", "2"]))\(size)}"
        }

        mutating func tag() -> String {
            if chance(40) { return any(["1", "2", "3", "4"]) }
            return "{\"id\": \(any(["1", "2", "3", "4"])), \"word\": \"\(any(["a", "b"]))\"}"
        }

        mutating func thing(_ mistakes: Int) -> String {
            let key = any(["a", "aaaaaaaaB", "aaaaaaaab", "b", "c", "d", "é", "x", "y"])
            var members = ["\"key\": \(chance(mistakes) ? "null" : "\"\(key)\"")"]
            if chance(80) || !known.contains(key) && !chance(mistakes) {
                members.append("\"name\": \"\(any(["n", "m"]))\"")
            }
            if chance(30) { members.append("\"code\": \(chance(mistakes) ? "\"z\"" : "\"\(key)\"")") }
            if chance(30) { members.append("\"level\": \(any(["1", "2", "null"]))") }
            if chance(30) { members.append("\"score\": \(chance(mistakes) ? "\"wrong\"" : any(["1", "2.5"]))") }
            if chance(40) { members.append("\"place\": \(chance(20) ? "null" : place())") }
            if chance(20) { members.append("\"note\": {\"text\": \"\(any(["t", "u"]))\"}") }
            if chance(40) { members.append("\"tags\": [\(tag()), \(tag())]") }
            if chance(20) { members.append("\"parent\": \"\(any(["a", "b", "c"]))\"") }
            return "{\(members.joined(separator: ", "))}"
        }

        mutating func job(_ mistakes: Int) -> String {
            let records = (0..<Int.random(in: 0...4, using: &generator)).map { _ in thing(mistakes) }
            let tags = (0..<Int.random(in: 0...3, using: &generator)).map { _ in tag() }.filter { $0.hasPrefix("{") }
            return "{\"Thing\": [\(records.joined(separator: ","))], \"Tag\": [\(tags.joined(separator: ","))]}"
        }
    }

    private static func described(_ end: JobOutcome) -> String {
        switch end {
        case .completed(let outcome):
            ([outcome.summary] + outcome.rejections
                + outcome.warnings.map { "\($0.entity).\($0.key ?? "") \($0.count)" })
                .joined(separator: "; ")
        case .failed(let fault): "failed \(fault.code) \(fault.path ?? "")"
        case .duplicate(let outcome): "duplicate of \(outcome.sequence)"
        case .conflict(_, let outcome): "conflict with \(outcome.sequence)"
        }
    }

    /// Where values are unique, the rows of an entity are merged job by job.
    private static var modelWithoutUnique: String { model.replacing(#""unique": [["code"]], "#, with: "") }

    @Test(arguments: [0, 3], [model, modelWithoutUnique])
    func `random jobs together become what they become one by one`(mistakes: Int, model: String) throws {
        var random = RandomJobs(generator: SeededGenerator(for: "jobs together"))
        var (joined, all) = (0, 0)
        for _ in 0..<Cases.count(4, of: 12) {
            let together = try TestStore(model) { $0.synchronous = .off }
            let alone = try TestStore(model) { $0.synchronous = .off }
            if random.chance(50) { together.store.merger.rowsWithoutChecks = 0 }
            var sent: [(payload: String, id: String)] = []
            for _ in 0..<12 {
                let batch = (0..<Int.random(in: 1...8, using: &random.generator)).map { _ in
                    if random.chance(5), let again = sent.randomElement(using: &random.generator) { return again }
                    sent.append((random.job(mistakes), "id \(sent.count)"))
                    return sent[sent.count - 1]
                }
                let policy = random.chance(50) ? InvalidRecordPolicy.fail : .skip
                let expected = try batch.map { Self.described(try alone.apply($0.payload, id: $0.id, policy)) }
                let jobs = try batch.map { try together.job($0.payload, id: $0.id, policy) }
                all += 1
                if let ends = try together.applyBatch(jobs) {
                    joined += 1
                    #expect(ends.map(Self.described) == expected, "\(batch)")
                } else {
                    for (job, expected) in zip(jobs, expected) {
                        #expect(Self.described(try together.apply(job)) == expected, "\(batch)")
                    }
                }
                for sql in Self.tables { #expect(try together.rows(sql) == alone.rows(sql), "\(sql) after \(batch)") }
            }
            #expect(try together.isSound())
        }
        // With mistakes some cannot go together, which is to be tried, too.
        #expect(mistakes == 0 ? joined > all / 3 : joined > 0 && joined < all, "\(joined) of \(all)")
    }

    @Test func `rows of one object in several jobs take effect in the order of the jobs`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Thing": [{"key": "b", "name": "n", "level": 1}]}"#)
        let payloads = [
            #"{"Thing": [{"key": "b", "level": 2}, {"key": "a", "name": "new"}]}"#,
            #"{"Thing": [{"key": "b", "name": "m"}]}"#,
            #"{"Thing": [{"key": "b", "level": 3}, {"key": "a", "level": 7}]}"#,
            #"{"Thing": [{"key": "b", "level": 3, "name": "m"}]}"#,
        ]
        let ends = try test.applyBatch(payloads.map { try test.job($0) })
        #expect(
            ends?.map(Self.described) == [
                "Thing +1 ~1", "Thing ~1", "Thing ~1 =1",
                "Thing =1",
            ])
        #expect(try test.rows("SELECT key, name, level FROM Thing ORDER BY key") == ["a|new|7", "b|m|3"])
    }

    @Test func `foreign keys that a large batch does not check act on the jobs after it`() throws {
        let test = try TestStore(Self.modelWithoutUnique)
        let things = (0..<2_000).map { #"{"key": "\#($0)", "name": "n", "place": {"land": 1.5, "town": \#($0 % 7)}}"# }
        let ends = try test.applyBatch([test.job(payload("Thing", things))])
        #expect(ends?.map(Self.described) == ["Place +7, Thing +2000"])
        #expect(try test.store.connection.integer("PRAGMA foreign_keys") == 0, "the batch was large")
        #expect(try test.isSound())
        try test.run(#"{"op": "delete", "entity": "Place", "where": "town == 3"}"#)
        #expect(try test.rows("SELECT count(*) FROM Thing WHERE place_town = 3") == ["0"])
        #expect(try test.isSound())
    }

    @Test func `a job at fault leaves nothing of those that were tried with it`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Thing": [{"key": "a", "name": "n", "code": "x"}]}"#)
        let jobs = try [
            #"{"Thing": [{"key": "b", "name": "n", "note": {"text": "t"}}]}"#,
            #"{"Thing": [{"key": "c", "name": "n", "code": "x"}]}"#,
        ].map { try test.job($0) }
        let ends = try test.applyBatch(jobs)
        #expect(ends == nil)
        #expect(try test.rows("SELECT key FROM Thing") == ["a"])
        #expect(try test.rows("SELECT count(*) FROM _broker_jobs") == ["1"])
        #expect(Self.described(try test.apply(jobs[0])) == "Note +1, Thing +1")
        #expect(Self.described(try test.apply(jobs[1])).hasPrefix("failed constraintViolation"))
        #expect(try test.rows("SELECT _pk FROM Note") == ["1"], "no key of the store's own is lost")
    }

    /// An entity `A`, a record of it, and what makes it depend on more than the values of its objects' rows.
    @Test(arguments: [
        (#""twin": {"entity": "B", "inverse": "twin"}"#, #"{"id": 1, "twin": {"id": 2}}"#, ""),
        (#""must": {"entity": "B", "missing": "fail"}"#, #"{"id": 1, "must": 2}"#, ""),
        (#""may": {"entity": "B", "missing": "ignore"}"#, #"{"id": 1, "may": 2}"#, ""),
        (#""all": {"entity": "B", "toMany": true, "assignment": "replace"}"#, #"{"id": 1, "all": []}"#, ""),
        (#""in": {"entity": "B", "toMany": true, "ordered": true}"#, #"{"id": 1, "in": [2, 3]}"#, ""),
        ("", #"{"id": 1}"#, #", "modified": "n""#), ("", #"{"id": 1}"#, #", "identityOptional": true"#),
        ("", #"{"id": 1, "n": 0}"#, #", "tombstone": "n == 0""#),
    ])
    func `jobs whose result depends on more than the rows of their objects are not merged together`(
        relationship: String, record: String, more: String
    ) throws {
        let test = try TestStore(
            """
            {"entities": {
              "A": {"identity": "id", "attributes": {"id": "integer64", "n": "integer64"}, "relationships": {\(relationship)}\(more)},
              "B": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                \(relationship.contains("twin") ? #""twin": {"entity": "A", "inverse": "twin"}"# : "")}}
            }}
            """)
        #expect(!test.store.canJoin(try test.job(#"{"A": [\#(record)]}"#)))
        guard !relationship.contains("twin") else { return }
        #expect(test.store.canJoin(try test.job(#"{"B": [{"id": 1}]}"#)))
    }

    @Test func `a unique value that a later job gives up is not free for an earlier one`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Thing": [{"key": "a", "name": "n", "code": "x"}]}"#)
        let jobs = try [
            #"{"Thing": [{"key": "b", "name": "n", "code": "x"}]}"#, #"{"Thing": [{"key": "a", "code": "y"}]}"#,
        ].map { try test.job($0) }
        #expect(try test.applyBatch(jobs) == nil)
        let back = try test.applyBatch([jobs[1], jobs[0]])
        #expect(back?.map(Self.described) == ["Thing ~1", "Thing +1"])
    }

    @Test func `a job that is sent twice in one transaction is applied once`() throws {
        let test = try TestStore(Self.model)
        let payload = #"{"Note": [{"text": "once"}]}"#
        let jobs = try [
            test.job(payload, id: "same"), test.job(payload, id: "same"), test.job(#"{"Note": []}"#, id: "same"),
        ]
        let ends = try test.applyBatch(jobs)
        #expect(ends?.map(Self.described) == ["Note +1", "duplicate of 1", "conflict with 1"])
        #expect(try test.rows("SELECT text FROM Note") == ["once"])
    }
}

/// Where most rows were equal the last time, the rows of jobs that are merged together are compared before any is
/// written.
@Suite(.mergesSets, .timeLimit(.minutes(5))) struct ComparedRowsTests {
    /// The effect of a job that is merged as jobs together are: `Thing +1 ~2 =3 !0`.
    private static func changes(_ test: TestStore, _ payload: String) throws -> String? {
        try test.applyBatch([test.job(payload)])?.first?.outcome?.summary
    }

    @Test func `a new object among equal ones is inserted`() throws {
        let test = try TestStore(
            #"{"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#)
        let equal = (0..<9).map { #"{"id": \#($0), "value": null}"# }.joined(separator: ",")
        for _ in 0..<3 { _ = try Self.changes(test, "{\"Thing\": [\(equal)]}") }
        let more = #"{"id": 10, "value": null}"#
        #expect(try Self.changes(test, "{\"Thing\": [\(equal), \(more)]}") == "Thing +1 =9")
        #expect(try test.rows("SELECT count(*) FROM Thing") == ["10"])
    }

    @Test func `the work of a job that is merged alone does not depend on the jobs before it`() throws {
        let test = try TestStore(
            #"{"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#)
        let payload = "{\"Thing\": [\((0..<9).map { #"{"id": \#($0), "value": null}"# }.joined(separator: ","))]}"
        var work: [Int] = []
        for _ in 0..<4 {
            for _ in 0..<3 { _ = try Self.changes(test, payload) }
            try test.apply(payload)
            work.append(test.store.connection.work.newest)
            try test.reopen()
            try test.apply(payload)
            work.append(test.store.connection.work.newest)
        }
        #expect(work[0] > 0 && Set(work).count == 1, "\(work)")
    }
}
