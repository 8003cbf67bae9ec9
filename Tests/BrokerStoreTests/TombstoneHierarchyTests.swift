import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// A tombstone finds its object in the whole hierarchy, like any other record.
@Suite(.timeLimit(.minutes(5))) struct TombstoneHierarchyTests {
    private static let model = """
        {"entities": {
            "Ant": {"identity": "no", "tombstone": "gone == YES", "modified": "at",
                "attributes": {"no": "integer64", "text": "string", "at": "integer64", "gone": "boolean"},
                "relationships": {"friend": {"entity": "Ant"}, "mate": {"entity": "Cat"},
                    "queen": {"entity": "Queen"}}},
            "Bee": {"parent": "Ant", "attributes": {"sting": "integer16"}},
            "Queen": {"parent": "Bee"},
            "Cat": {"parent": "Ant", "attributes": {"claw": "integer16"}},
            "Pause": {"identity": "id", "attributes": {"id": "integer64"}}}}
        """

    private func ants(_ test: TestStore) throws -> [String] {
        try test.rows("SELECT no, _entity, text, at, friend FROM Ant ORDER BY no")
    }

    /// Each payload with its faults, and the rows with `skip`. Bee 1 and Ant 2 are stored.
    @Test(arguments: [
        (#""Cat": [{"no": 1, "gone": true}]"#, ["/Cat/0"], ["1|Bee|s|5|NULL", "2|Ant|NULL|5|NULL"]),
        // A rejected tombstone does not make older records acceptable,
        (
            #""Cat": [{"no": 1, "at": 9, "gone": true}], "Ant": [{"no": 1, "at": 3, "text": "c"}]"#, ["/Cat/0"],
            ["1|Bee|s|5|NULL", "2|Ant|NULL|5|NULL"]
        ),
        // nor records of its own entity,
        (
            #""Cat": [{"no": 1, "gone": true}, {"no": 1}]"#, ["/Cat/0", "/Cat/1"],
            ["1|Bee|s|5|NULL", "2|Ant|NULL|5|NULL"]
        ),
        // and discards nothing that earlier records brought.
        (
            #""Ant": [{"no": 1, "text": "x", "friend": 2}], "Cat": [{"no": 1, "gone": true}], "Ant": [{"no": 1}]"#,
            ["/Cat/0"], ["1|Bee|x|5|2", "2|Ant|NULL|5|NULL"]
        ),
        (
            #""Ant": [{"no": 2, "friend": 1}], "Cat": [{"no": 1, "gone": true}, {"no": 3, "friend": 1}]"#,
            ["/Cat/0"], ["1|Bee|s|5|NULL", "2|Ant|NULL|5|1", "3|Cat|NULL|NULL|1"]
        ),
        (
            #""Ant": [{"no": 2, "friend": {"no": 3, "friend": 1}}], "Queen": [{"no": 2}], "Cat": [{"no": 2, "gone": true}]"#,
            ["/Cat/0"], ["1|Bee|s|5|NULL", "2|Queen|NULL|5|3", "3|Ant|NULL|NULL|1"]
        ),
        (
            #""Cat": [{"no": 4, "friend": {"no": 2, "gone": true}}, {"no": 1, "at": 5, "gone": true}]"#, ["/Cat/1"],
            ["1|Bee|s|5|NULL", "4|Cat|NULL|NULL|NULL"]
        ),
        // A record inside one that is not newer is applied.
        (
            #""Ant": [{"no": 2, "at": 4, "mate": {"no": 9}}, {"no": 3, "queen": {"no": 9, "gone": true}}]"#,
            ["/Ant/1/queen"],
            ["1|Bee|s|5|NULL", "2|Ant|NULL|5|NULL", "3|Ant|NULL|NULL|NULL", "9|Cat|NULL|NULL|NULL"]
        ),
        // An entity above or below finds the object; nothing stored is no fault.
        (#""Queen": [{"no": 1, "gone": true}, {"no": 2, "gone": true}, {"no": 7, "gone": true}]"#, [], []),
        (
            #""Ant": [{"no": 1, "gone": true}], "Cat": [{"no": 1, "claw": 1}]"#, [],
            ["1|Cat|NULL|NULL|NULL", "2|Ant|NULL|5|NULL"]
        ),
        (
            #""Ant": [{"no": 1, "gone": true}], "Cat": [{"no": 1}, {"no": 1, "gone": true}, {"no": 1, "at": 1}]"#, [],
            ["1|Cat|NULL|1|NULL", "2|Ant|NULL|5|NULL"]
        ),
        (#""Ant": [{"no": 1, "gone": true}], "Cat": [{"no": 1, "gone": true}]"#, [], ["2|Ant|NULL|5|NULL"]),
        (
            #""Ant": [{"no": 1, "gone": true}], "Cat": [{"no": 1}], "Bee": [{"no": 1, "gone": true}]"#, ["/Bee/0"],
            ["1|Cat|NULL|NULL|NULL", "2|Ant|NULL|5|NULL"]
        ),
        (
            #""Bee": [{"no": 2}], "Pause": [{"id": 1}], "Cat": [{"no": 2}, {"no": 2, "gone": true}, {"no": 2}]"#,
            ["/Cat/0", "/Cat/1", "/Cat/2"], ["1|Bee|s|5|NULL", "2|Bee|NULL|5|NULL"]
        ),
        (
            #""Bee": [{"no": 3}], "Pause": [{"id": 1}], "Cat": [{"no": 3, "gone": true}]"#,
            ["/Cat/0"], ["1|Bee|s|5|NULL", "2|Ant|NULL|5|NULL", "3|Bee|NULL|NULL|NULL"]
        ),
        (
            #""Bee": [{"no": 3}], "Pause": [{"id": 1}], "Cat": [{"no": 3}, {"no": 3, "gone": true}], "Ant": {"no": 3, "gone": true}, "Cat": {"no": 3}"#,
            ["/Cat/0", "/Cat/1"], ["1|Bee|s|5|NULL", "2|Ant|NULL|5|NULL", "3|Cat|NULL|NULL|NULL"]
        ),
    ])
    func `a tombstone of another branch is a constraint violation, of that record alone`(
        collections: String, faults: [String], rows: [String]
    ) throws {
        let stored = #"{"Bee": {"no": 1, "text": "s", "at": 5}, "Ant": {"no": 2, "at": 5}}"#
        let test = try TestStore(Self.model)
        try test.apply(stored)
        let before = try ants(test)
        let failed = try test.fault("{\(collections)}")
        #expect(failed?.code == (faults.isEmpty ? nil : .constraintViolation))
        #expect(failed?.path == faults.first)
        #expect(try ants(test) == (faults.isEmpty ? rows : before))
        let skipping = try TestStore(Self.model)
        try skipping.apply(stored)
        #expect(
            try skipping.outcome("{\(collections)}", .skip).rejections == faults.map { "constraintViolation \($0)" })
        #expect(try ants(skipping) == rows)
        #expect(try skipping.isSound())
    }
}
