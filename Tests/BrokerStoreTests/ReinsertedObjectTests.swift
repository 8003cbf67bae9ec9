import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// Records before a tombstone have no effect on the object that a later record or key inserts, whether or not they are
/// staged in one part.
@Suite(.timeLimit(.minutes(5))) struct ReinsertedObjectTests {
    /// A change of the entity begins a new part. `Pause` has no relationship to the others.
    private static let model = """
        {"entities": {
            "E": {"identity": "id", "tombstone": "gone == YES",
                "attributes": {"id": "integer64", "name": "string", "age": "integer16", "gone": "boolean"},
                "relationships": {"mate": {"entity": "E", "inverse": "mate"}, "of": {"entity": "E", "inverse": "parts"},
                    "parts": {"entity": "E", "toMany": true, "ordered": true, "inverse": "of"},
                    "tags": {"entity": "Pause", "toMany": true}}},
            "D": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"stub": {"entity": "E"}, "known": {"entity": "E", "missing": "ignore"},
                    "must": {"entity": "E", "missing": "fail"}}},
            "Ant": {"identity": "no", "tombstone": "gone == YES", "modified": "at",
                "attributes": {"no": "integer64", "text": "string", "at": "integer64", "gone": "boolean"}},
            "Bee": {"parent": "Ant", "attributes": {"sting": "integer16"}},
            "Cat": {"parent": "Ant", "attributes": {"claw": {"type": "integer16", "default": 4}}},
            "Pause": {"identity": "id", "attributes": {"id": "integer64"}}}}
        """

    private func store(_ payload: String) throws -> TestStore {
        var options = StoreOptions()
        options.synchronous = .off
        let test = try TestStore(Self.model, options: options)
        try test.apply(payload)
        return test
    }

    private func content(_ test: TestStore) throws -> [String] {
        try test.rows("SELECT 'E', id, name, age, mate, \"of\", iif(\"of\", of_position, NULL) FROM E ORDER BY id")
            + test.rows("SELECT 'tags', source, destination FROM E_tags ORDER BY 2, 3")
            + test.rows("SELECT 'D', id, stub, known, must FROM D ORDER BY id")
            + test.rows("SELECT _entity, no, text, at, sting, claw FROM Ant ORDER BY no")
    }

    private static let stored = """
        {"E": [{"id": 2, "mate": 3}, {"id": 4, "parts": [{"id": 5}, {"id": 6}]}],
         "Ant": {"no": 1, "at": 5}, "Bee": {"no": 2, "sting": 1}, "Pause": [{"id": 1}, {"id": 2}]}
        """

    @Test(arguments: [
        // The attributes of the old object.
        [#"E {"id": 1, "name": "z"}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 1, "age": 2}"#],
        [#"E {"id": 2, "name": "z"}"#, #"E {"id": 2, "gone": true}"#, #"E {"id": 2, "age": 2}"#],
        [
            #"E {"id": 1, "name": "z"}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 1, "age": 2}"#,
            #"E {"id": 1, "gone": true}"#,
        ],
        [
            #"E {"id": 1, "name": "z"}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 1, "age": 2}"#,
            #"E {"id": 1, "gone": true}"#, #"E {"id": 1, "name": "y"}"#,
        ],
        [#"E {"id": 1, "name": "z"}"#, #"E {"id": 1, "gone": true}"#, #"D {"id": 1, "stub": 1}"#],
        [#"D {"id": 1, "stub": {"id": 1, "name": "z"}}"#, #"E {"id": 1, "gone": true}"#, #"D {"id": 2, "stub": 1}"#],
        // The record of the old object does not insert the new one.
        [#"E {"id": 1, "name": "z"}"#, #"E {"id": 1, "gone": true}"#, #"D {"id": 1, "known": 1}"#],
        [#"E {"id": 2, "name": "z"}"#, #"E {"id": 2, "gone": true}"#, #"D {"id": 1, "known": 2}"#],
        // The partner of the old object has lost its own partner.
        [#"E {"id": 1, "mate": 2}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 1}"#],
        [#"E {"id": 1, "mate": 2}"#, #"E {"id": 1, "gone": true}"#],
        [#"E {"id": 2, "mate": 1}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 1}"#],
        [#"E {"id": 1, "mate": 2}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 1, "mate": 3}"#],
        [
            #"E {"id": 1, "mate": 2}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 2, "gone": true}"#, #"E {"id": 1}"#,
            #"E {"id": 2}"#,
        ],
        [#"E {"id": 1, "mate": 2}"#, #"E {"id": 2, "mate": 4}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 1}"#],
        [#"E {"id": 2, "mate": 1}"#, #"E {"id": 2, "mate": 4}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 1}"#],
        [#"E {"id": 2, "mate": 1}"#, #"E {"id": 4, "mate": 2}"#, #"E {"id": 1, "gone": true}"#],
        // Inside one record.
        [#"E {"id": 9, "parts": [{"id": 1, "mate": 2}, {"id": 1, "gone": true}, {"id": 1, "age": 2}]}"#],
        [#"E {"id": 9, "parts": [{"id": 2, "name": "z"}, {"id": 2, "gone": true}, {"id": 2, "age": 2}]}"#],
        // Its links.
        [#"E {"id": 1, "tags": [1], "of": 4}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 1, "tags": [2]}"#],
        [#"E {"id": 1, "parts": [5, 6]}"#, #"E {"id": 1, "gone": true}"#, #"E {"id": 1, "parts": [6]}"#],
        // The concrete entity.
        [#"Bee {"no": 7, "sting": 1}"#, #"Ant {"no": 7, "gone": true}"#, #"Ant {"no": 7, "text": "x"}"#],
        [#"Bee {"no": 7, "sting": 1}"#, #"Ant {"no": 7, "gone": true}"#, #"Cat {"no": 7, "text": "x"}"#],
        [#"Bee {"no": 1, "sting": 1}"#, #"Bee {"no": 1, "gone": true}"#, #"Cat {"no": 1, "at": 2}"#],
        [#"Ant {"no": 2, "text": "x"}"#, #"Bee {"no": 2, "gone": true}"#, #"Cat {"no": 2}"#],
        [#"Ant {"no": 2, "gone": true}"#, #"Cat {"no": 2}"#, #"Cat {"no": 2, "gone": true}"#],
        [#"Ant {"no": 2, "gone": true}"#, #"Cat {"no": 2}"#, #"Cat {"no": 2, "gone": true}"#, #"Bee {"no": 2}"#],
        // Values of `modified`.
        [#"Ant {"no": 1, "at": 9}"#, #"Ant {"no": 1, "gone": true}"#, #"Ant {"no": 1, "at": 3, "text": "x"}"#],
        [#"Ant {"no": 1, "at": 9}"#, #"Ant {"no": 1, "gone": true, "at": 8}"#, #"Ant {"no": 1, "at": 10}"#],
        [#"Ant {"no": 7, "at": 9}"#, #"Ant {"no": 7, "gone": true}"#, #"Cat {"no": 7, "at": 3, "claw": 1}"#],
        [#"Ant {"no": 7, "at": 9}"#, #"Ant {"no": 7, "gone": true, "at": 9}"#, #"Cat {"no": 7, "at": 3}"#],
    ])
    func `an object that is deleted and inserted again has what its later records bring`(records: [String]) throws {
        let parted = records.flatMap { [$0, #"Pause {"id": 1}"#] }
        let apart = try store(Self.stored)
        for record in records { try apart.apply(Self.payload([record])) }
        for sent in [records, parted] {
            let together = try store(Self.stored)
            try together.apply(Self.payload(sent))
            let (found, expected) = (try content(together), try content(apart))
            #expect(found == expected, "\(sent)")
            #expect(try together.isSound())
        }
    }

    /// - Parameter records: `Entity {…}`; neighbours of one entity are one array.
    private static func payload(_ records: [String]) -> String {
        var collections: [(entity: Substring, records: [Substring])] = []
        for record in records {
            let space = record.firstIndex(of: " ")!
            if collections.last?.entity != record[..<space] { collections.append((record[..<space], [])) }
            collections[collections.count - 1].records.append(record[space...])
        }
        return
            "{\(collections.map { "\"\($0.entity)\": [\($0.records.joined(separator: ","))]" }.joined(separator: ","))}"
    }

    @Test(arguments: ["", #""Pause": {"id": 1}, "#])
    func `a key of a deleted object names nothing, although a record before the tombstone named it`(
        pause: String
    ) throws {
        let test = try store(Self.stored)
        let job = #"{"E": [{"id": 1}], \#(pause)"E": [{"id": 1, "gone": true}], "D": [{"id": 1, "must": 1}]}"#
        let fault = try test.fault(job)
        #expect(fault?.code == .objectNotFound)
        #expect(fault?.path == "/D/0/must")
        let before = try content(test)
        #expect(try test.outcome(job, .skip).rejections == ["objectNotFound /D/0/must"])
        #expect(try content(test).filter { $0 != "D|1|NULL|NULL|NULL" } == before)
    }
}
