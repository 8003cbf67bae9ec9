import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// Entities that inherit from others share a table and one space of identities.
@Suite(.timeLimit(.minutes(5))) struct HierarchyTests {
    private static let model = """
        {"entities": {
            "Person": {"table": "person", "identity": "id",
                "attributes": {"id": "integer64", "name": {"type": "string", "default": "unnamed"}},
                "relationships": {"boss": {"entity": "Employee", "inverse": "staff"},
                    "friends": {"entity": "Person", "toMany": true}}},
            "Employee": {"parent": "Person",
                "attributes": {"salary": {"type": "decimal", "optional": false}, "grade": {"type": "integer16", "default": 1}},
                "relationships": {"staff": {"entity": "Person", "toMany": true, "inverse": "boss", "deleteRule": "cascade"}}},
            "Manager": {"parent": "Employee", "attributes": {"title": "string"}, "unique": [["title"]]},
            "Guest": {"parent": "Person", "attributes": {"title": "string", "grade": "string"},
                "relationships": {"host": {"entity": "Employee", "missing": "fail"}}},
            "Thing": {"abstract": true, "identity": "id", "attributes": {"id": "integer64"}},
            "Car": {"parent": "Thing", "attributes": {"seats": "integer16"}},
            "Bike": {"parent": "Thing", "attributes": {"seats": "integer16"}},
            "Owner": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"things": {"entity": "Thing", "toMany": true}, "best": {"entity": "Thing"}}}}}
        """

    private func store() throws -> TestStore { try TestStore(Self.model) }

    private func people(_ test: TestStore) throws -> [String] {
        try test.rows("SELECT id, name, salary, Employee_grade, boss, _entity FROM person ORDER BY id")
    }

    @Test func `a hierarchy has one table, and a view for each subentity`() throws {
        let test = try store()
        try test.apply(
            """
            {"Person": [{"id": 1}], "Employee": [{"id": 2, "salary": "5.0"}], "Manager": [{"id": 3, "salary": 1, "title": "m"}],
             "Guest": [{"id": 4, "title": "g", "grade": "a"}]}
            """)
        #expect(
            try people(test) == [
                "1|unnamed|NULL|NULL|NULL|Person", "2|unnamed|5.0|1|NULL|Employee", "3|unnamed|1|1|NULL|Manager",
                "4|unnamed|NULL|NULL|NULL|Guest",
            ])
        #expect(try test.rows("SELECT id, grade FROM Employee ORDER BY id") == ["2|1", "3|1"])
        #expect(try test.rows("SELECT id, title FROM Manager") == ["3|m"])
        #expect(try test.rows("SELECT id, title, grade FROM Guest") == ["4|g|a"])
        #expect(
            try test.rows(
                "SELECT name, type FROM sqlite_schema WHERE name IN ('person', 'Guest', 'Thing', 'Car') ORDER BY 1")
                == ["Car|view", "Guest|view", "Thing|table", "person|table"])
        #expect(throws: StoreError.self) { try test.execute("UPDATE person SET salary = NULL WHERE id = 3") }
        #expect(throws: StoreError.self) { try test.execute("UPDATE person SET _entity = NULL WHERE id = 3") }
        #expect(try test.isSound())
    }

    @Test func `an object counts under its own entity, by whatever record it was named`() throws {
        let test = try store()
        #expect(
            try test.changes(#"{"Manager": [{"id": 1, "salary": 1}], "Guest": [{"id": 2}]}"#) == [
                "Guest +1 ~0 =0 !0", "Manager +1 ~0 =0 !0",
            ])
        #expect(
            try test.changes(#"{"Person": [{"id": 1, "name": "x"}, {"id": 2}, {"id": 3}]}"#)
                == ["Guest +0 ~0 =1 !0", "Manager +0 ~1 =0 !0", "Person +1 ~0 =0 !0"])
        #expect(
            try test.keys(#"{"Person": [{"id": 1, "name": "y"}, {"id": 5}], "Employee": [{"id": 6, "salary": 2}]}"#)
                == #"{"Employee":{"inserted":[6],"updated":[],"deleted":[]},"Manager":{"inserted":[],"updated":[1],"deleted":[]},"Person":{"inserted":[5],"updated":[],"deleted":[]}}"#
        )
    }

    @Test func `an object of an ancestor becomes the more special one, with its defaults`() throws {
        let test = try store()
        try test.apply(#"{"Person": [{"id": 1, "name": "a", "boss": 2}]}"#.replacing(#", "boss": 2"#, with: ""))
        let fault = try test.fault(#"{"Employee": [{"id": 1}]}"#)
        #expect(fault?.code == .missingValue)
        #expect(fault?.attribute == "salary")
        #expect(try test.changes(#"{"Manager": [{"id": 1, "salary": 3, "title": "t"}]}"#) == ["Manager +0 ~1 =0 !0"])
        #expect(try people(test) == ["1|a|3|1|NULL|Manager"])
        // Existing objects stay, and a record of an ancestor changes the ancestor's attributes.
        #expect(
            try test.changes(#"{"Employee": [{"id": 1, "grade": 7}], "Person": [{"id": 1, "name": "b"}]}"#) == [
                "Manager +0 ~1 =0 !0"
            ])
        #expect(try people(test) == ["1|b|3|7|NULL|Manager"])
        #expect(try test.changes(#"{"Employee": [{"id": 1, "salary": 3}]}"#) == ["Manager +0 ~0 =1 !0"])
        #expect(try people(test) == ["1|b|3|7|NULL|Manager"])
    }

    @Test func `within one job, too, the most special record determines an object's entity`() throws {
        let test = try store()
        try test.apply(
            #"{"Person": [{"id": 1, "name": "a"}], "Manager": [{"id": 1, "salary": 1}], "Employee": [{"id": 1, "grade": 4}]}"#
        )
        #expect(try people(test) == ["1|a|1|4|NULL|Manager"])
    }

    @Test func `a record of another branch is refused, and only that`() throws {
        let test = try store()
        try test.apply(#"{"Guest": [{"id": 1}]}"#)
        let fault = try test.fault(#"{"Person": [{"id": 9}], "Employee": [{"id": 1, "salary": 1}]}"#)
        #expect(fault?.code == .constraintViolation)
        #expect(fault?.path == "/Employee/0")
        #expect(fault?.message.contains("one of Guest") == true)
        let outcome = try test.outcome(
            #"{"Person": [{"id": 1, "name": "p"}], "Employee": [{"id": 1, "salary": 1}, {"id": 2, "salary": 1}]}"#,
            .skip)
        #expect(outcome.described == ["Employee +1 ~0 =0 !1", "Guest +0 ~1 =0 !0"])
        #expect(outcome.rejections == ["constraintViolation /Employee/0"])
        #expect(try people(test) == ["1|p|NULL|NULL|NULL|Guest", "2|unnamed|1|1|NULL|Employee"])
        // The first in the text of two records in one job.
        let both = try test.outcome(#"{"Guest": [{"id": 5}], "Manager": [{"id": 5, "salary": 1}]}"#, .skip)
        #expect(both.rejections == ["constraintViolation /Manager/0"])
        #expect(try test.rows("SELECT _entity FROM person WHERE id = 5") == ["Guest"])
    }

    @Test func `a link to an ancestor takes any descendant, and a link to a subentity gives its object that entity`()
        throws
    {
        let test = try store()
        try test.apply(
            #"{"Person": [{"id": 1, "boss": 2}, {"id": 3}]}"#.replacing(
                #""boss": 2"#, with: #""boss": {"id": 2, "salary": 4}"#))
        #expect(
            try people(test) == [
                "1|unnamed|NULL|NULL|2|Person", "2|unnamed|4|1|NULL|Employee", "3|unnamed|NULL|NULL|NULL|Person",
            ])
        #expect(try test.fault(#"{"Guest": [{"id": 8, "host": 99}]}"#)?.code == .objectNotFound)
        let fault = try test.fault(#"{"Person": [{"id": 4, "boss": 3}]}"#)
        #expect(fault?.code == .missingValue)
        try test.apply(#"{"Manager": [{"id": 10, "salary": 1, "staff": [1, {"id": 3}]}]}"#)
        #expect(try test.rows("SELECT id, boss FROM person WHERE boss IS NOT NULL ORDER BY id") == ["1|10", "3|10"])
        #expect(try test.rows("SELECT id, boss FROM Guest") == [])
        #expect(try test.isSound())
    }

    @Test func `an abstract entity has no objects of its own, but existing ones are found`() throws {
        let test = try store()
        let fault = try test.fault(#"{"Thing": [{"id": 1}]}"#)
        #expect(fault?.code == .unmappable)
        #expect(fault?.message.contains("Car, Bike") == true)
        #expect(try test.fault(#"{"Owner": [{"id": 1, "best": 1}]}"#)?.code == .objectNotFound)
        #expect(
            try test.changes(
                #"{"Owner": [{"id": 1, "best": 7, "things": [7, 8]}], "Car": [{"id": 7}], "Bike": [{"id": 8}]}"#)
                == ["Bike +1 ~0 =0 !0", "Car +1 ~0 =0 !0", "Owner +1 ~0 =0 !0"])
        #expect(try test.changes(#"{"Thing": [{"id": 7}, {"id": 8}]}"#) == ["Bike +0 ~0 =1 !0", "Car +0 ~0 =1 !0"])
        // A record comes before what makes its object.
        let outcome = try test.outcome(#"{"Thing": [{"id": 5}], "Car": [{"id": 5}], "Bike": [{"id": 6}]}"#, .skip)
        #expect(outcome.rejections == ["unmappable /Thing/0"])
        #expect(try test.rows("SELECT id, _entity FROM Thing ORDER BY id") == ["5|Car", "6|Bike", "7|Car", "8|Bike"])
    }

    @Test func `unique values hold for the whole hierarchy`() throws {
        let test = try store()
        try test.apply(#"{"Manager": [{"id": 1, "salary": 1, "title": "x"}]}"#)
        #expect(try test.fault(#"{"Guest": [{"id": 2, "title": "x"}]}"#)?.code == .constraintViolation)
        try test.apply(#"{"Guest": [{"id": 2, "title": "x"}], "Manager": [{"id": 1, "title": "y"}]}"#)
        #expect(try test.rows("SELECT id, title FROM person ORDER BY id") == ["1|y", "2|x"])
    }

    @Test func `below an abstract entity without identity each branch has its own`() throws {
        let test = try TestStore(
            """
            {"entities": {
                "Record": {"abstract": true, "attributes": {"seen": "string"}},
                "User": {"parent": "Record", "identity": "id", "attributes": {"id": "integer64", "name": "string"}},
                "Admin": {"parent": "User"},
                "Post": {"parent": "Record", "identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"author": {"entity": "User"}, "likedBy": {"entity": "User", "toMany": true}}},
                "Note": {"parent": "Record", "attributes": {"text": "string"}}}}
            """)
        #expect(
            try test.changes(
                """
                {"User": [{"id": 1, "name": "a"}, {"id": 2}], "Post": [{"id": 1, "author": 1, "likedBy": [2, {"id": 3}]}],
                 "Note": [{"text": "n"}, {"text": "n"}], "Admin": [{"id": 2, "name": "b"}]}
                """) == ["Admin +1 ~0 =0 !0", "Note +2 ~0 =0 !0", "Post +1 ~0 =0 !0", "User +2 ~0 =0 !0"])
        #expect(
            try test.changes(#"{"User": [{"id": 1, "name": "c"}, {"id": 2}], "Post": [{"id": 1, "seen": "now"}]}"#)
                == ["Admin +0 ~0 =1 !0", "Post +0 ~1 =0 !0", "User +0 ~1 =0 !0"])
        #expect(
            try test.rows("SELECT _entity, id, name, text FROM Record ORDER BY _entity, id")
                == [
                    "Admin|2|b|NULL", "Note|NULL|NULL|n", "Note|NULL|NULL|n", "Post|1|NULL|NULL", "User|1|c|NULL",
                    "User|3|NULL|NULL",
                ])
        #expect(
            try test.rows("SELECT p.id, u.name FROM Post p JOIN User u ON u._pk = p.author") == ["1|c"])
        #expect(try test.isSound())
    }
}
