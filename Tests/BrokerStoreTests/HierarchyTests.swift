import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerSchema
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
            "Visit": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"host": {"entity": "Person", "missing": "fail"}}},
            "LongVisit": {"parent": "Visit"},
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
            # a later value ends the waiting of an earlier key also when the object became one of a subentity between them
            skip {"Visit": [{"id": 5, "host": 9}, {"id": 1, "host": 7}], "LongVisit": [{"id": 1, "host": {"id": 8, "name": "h"}}]}
              => LongVisit +1, Person +1 !1, Visit +1; objectNotFound /Visit/0/host
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

/// Hierarchies that change: a table, the kinds of its rows, what each kind requires, and views follow the model.
@Suite(.timeLimit(.minutes(5))) struct HierarchyMigrationTests {
    private static let alone = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {"boss": {"entity": "Person"}}},
          "Club": {"identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"members": {"entity": "Person", "toMany": true}}}}}
        """
    private static let family = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Employee": {"parent": "Person", "attributes": {"salary": {"type": "integer16", "optional": false}, "grade": "string"},
            "relationships": {"boss": {"entity": "Employee", "inverse": "staff"},
              "staff": {"entity": "Employee", "toMany": true, "inverse": "boss"}, "seen": {"entity": "Person", "toMany": true}}},
          "Guest": {"parent": "Person", "attributes": {"grade": "string"}}}}
        """
    private static let people = """
        {"Person": [{"id": 1, "name": "a"}], "Employee": [{"id": 2, "name": "b", "salary": 5, "grade": "x", "seen": [1, 3]},
         {"id": 4, "salary": 6, "boss": 2}], "Guest": [{"id": 3, "name": "c", "grade": "y"}]}
        """

    private func store(_ model: String = family, _ records: String = people) throws -> TestStore {
        let store = try TestStore(model)
        #expect(try store.fault(records) == nil)
        return store
    }

    /// Opens the store with another model, and what it was made is what that model would have made.
    private func migrate(_ store: TestStore, to model: String, removal: RemovalPolicy = .refuse) throws -> [String] {
        try store.reopen(model, removal: removal)
        let changes = store.store.migration.changes.map { "\($0.verdict) \($0.text)" }
        let fresh = try TestStore(model)
        for sql in [
            "SELECT type, name FROM sqlite_schema ORDER BY 1, 2",
            "SELECT name, sql FROM sqlite_schema WHERE type = 'view' ORDER BY 1",
            "SELECT t.name, c.name, c.\"notnull\" FROM sqlite_schema t, pragma_table_info(t.name) c ORDER BY 1, 2",
            "SELECT name, sql FROM sqlite_schema WHERE sql LIKE 'CREATE UNIQUE%' ORDER BY 1",
        ] { #expect(try store.rows(sql) == fresh.rows(sql)) }
        #expect(try store.isSound())
        try store.reopen()
        #expect(store.store.migration.changes.isEmpty)
        return changes
    }

    private func refusal(_ store: TestStore, _ model: String, removal: RemovalPolicy = .refuse) throws -> String {
        let schema = try store.rows("SELECT sql FROM sqlite_schema ORDER BY name")
        let error = try #require(throws: StoreError.self) { try store.reopen(model, removal: removal) }
        #expect(error.code == .incompatible)
        #expect(try store.rows("SELECT sql FROM sqlite_schema ORDER BY name") == schema)
        return error.message
    }

    @Test func `an entity without a hierarchy gets subentities, and its rows have its concrete entity`() throws {
        let store = try store(
            Self.alone, #"{"Person": [{"id": 1, "name": "a", "boss": 2}], "Club": [{"id": 1, "members": [1, 2]}]}"#)
        let model = Self.alone.replacing(
            #""Club": {"#,
            with: #"""
                "Employee": {"parent": "Person", "attributes": {"salary": {"type": "integer16", "optional": false}}},
                "Manager": {"parent": "Employee", "attributes": {"title": "string"}}, "Club": {
                """#)
        #expect(try migrate(store, to: model) == ["migrated Employee is new", "migrated Manager is new"])
        #expect(
            try store.rows("SELECT id, name, boss, salary, _entity FROM Person ORDER BY id") == [
                "1|a|2|NULL|Person", "2|NULL|NULL|NULL|Person",
            ])
        #expect(try store.changes(#"{"Manager": {"id": 2, "salary": 3, "title": "t"}}"#) == "Manager ~1")
        #expect(throws: StoreError.self) { try store.execute("UPDATE Person SET salary = NULL WHERE id = 2") }
        // And below one that is in a hierarchy already.
        let more = model.replacing(
            #""Manager": {"#,
            with:
                #""Chief": {"parent": "Manager", "attributes": {"car": {"type": "string", "default": "c", "optional": false}}}, "Manager": {"#
        )
        #expect(try migrate(store, to: more) == ["migrated Chief is new"])
        #expect(try store.changes(#"{"Chief": {"id": 2}}"#) == "Chief ~1")
        #expect(try store.rows("SELECT id, title, car FROM Chief") == ["2|t|c"])
        #expect(try store.rows("SELECT destination FROM Club_members ORDER BY 1") == ["1", "2"])
    }

    @Test func `an abstract entity above one without a hierarchy takes over its table`() throws {
        for table in ["", #""table": "Person", "#] {
            let store = try store(
                Self.alone, #"{"Person": [{"id": 1, "name": "a", "boss": 2}], "Club": [{"id": 1, "members": [1, 2]}]}"#)
            let model = Self.alone.replacing(
                #""Person": {"identity": "id", "attributes": {"id": "integer64", "#,
                with: #"""
                    "Being": {\#(table)"abstract": true, "identity": "id", "attributes": {"id": "integer64"}},
                    "Person": {\#(table.isEmpty ? "" : #""table": "people", "#)"parent": "Being", "attributes": {
                    """#)
            let changes = try migrate(store, to: model)
            #expect(
                changes.first?.hasPrefix("migrated Person inherits from nothing in the store, and from Being") == true)
            let (name, view) = table.isEmpty ? ("Being", "Person") : ("Person", "people")
            #expect(
                try store.rows("SELECT id, name, boss, _entity FROM \(name) ORDER BY id") == [
                    "1|a|2|Person", "2|NULL|NULL|Person",
                ])
            #expect(try store.rows("SELECT id, name FROM \(view) ORDER BY id") == ["1|a", "2|NULL"])
            #expect(
                try store.rows("SELECT \"table\" FROM pragma_foreign_key_list('Club_members') ORDER BY 1")
                    == ["Club", name].sorted())
            #expect(try store.fault(#"{"Being": {"id": 9}}"#)?.code == .unmappable)
            #expect(try store.changes(#"{"Person": {"id": 1, "name": "b"}}"#) == "Person ~1")
        }
    }

    @Test func `two entities without a hierarchy do not get one, and none leaves its hierarchy`() throws {
        let two =
            #"{"entities": {"Cat": {"identity": "id", "attributes": {"id": "integer64"}}, "Dog": {"identity": "id", "attributes": {"id": "integer64"}}}}"#
        let store = try store(two, #"{"Cat": {"id": 1}, "Dog": {"id": 1}}"#)
        let message = try refusal(
            store,
            #"{"entities": {"Pet": {"identity": "id", "attributes": {"id": "integer64"}}, "Cat": {"parent": "Pet"}, "Dog": {"parent": "Pet"}}}"#
        )
        #expect(
            message.contains(
                "Dog lies in the table Dog in the store, and in one table with Cat in the model; the rows of two tables "
                    + "are not put together"))
        let other = try self.store()
        let left = try refusal(
            other,
            Self.family.replacing(
                #""Guest": {"parent": "Person", "attributes": {"grade""#,
                with: #""Guest": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "grade""#))
        #expect(
            left.contains("Guest lies in the table Person with others in the store, and in a table of its own, Guest"))
        // An identity of its own beside the store's key is another way to be found.
        let keyed = try refusal(
            store, two.replacing(#""Dog": {"#, with: #""Pet": {"abstract": true}, "Dog": {"parent": "Pet", "#))
        #expect(keyed.contains("the identity of Dog is its whole table's"))
    }

    @Test func `new and tightened attributes take defaults in rows of their concrete entities alone`() throws {
        let store = try store()
        let model = Self.family.replacing(
            #""optional": false}, "grade": "string"}"#,
            with: #""optional": false}, "grade": {"type": "string", "default": "g", "optional": false}, "#
                + #""rank": {"type": "integer16", "default": 7}, "must": {"type": "string", "default": "m", "optional": false}}"#
        )
        #expect(
            try migrate(store, to: model) == [
                "migrated Employee.grade is optional in the store, and required in the model, and rows without it take its default \"g\"",
                "migrated Employee.rank is new, and rows that are there take its default 7",
                "migrated Employee.must is new, and rows that are there take its default \"m\"",
            ])
        #expect(
            try store.rows("SELECT id, grade, rank, must FROM Person ORDER BY id") == [
                "1|NULL|NULL|NULL", "2|x|7|m", "3|y|NULL|NULL", "4|g|7|m",
            ])
        #expect(throws: StoreError.self) { try store.execute("UPDATE Person SET must = NULL WHERE id = 2") }
        // An optional one is added to the existing table, and filled by concrete entity there, too.
        let more = model.replacing(#""rank": {"#, with: #""size": {"type": "integer16", "default": 1}, "rank": {"#)
        #expect(try migrate(store, to: more).count == 1)
        #expect(try store.rows("SELECT id, size FROM Person ORDER BY id") == ["1|NULL", "2|1", "3|NULL", "4|1"])
        // Required to optional, and wider, takes the condition away.
        let loose = more.replacing(
            #""salary": {"type": "integer16", "optional": false}"#, with: #""salary": "integer32""#)
        #expect(
            try migrate(store, to: loose) == [
                "migrated Employee.salary is integer16 in the store, and integer32 in the model",
                "migrated Employee.salary is required in the store, and optional in the model",
            ])
        try store.execute("UPDATE Person SET salary = NULL WHERE id = 2")
        let strict = loose.replacing(
            #""salary": "integer32""#, with: #""salary": {"type": "integer32", "optional": false}"#)
        #expect(
            try refusal(store, strict).contains("Employee.salary is optional in the store, and required in the model"))
        let must = loose.replacing(
            #""salary": "integer32""#, with: #""salary": "integer32", "x": {"type": "date", "optional": false}"#)
        #expect(try refusal(store, must).contains("Employee.x is new and required, but there may be rows without it"))
    }

    @Test func `renamed entities, attributes and relationships take rows, views and conditions with them`() throws {
        let store = try store()
        let model = """
            {"entities": {
              "Human": {"renamedFrom": "Person", "identity": "id", "attributes": {"id": "integer64",
                "label": {"type": "string", "renamedFrom": "name"}}},
              "Worker": {"renamedFrom": "Employee", "parent": "Human",
                "attributes": {"pay": {"type": "integer16", "optional": false, "renamedFrom": "salary"}, "grade": "string"},
                "relationships": {"head": {"entity": "Worker", "inverse": "staff", "renamedFrom": "boss"},
                  "staff": {"entity": "Worker", "toMany": true, "inverse": "head"},
                  "met": {"entity": "Human", "toMany": true, "renamedFrom": "seen"}}},
              "Guest": {"parent": "Human", "attributes": {"grade": "string"}}}}
            """
        #expect(
            try migrate(store, to: model) == [
                "migrated Person is renamed to Human", "migrated Human.name is renamed to label",
                "migrated Employee is renamed to Worker", "migrated Worker.salary is renamed to pay",
                "migrated Worker.boss is renamed to head", "migrated Worker.seen is renamed to met",
            ])
        #expect(
            try store.rows("SELECT id, label, pay, grade, head, _entity FROM Human ORDER BY id") == [
                "1|a|NULL|NULL|NULL|Human", "2|b|5|x|NULL|Worker", "3|c|NULL|y|NULL|Guest", "4|NULL|6|NULL|2|Worker",
            ])
        #expect(try store.rows("SELECT id, label, pay FROM Worker ORDER BY id") == ["2|b|5", "4|NULL|6"])
        #expect(try store.rows("SELECT source, destination FROM Worker_met ORDER BY 2") == ["2|1", "2|3"])
        #expect(throws: StoreError.self) { try store.execute("UPDATE Human SET pay = NULL WHERE id = 2") }
        #expect(try store.changes(#"{"Worker": {"id": 2, "pay": 5}}"#) == "Worker =1")
    }

    @Test func `exchanged names of entities need no condition`() throws {
        let plain =
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64"}}, "B": {"parent": "A"}, "C": {"parent": "A"}}}"#
        let store = try store(plain, #"{"A": {"id": 1}, "B": {"id": 2}, "C": {"id": 3}}"#)
        let renamed = plain.replacing(#""B": {"#, with: #""D": {"renamedFrom": "B", "#)
            .replacing(#""C": {"#, with: #""E": {"renamedFrom": "C", "#)
        #expect(try migrate(store, to: renamed).count == 2)
        #expect(try store.rows("SELECT id, _entity FROM A ORDER BY id") == ["1|A", "2|D", "3|E"])
    }

    @Test func `a column follows when relatives begin or cease to share it`() throws {
        let store = try store()
        let divided = Self.family.replacing(
            #""Guest": {"parent""#,
            with: #""Robot": {"parent": "Person", "attributes": {"grade": "integer16"}}, "Guest": {"parent""#)
        #expect(
            try migrate(store, to: divided) == [
                "migrated Employee.grade is the column grade in the store, and Employee_grade in the model",
                "migrated Guest.grade is the column grade in the store, and Guest_grade in the model",
                "migrated Robot is new",
            ])
        #expect(
            try store.rows("SELECT id, Employee_grade, Guest_grade, Robot_grade FROM Person ORDER BY id") == [
                "1|NULL|NULL|NULL", "2|x|NULL|NULL", "3|NULL|y|NULL", "4|NULL|NULL|NULL",
            ])
        #expect(try store.rows("SELECT id, grade FROM Guest") == ["3|y"])
        // And together again, when the other has another name.
        let shared = divided.replacing(
            #"{"grade": "integer16"}"#, with: #"{"level": {"type": "integer16", "renamedFrom": "grade"}}"#)
        try store.apply(#"{"Robot": {"id": 9, "grade": 3}}"#)
        #expect(try migrate(store, to: shared).count == 3)
        #expect(
            try store.rows("SELECT id, grade, level FROM Person ORDER BY id") == [
                "1|NULL|NULL", "2|x|NULL", "3|y|NULL", "4|NULL|NULL", "9|NULL|3",
            ])
        // One column, one entity: its name alone changes.
        let one =
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64"}}, "B": {"parent": "A", "attributes": {"x": "string"}}, "C": {"parent": "A"}}}"#
        let small = try self.store(one, #"{"B": {"id": 1, "x": "v"}}"#)
        #expect(
            try migrate(
                small,
                to: one.replacing(#""C": {"parent": "A""#, with: #""C": {"parent": "A", "attributes": {"x": "date"}"#))
                == [
                    "migrated B.x is the column x in the store, and B_x in the model", "migrated C.x is new",
                ])
        #expect(try small.rows("SELECT id, B_x, C_x FROM A") == ["1|v|NULL"])
    }

    @Test func `an attribute goes up to the parent, and down to the only one that has had it`() throws {
        let store = try store()
        let up = Self.family.replacing(#", "grade": "string"}"#, with: "}").replacing(
            #", "attributes": {"grade": "string"}"#, with: ""
        )
        .replacing(#""name": "string"}"#, with: #""name": "string", "grade": {"type": "string", "default": "p"}}"#)
        #expect(
            try migrate(store, to: up) == [
                "migrated Person.grade is new, and rows that are there take its default \"p\""
            ])
        #expect(try store.rows("SELECT id, grade FROM Person ORDER BY id") == ["1|p", "2|x", "3|y", "4|NULL"])
        // Back again: entities that lose the attribute are reported.
        let message = try refusal(store, Self.family)
        #expect(message.contains("Person.grade is in the store, but not in the model"))
        #expect(
            try migrate(store, to: Self.family, removal: .drop) == [
                "dropped Person.grade is in the store, but not in the model"
            ])
        #expect(try store.rows("SELECT id, grade FROM Person ORDER BY id") == ["1|NULL", "2|x", "3|y", "4|NULL"])
    }

    @Test func `an entity with objects cannot be removed, and one without is dropped or retained`() throws {
        let without = Self.family.replacing(
            #","# + "\n  " + #""Guest": {"parent": "Person", "attributes": {"grade": "string"}}"#, with: "")
        #expect(without != Self.family)
        for removal in RemovalPolicy.Choice.allCases.map(RemovalPolicy.init) {
            let message = try refusal(store(), without, removal: removal)
            #expect(message.contains("Guest is in the store, but not in the model, and the store has objects of it"))
        }
        let dropped = try store()
        try dropped.execute("DELETE FROM Employee_seen; DELETE FROM Person WHERE _entity = 'Guest'")
        #expect(try refusal(dropped, without).contains("`broker migrate --keep` leaves it in the file"))
        #expect(
            try migrate(dropped, to: without, removal: .drop) == ["dropped Guest is in the store, but not in the model"]
        )

        let retaining = try store()
        try retaining.execute("DELETE FROM Employee_seen; DELETE FROM Person WHERE _entity = 'Guest'")
        try retaining.reopen(without, removal: .keep)
        #expect(retaining.store.migration.changes.map(\.text) == ["Guest is in the store, but not in the model"])
        #expect(
            try retaining.changes(#"{"Employee": {"id": 2, "salary": 8}, "Person": {"id": 5}}"#)
                == "Employee ~1, Person +1")
        try retaining.reopen(without)
        #expect(retaining.store.migration.changes.isEmpty)
        try retaining.reopen(Self.family)
        #expect(retaining.store.migration.changes.map(\.text) == ["Guest was retained, and is used again"])
        #expect(try retaining.changes(#"{"Guest": {"id": 5, "grade": "g"}}"#) == "Guest ~1")
        #expect(try retaining.rows("SELECT key FROM _broker_meta WHERE key = 'heldModel'") == [])
    }

    @Test func `an attribute that a subentity loses is retained with its values, and can be used again`() throws {
        let store = try store()
        let before = try store.rows("SELECT * FROM Person ORDER BY id")
        let after = Self.family.replacing(#", "grade": "string"}"#, with: "}").replacing(
            #", "seen": {"entity": "Person", "toMany": true}"#, with: ""
        )
        .replacing(#""boss": {"entity": "Employee", "inverse": "staff"},"#, with: "")
        .replacing(#""staff": {"entity": "Employee", "toMany": true, "inverse": "boss"}"#, with: "")
        try store.reopen(after, removal: .keep)
        #expect(
            store.store.migration.changes.map { "\($0.verdict) \($0.subject)" } == [
                "kept Employee.grade", "kept Employee.boss", "kept Employee.staff", "kept Employee.seen",
            ])
        #expect(
            try store.rows("SELECT value ->> '$.entities.Employee.parent' FROM _broker_meta WHERE key = 'heldModel'")
                == ["Person"])
        #expect(
            try store.changes(#"{"Employee": {"id": 4, "salary": 6}, "Guest": {"id": 3, "grade": "y"}}"#)
                == "Employee =1, Guest =1")
        try store.reopen(after)
        #expect(store.store.migration.changes.isEmpty)
        try store.reopen(Self.family)
        #expect(try store.rows("SELECT * FROM Person ORDER BY id") == before)
        #expect(try store.rows("SELECT source, destination FROM Employee_seen ORDER BY 2") == ["2|1", "2|3"])
        #expect(try store.isSound())
        // A part cannot be retained if columns in force would get other names because of it.
        let clash = Self.family.replacing(
            #"{"parent": "Person", "attributes": {"grade": "string"}}"#,
            with:
                #"{"parent": "Person", "attributes": {"grade": "string"}}, "Robot": {"parent": "Person", "attributes": {"seat": "string"}}"#
        )
        try store.reopen(clash)
        let robot = clash.replacing(#"{"seat": "string"}"#, with: #"{"grade": "integer16"}"#).replacing(
            #", "grade": "string"}"#, with: "}"
        ).replacing(
            #""Guest": {"parent": "Person", "attributes": {"grade": "string"}}"#,
            with: #""Guest": {"parent": "Person"}"#)
        #expect(
            try refusal(store, robot, removal: .keep).contains(
                "what is retained from earlier models does not fit the model"))
    }

    @Test func `an entity with objects of exactly that entity cannot become abstract`() throws {
        let abstract = Self.family.replacing(
            #""Person": {"identity""#, with: #""Person": {"abstract": true, "identity""#)
        #expect(
            try refusal(store(), abstract).contains(
                "Person is abstract in the model, and the store has objects that are nothing more"))
        let store = try store(Self.family, #"{"Guest": {"id": 1}}"#)
        #expect(try migrate(store, to: abstract) == [])
    }

    @Test func `links to many go with their table, and not into two or from two`() throws {
        let store = try store()
        let up = Self.family.replacing(#", "seen": {"entity": "Person", "toMany": true}"#, with: "")
            .replacing(
                #""name": "string"}"#,
                with: #""name": "string"}, "relationships": {"seen": {"entity": "Person", "toMany": true}}"#)
        #expect(try migrate(store, to: up) == ["migrated Person.seen is new"])
        #expect(try store.rows("SELECT source, destination FROM Person_seen ORDER BY 2") == ["2|1", "2|3"])
        let down = Self.family.replacing(
            #"{"parent": "Person", "attributes": {"grade": "string"}}"#,
            with:
                #"{"parent": "Person", "attributes": {"grade": "string"}, "relationships": {"seen": {"entity": "Person", "toMany": true}}}"#
        )
        #expect(
            try refusal(store, down, removal: .drop).contains(
                "seen is one relationship in the store, and several in the model"))
    }

    @Test func `views, entity columns and conditions are no changes by others, and missing views are made`() throws {
        let store = try store()
        try store.reopen()
        #expect(store.store.migration.changes.isEmpty)
        try store.execute("DROP VIEW Guest")
        try store.reopen()
        #expect(try store.rows("SELECT id, grade FROM Guest") == ["3|y"])
        try store.execute("CREATE TABLE Robot (x)")
        let message = try refusal(
            store, Self.family.replacing(#""Guest": {"#, with: #""Robot": {"parent": "Person"}, "Guest": {"#))
        #expect(message.contains("Robot is there already, and not the model's that made the store"))
    }
}
