import Testing

@testable import BrokerStore

/// Links of a subentity whose rows the job names through another entity of the hierarchy.
@Suite(.timeLimit(.minutes(5))) struct SubentityLinkTests {
    private let store: TestStore

    init() throws {
        store = try TestStore(
            """
            {"entities": {
              "Bee": {"identity": "no", "modified": "at",
                "attributes": {"no": "integer64", "at": "integer64", "text": "string"}},
              "BeeKind": {"parent": "Bee", "relationships": {
                "friend": {"entity": "Bee"}, "cat": {"entity": "Cat", "inverse": "kinds"},
                "pal": {"entity": "BeeKind", "inverse": "pal"}, "mate": {"entity": "Other"}}},
              "Other": {"parent": "Bee", "attributes": {"size": "integer64"}},
              "Cat": {"identity": "no", "attributes": {"no": "integer64"}, "relationships": {
                "kinds": {"entity": "BeeKind", "toMany": true, "inverse": "cat"}}}
            }}
            """)
    }

    private func bees() throws -> [String] {
        try store.rows("SELECT no, text, friend, cat, pal, size, _entity FROM Bee ORDER BY no")
    }

    @Test func `relate links a subentity's object to a record of the topmost entity`() throws {
        try store.apply(#"{"BeeKind": {"no": 3}}"#)
        let relate = #"{"op": "relate", "entity": "BeeKind", "object": 3, "relationship": "friend", "json": {"no": 2}}"#
        #expect(try store.run(relate) == "Bee +1, BeeKind ~1")
        #expect(try bees() == ["2|NULL|NULL|NULL|NULL|NULL|Bee", "3|NULL|2|NULL|NULL|NULL|BeeKind"])
    }

    @Test(arguments: [#"{"no": 7}"#, #"{"no": 7, "text": "t"}"#])
    func `a record that is not newer is linked beside records of the topmost entity`(bee: String) throws {
        try store.apply(#"{"BeeKind": {"no": 5, "at": 3}}"#)
        let changes = try store.changes(#"{"Cat": {"no": 1, "kinds": [{"no": 5, "at": 3}]}, "Bee": [\#(bee)]}"#)
        #expect(changes == ["Bee +1 ~0 =0 !0", "BeeKind +0 ~1 =0 !0", "Cat +1 ~0 =0 !0"])
        #expect(try bees()[0] == "5|NULL|NULL|1|NULL|NULL|BeeKind")
    }

    @Test func `a pair of subentities is linked on both sides beside rows of other entities`() throws {
        try store.apply(#"{"BeeKind": [{"no": 1, "at": 3}, {"no": 2}], "Other": {"no": 4}}"#)
        try store.apply(
            #"{"BeeKind": {"no": 2, "pal": {"no": 1, "at": 3}}, "Bee": [{"no": 4, "text": "t"}, {"no": 5}], "Other": {"no": 6, "size": 1}}"#
        )
        #expect(
            try bees() == [
                "1|NULL|NULL|NULL|2|NULL|BeeKind", "2|NULL|NULL|NULL|1|NULL|BeeKind", "4|t|NULL|NULL|NULL|NULL|Other",
                "5|NULL|NULL|NULL|NULL|NULL|Bee", "6|NULL|NULL|NULL|NULL|1|Other",
            ])
    }

    @Test func `a record that is not newer makes no key of another branch a fault`() throws {
        try store.apply(#"{"BeeKind": {"no": 4, "at": 1}}"#)
        try store.apply(#"{"BeeKind": [{"no": 4, "at": 1, "pal": 6}, {"no": 7, "mate": {"no": 6, "size": 5}}]}"#)
        #expect(
            try store.rows("SELECT no, pal, mate, _entity FROM Bee") == [
                "4|NULL|NULL|BeeKind", "6|NULL|NULL|Other", "7|NULL|6|BeeKind",
            ])
    }

    @Test(arguments: [true, false])
    func `a record that is not newer is linked only if its object is of the relationship's entity`(
        isOneJob: Bool
    ) throws {
        let records = [
            #"{"no": 3, "pal": {"no": 6, "at": 2}}"#,
            #"{"no": 3, "mate": {"no": 6, "at": 3}, "friend": {"no": 6, "at": 3}}"#,
        ]
        func apply(_ records: [String]) throws {
            try store.apply(#"{"BeeKind": [\#(records.joined(separator: ", "))]}"#)
        }
        func links() throws -> [String] { try store.rows("SELECT friend, pal, mate FROM BeeKind WHERE no = 3") }
        try store.apply(#"{"Bee": {"no": 6, "at": 3}}"#)
        try isOneJob ? apply(records) : records.forEach { try apply([$0]) }
        #expect(try links() == ["6|NULL|NULL"])
        try apply([#"{"no": 6, "at": 4}"#, records[0]])
        #expect(try links() == ["6|6|NULL"])
    }
}
