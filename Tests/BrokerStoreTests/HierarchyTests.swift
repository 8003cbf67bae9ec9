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
                "relationships": {"things": {"entity": "Thing", "toMany": true}, "best": {"entity": "Thing"}}},
            "Record": {"abstract": true, "attributes": {"seen": "string"}},
            "User": {"parent": "Record", "identity": "id", "attributes": {"id": "integer64", "nick": "string"}},
            "Admin": {"parent": "User"},
            "Post": {"parent": "Record", "identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"author": {"entity": "User"}, "likedBy": {"entity": "User", "toMany": true}}},
            "Note": {"parent": "Record", "attributes": {"text": "string"}}}}
        """

    private static let queries = [
        "people": "SELECT id, name, salary, Employee_grade, boss, _entity FROM person ORDER BY id",
        "bosses": "SELECT id, boss FROM person WHERE boss IS NOT NULL ORDER BY id",
        "titles": "SELECT id, title FROM person ORDER BY id", "things": "SELECT id, _entity FROM Thing ORDER BY id",
    ]

    private func store() throws -> TestStore { try TestStore(Self.model) }

    @Test(
        arguments: Claim.list(
            #"""
            # a hierarchy has one table, and a view for each subentity
            {"Person": [{"id": 1}], "Employee": [{"id": 2, "salary": "5.0"}], "Manager": [{"id": 3, "salary": 1, "title": "m"}],
              "Guest": [{"id": 4, "title": "g", "grade": "a"}]}
            people :: 1|unnamed|NULL|NULL|NULL|Person, 2|unnamed|5.0|1|NULL|Employee, 3|unnamed|1|1|NULL|Manager, 4|unnamed|NULL|NULL|NULL|Guest
            SELECT id, grade FROM Employee ORDER BY id :: 2|1, 3|1
            SELECT id, title FROM Manager :: 3|m
            SELECT id, title, grade FROM Guest :: 4|g|a
            SELECT name, type FROM sqlite_schema WHERE name IN ('person', 'Guest', 'Thing', 'Car') ORDER BY 1 :: Car|view, Guest|view, Thing|table, person|table
            # an object counts under its own entity, by whatever record it was named
            {"Manager": [{"id": 1, "salary": 1}], "Guest": [{"id": 2}]} => Guest +1, Manager +1
            {"Person": [{"id": 1, "name": "x"}, {"id": 2}, {"id": 3}]} => Guest =1, Manager ~1, Person +1
            keys {"Person": [{"id": 1, "name": "y"}, {"id": 5}], "Employee": [{"id": 6, "salary": 2}]}
              => {"Employee":{"inserted":[6],"updated":[],"deleted":[]},"Manager":{"inserted":[],"updated":[1],"deleted":[]},"Person":{"inserted":[5],"updated":[],"deleted":[]}}
            # an object of an ancestor becomes the more special one, with its defaults, and stays so
            {"Person": [{"id": 1, "name": "a"}]}
            {"Employee": [{"id": 1}]} => missingValue /Employee/0
            {"Manager": [{"id": 1, "salary": 3, "title": "t"}]} => Manager ~1
            people :: 1|a|3|1|NULL|Manager
            {"Employee": [{"id": 1, "grade": 7}], "Person": [{"id": 1, "name": "b"}]} => Manager ~1
            people :: 1|b|3|7|NULL|Manager
            {"Employee": [{"id": 1, "salary": 3}]} => Manager =1
            # within one job, too, the most special record determines an object's entity
            {"Person": [{"id": 1, "name": "a"}], "Manager": [{"id": 1, "salary": 1}], "Employee": [{"id": 1, "grade": 4}]}
            people :: 1|a|1|4|NULL|Manager
            # a record of another branch is refused, and only that; the first in the text of two in one job counts
            {"Guest": [{"id": 1}]}
            {"Person": [{"id": 9}], "Employee": [{"id": 1, "salary": 1}]} => constraintViolation /Employee/0
            skip {"Person": [{"id": 1, "name": "p"}], "Employee": [{"id": 1, "salary": 1}, {"id": 2, "salary": 1}]}
              => Employee +1 !1, Guest ~1; constraintViolation /Employee/0
            people :: 1|p|NULL|NULL|NULL|Guest, 2|unnamed|1|1|NULL|Employee
            skip {"Guest": [{"id": 5}], "Manager": [{"id": 5, "salary": 1}]} => Guest +1, Manager !1; constraintViolation /Manager/0
            # a link to an ancestor takes any descendant, and a link to a subentity gives its object that entity
            {"Person": [{"id": 1, "boss": {"id": 2, "salary": 4}}, {"id": 3}]}
            people :: 1|unnamed|NULL|NULL|2|Person, 2|unnamed|4|1|NULL|Employee, 3|unnamed|NULL|NULL|NULL|Person
            {"Guest": [{"id": 8, "host": 99}]} => objectNotFound /Guest/0/host
            {"Person": [{"id": 4, "boss": 3}]} => missingValue /Person/0/boss
            {"Manager": [{"id": 10, "salary": 1, "staff": [1, {"id": 3}]}]}
            bosses :: 1|10, 3|10
            SELECT id, boss FROM Guest ::
            # an abstract entity has no objects of its own, but existing ones are found
            {"Thing": [{"id": 1}]} => unmappable /Thing/0
            {"Owner": [{"id": 1, "best": 1}]} => objectNotFound /Owner/0/best
            {"Owner": [{"id": 1, "best": 7, "things": [7, 8]}], "Car": [{"id": 7}], "Bike": [{"id": 8}]} => Bike +1, Car +1, Owner +1
            {"Thing": [{"id": 7}, {"id": 8}]} => Bike =1, Car =1
            skip {"Thing": [{"id": 5}], "Car": [{"id": 5}], "Bike": [{"id": 6}]} => Bike +1, Car +1, Thing !1; unmappable /Thing/0
            things :: 5|Car, 6|Bike, 7|Car, 8|Bike
            # unique values hold for the whole hierarchy
            {"Manager": [{"id": 1, "salary": 1, "title": "x"}]}
            {"Guest": [{"id": 2, "title": "x"}]} => constraintViolation /Guest/0
            {"Guest": [{"id": 2, "title": "x"}], "Manager": [{"id": 1, "title": "y"}]}
            titles :: 1|y, 2|x
            # below an abstract entity without identity each branch has its own
            {"User": [{"id": 1, "nick": "a"}, {"id": 2}], "Post": [{"id": 1, "author": 1, "likedBy": [2, {"id": 3}]}],
              "Note": [{"text": "n"}, {"text": "n"}], "Admin": [{"id": 2, "nick": "b"}]} => Admin +1, Note +2, Post +1, User +2
            {"User": [{"id": 1, "nick": "c"}, {"id": 2}], "Post": [{"id": 1, "seen": "now"}]} => Admin =1, Post ~1, User ~1
            SELECT _entity, id, nick, text FROM Record ORDER BY _entity, id
              :: Admin|2|b|NULL, Note|NULL|NULL|n, Note|NULL|NULL|n, Post|1|NULL|NULL, User|1|c|NULL, User|3|NULL|NULL
            SELECT p.id, u.nick FROM Post p JOIN User u ON u._pk = p.author :: 1|c
            """#))
    func hierarchies(claim: Claim) throws { try claim.check(store(), Self.queries) }

    @Test func `the table requires what each entity requires, and faults name the entities`() throws {
        let test = try store()
        try test.apply(#"{"Manager": {"id": 3, "salary": 1}, "Guest": {"id": 1}, "Person": {"id": 2}}"#)
        for column in ["salary", "_entity"] {
            #expect(throws: StoreError.self) { try test.execute("UPDATE person SET \(column) = NULL WHERE id = 3") }
        }
        #expect(try test.fault(#"{"Employee": [{"id": 2}]}"#)?.attribute == "salary")
        #expect(try test.fault(#"{"Employee": [{"id": 1, "salary": 1}]}"#)?.message.contains("one of Guest") == true)
        #expect(try test.fault(#"{"Thing": [{"id": 1}]}"#)?.message.contains("Car, Bike") == true)
    }
}

/// Faults in hierarchies, and their effect on the rest of a job.
@Suite(.timeLimit(.minutes(5))) struct HierarchyFaultTests {
    private static let model = """
        {"entities": {
            "Person": {"identity": "id", "attributes": {"id": "integer64", "name": {"type": "string", "optional": false}}},
            "Staff": {"parent": "Person", "abstract": true},
            "Employee": {"parent": "Staff",
                "attributes": {"badge": {"type": "string", "unique": true}, "salary": {"type": "decimal", "optional": false}}},
            "Guest": {"parent": "Person", "attributes": {"title": {"type": "string", "unique": true}}},
            "Chair": {"parent": "Person", "attributes": {"seat": {"type": "string", "default": "first", "unique": true}}},
            "Thing": {"abstract": true, "identity": "id", "attributes": {"id": "integer64"}},
            "Car": {"parent": "Thing", "abstract": true}, "Taxi": {"parent": "Car"},
            "Team": {"identity": "id", "attributes": {"id": "integer64", "name": {"type": "string", "optional": false}},
                "relationships": {
                    "lead": {"entity": "Staff"}, "advisor": {"entity": "Staff", "missing": "ignore"}, "strict": {"entity": "Employee"},
                    "member": {"entity": "Employee", "missing": "ignore"}, "host": {"entity": "Person"},
                    "guest": {"entity": "Guest", "missing": "ignore"}, "speaker": {"entity": "Guest", "missing": "fail"},
                    "car": {"entity": "Car"}, "thing": {"entity": "Thing"}}}}}
        """

    private static let queries = [
        "people": "SELECT id, _entity FROM Person ORDER BY id",
        "teams": "SELECT id, lead, advisor, member, guest FROM Team",
    ]

    @Test(
        arguments: Claim.list(
            #"""
            # an object of an ancestor does not become one of an abstract entity
            {"Person": [{"id": 1, "name": "a"}]}
            skip {"Staff": [{"id": 1, "name": "b"}]} => Staff !1; unmappable /Staff/0
            {"Staff": [{"id": 1}]} => unmappable /Staff/0
            skip {"Team": [{"id": 1, "name": "t", "lead": 1, "advisor": 1}]} => Staff !1, Team +1; objectNotFound /Team/0/lead
            teams :: 1|NULL|NULL|NULL|NULL
            people :: 1|Person
            {"Employee": [{"id": 1, "salary": 1}], "Team": [{"id": 1, "lead": 1}]}
            {"Staff": [{"id": 1, "name": "c"}]} => Employee ~1
            teams :: 1|1|NULL|NULL|NULL
            # an object that loses a unique value is rejected as one of its concrete entity
            skip {"Guest": [{"id": 1, "name": "a", "title": "x"}, {"id": 2, "name": "b", "title": "x"}]}
              => Guest +1 !1; constraintViolation /Guest/1
            # a key with missing ignore does not hide the fault of a record
            skip {"Team": [{"id": 1, "name": "t", "advisor": 5}], "Staff": [{"id": 5, "name": "s"}]}
              => Staff !1, Team +1; unmappable /Staff/0
            teams :: 1|NULL|NULL|NULL|NULL
            # a key that makes nothing names an object that a later record makes one of its entity
            {"Person": {"id": 5, "name": "p"}}
            {"Team": {"id": 1, "name": "t", "advisor": 5, "member": 5}, "Employee": {"id": 5, "salary": 1}} => Employee ~1, Team +1
            teams :: 1|NULL|5|5|NULL
            # a key that must find an object of its entity does not make it so
            {"Person": {"id": 5, "name": "p"}, "Team": [{"id": 1, "name": "t", "speaker": 5}]} => objectNotFound /Team/0/speaker
            skip {"Person": {"id": 5, "name": "p"}, "Team": [{"id": 1, "name": "t", "speaker": 5}, {"id": 2}]}
              => Guest !1, Person +1, Team +1 !1; objectNotFound /Team/0/speaker, missingValue /Team/1
            people :: 5|Person
            # a key fails the job at the key where its object cannot become the key's entity
            {"Person": [{"id": 5, "name": "p"}], "Team": [{"id": 1, "name": "t", "strict": 5}]} => missingValue /Team/0/strict
            people ::
            # several keys of abstract entities name a missing object, and each is listed
            skip {"Team": [{"id": 1, "name": "t", "car": 7, "thing": 7}]}
              => Car !1, Team +1, Thing !1; objectNotFound /Team/0/car, objectNotFound /Team/0/thing
            # a rejected record does not change the entity of its object
            skip {"Team": [{"id": 1, "member": {"id": 1}}], "Person": [{"id": 1, "name": "a"}]} => Person +1, Team !1; missingValue /Team/0
            people :: 1|Person
            # a unique default that an object would take by becoming more special is a claim like others
            {"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], "Chair": [{"id": 3, "name": "c"}]}
            {"Chair": [{"id": 1}]} => constraintViolation /Chair/0
            skip {"Chair": [{"id": 1}, {"id": 2, "seat": "second"}]} => Chair ~1 !1; constraintViolation /Chair/0
            SELECT id, _entity, seat FROM Person ORDER BY id :: 1|Person|NULL, 2|Chair|second, 3|Chair|first
            {"Chair": [{"id": 1}, {"id": 3, "seat": null}]}
            SELECT id, seat FROM Chair ORDER BY id :: 1|first, 2|second, 3|NULL
            """#))
    func faults(claim: Claim) throws { try claim.check(TestStore(Self.model), Self.queries) }

    @Test(
        arguments: [InvalidRecordPolicy.fail, .skip],
        [
            #"{"Team": {"id": 1, "name": "t", "member": 5}, "Guest": {"id": 5, "name": "p"}}"#,
            #"{"Team": {"id": 1, "name": "t", "member": 5}, "Person": {"id": 5, "name": "p"}}"#,
            #"{"Team": {"id": 1, "name": "t", "advisor": 5}, "Person": {"id": 5, "name": "p"}}"#,
            #"{"Team": {"id": 1, "name": "t", "advisor": 5, "member": 5, "host": {"id": 5, "name": "p"}}}"#,
            #"{"Guest": {"id": 5, "name": "p"}, "Team": {"id": 1, "name": "t", "member": 5}}"#,
            #"{"Person": {"id": 5, "name": "p"}, "Team": {"id": 1, "name": "t", "guest": 5}}"#,
        ])
    func `a key that may lead nowhere names no object that is of another entity after the job's records`(
        policy: InvalidRecordPolicy, job: String
    ) throws {
        let test = try TestStore(Self.model)
        for _ in 0..<2 {
            #expect(try test.outcome(job, policy).rejections == [])
            #expect(try test.rows("SELECT advisor, member, guest FROM Team") == ["NULL|NULL|NULL"])
            #expect(try test.rows(Self.queries["people"]!) == [job.contains("Guest") ? "5|Guest" : "5|Person"])
        }
    }

    @Test func `faults name the concrete entity, and the attribute that takes a default`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Guest": {"id": 1, "name": "a", "title": "x"}, "Chair": {"id": 3, "name": "c"}}"#)
        let guest = try test.fault(#"{"Guest": {"id": 2, "name": "b", "title": "x"}}"#)
        #expect(guest?.entity == "Guest" && guest?.message.contains("Another Guest") == true)
        #expect(try test.fault(#"{"Chair": [{"id": 4, "name": "d"}]}"#)?.attribute == "seat")
        try test.apply(#"{"Person": {"id": 5, "name": "p"}}"#)
        #expect(try test.fault(#"{"Team": [{"id": 1, "name": "t", "speaker": 5}]}"#)?.entity == "Guest")
    }
}

/// Links of a subentity whose rows the job names through another entity of the hierarchy.
@Suite(.timeLimit(.minutes(5))) struct SubentityLinkTests {
    private static let model = """
        {"entities": {
          "Bee": {"identity": "no", "modified": "at",
            "attributes": {"no": "integer64", "at": "integer64", "text": "string"}},
          "BeeKind": {"parent": "Bee", "relationships": {
            "friend": {"entity": "Bee"}, "cat": {"entity": "Cat", "inverse": "kinds"},
            "pal": {"entity": "BeeKind", "inverse": "pal"}, "mate": {"entity": "Other"}}},
          "Other": {"parent": "Bee", "attributes": {"size": "integer64"}},
          "Cat": {"identity": "no", "attributes": {"no": "integer64"}, "relationships": {
            "kinds": {"entity": "BeeKind", "toMany": true, "inverse": "cat"}}}}}
        """

    private static let queries = [
        "bees": "SELECT no, text, friend, cat, pal, size, _entity FROM Bee ORDER BY no",
        "links": "SELECT friend, pal, mate FROM BeeKind WHERE no = 3",
    ]

    @Test(
        arguments: Claim.list(
            #"""
            # relate links a subentity's object to a record of the topmost entity
            {"BeeKind": {"no": 3}}
            {"op": "relate", "entity": "BeeKind", "object": 3, "relationship": "friend", "json": {"no": 2}} => Bee +1, BeeKind ~1
            bees :: 2|NULL|NULL|NULL|NULL|NULL|Bee, 3|NULL|2|NULL|NULL|NULL|BeeKind
            # a record that is not newer is linked beside records of the topmost entity
            {"BeeKind": {"no": 5, "at": 3}}
            {"Cat": {"no": 1, "kinds": [{"no": 5, "at": 3}]}, "Bee": [{"no": 7}]} => Bee +1, BeeKind ~1, Cat +1
            {"Cat": {"no": 2, "kinds": [{"no": 5, "at": 3}]}, "Bee": [{"no": 8, "text": "t"}]} => Bee +1, BeeKind ~1, Cat +1
            SELECT no, cat FROM BeeKind :: 5|2
            # a pair of subentities is linked on both sides beside rows of other entities
            {"BeeKind": [{"no": 1, "at": 3}, {"no": 2}], "Other": {"no": 4}}
            {"BeeKind": {"no": 2, "pal": {"no": 1, "at": 3}}, "Bee": [{"no": 4, "text": "t"}, {"no": 5}], "Other": {"no": 6, "size": 1}}
            bees :: 1|NULL|NULL|NULL|2|NULL|BeeKind, 2|NULL|NULL|NULL|1|NULL|BeeKind, 4|t|NULL|NULL|NULL|NULL|Other,
              5|NULL|NULL|NULL|NULL|NULL|Bee, 6|NULL|NULL|NULL|NULL|1|Other
            # a record that is not newer makes no key of another branch a fault
            {"BeeKind": {"no": 4, "at": 1}}
            {"BeeKind": [{"no": 4, "at": 1, "pal": 6}, {"no": 7, "mate": {"no": 6, "size": 5}}]}
            SELECT no, pal, mate, _entity FROM Bee :: 4|NULL|NULL|BeeKind, 6|NULL|NULL|Other, 7|NULL|6|BeeKind
            # a record that is not newer is linked only if its object is of the relationship's entity
            {"Bee": {"no": 6, "at": 3}}
            {"BeeKind": [{"no": 3, "pal": {"no": 6, "at": 2}}, {"no": 3, "mate": {"no": 6, "at": 3}, "friend": {"no": 6, "at": 3}}]}
            links :: 6|NULL|NULL
            {"BeeKind": {"no": 3, "pal": {"no": 6, "at": 2}}}
            {"BeeKind": {"no": 3, "mate": {"no": 6, "at": 3}, "friend": {"no": 6, "at": 3}}}
            links :: 6|NULL|NULL
            {"BeeKind": [{"no": 6, "at": 4}, {"no": 3, "pal": {"no": 6, "at": 2}}]}
            links :: 6|6|NULL
            """#))
    func `links of subentities`(claim: Claim) throws { try claim.check(TestStore(Self.model), Self.queries) }
}
