import BrokerModel
import TestSupport
import Testing

@testable import BrokerStore

@Suite(.timeLimit(.minutes(5))) struct PredicateSQLTests {
    static let model = """
        {"entities": {
            "Employee": {"identity": "id", "indexes": [["name"], ["age"], ["hiredAt"]], "attributes": {
                "id": "integer64", "name": "string", "nick": "string", "age": "integer16", "salary": "decimal",
                "hiredAt": "date", "isActive": "boolean", "order": "integer16", "in": "string"},
                "relationships": {"department": {"entity": "Department"}, "boss": {"entity": "Employee"},
                    "seat": {"entity": "Seat"}, "note": {"entity": "Note"},
                    "friends": {"entity": "Employee", "toMany": true}}},
            "Department": {"identity": "code", "indexes": [["name"]],
                "attributes": {"code": "integer32", "name": "string"},
                "relationships": {"site": {"entity": "Site"}}},
            "Site": {"identity": "uuid", "attributes": {"uuid": "uuid", "city": "string"}},
            "Seat": {"identity": ["floor", "number"],
                "attributes": {"floor": "integer16", "number": "string", "colour": "string"}},
            "Note": {"attributes": {"text": "string"}}}}
        """

    static let site = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

    private func company() throws -> TestStore {
        let test = try TestStore(Self.model)
        try test.apply(
            """
            {"Employee": [
                {"id": 1, "name": "Ada", "age": 36, "salary": 1.50, "isActive": true, "hiredAt": "2011-12-22T02:24:51Z",
                 "department": {"code": 1, "name": "R&D", "site": {"uuid": "\(Self.site)", "city": "Köln"}},
                 "seat": {"floor": 1, "number": "a", "colour": "red"}, "note": {"text": "first"}},
                {"id": 2, "name": "Bob", "age": 41, "salary": 10, "isActive": false, "boss": 1,
                 "department": {"code": 2, "name": "Sales"}, "seat": {"floor": 1, "number": "b"}},
                {"id": 3, "name": "Eve", "salary": 9, "boss": 2, "department": {"code": 3}},
                {"id": 4}
            ]}
            """)
        return test
    }

    @Test func `A comparison with nil is false, and its negation is true`() throws {
        let test = try company()
        #expect(try test.matching("name != \"Ada\"") == [2, 3, 4])
        #expect(try test.matching("NOT (name == \"Ada\")") == [2, 3, 4])
        #expect(try test.matching("NOT name == \"Ada\"") == [2, 3, 4])
        #expect(try test.matching("age < 40") == [1])
        #expect(try test.matching("!(age < 40)") == [2, 3, 4])
        #expect(try test.matching("nil == age") == [3, 4])
        #expect(try test.matching("age < nil OR age >= nil") == [])
        #expect(try test.matching("age IN {36, nil}") == [1, 3, 4])
        #expect(try test.matching("NOT (age IN {36, 37})") == [2, 3, 4])
        #expect(try test.matching("name == nick") == [4], "nil equals nil")
    }

    @Test func `AND binds stronger than OR, and NOT stronger than both`() throws {
        let test = try company()
        #expect(try test.matching("id == 1 OR id == 2 AND age == 0") == [1])
        #expect(try test.matching("(id == 1 || id == 2) && age == 41") == [2])
        #expect(try test.matching("NOT id == 1 AND id < 3") == [2])
        #expect(try test.matching("not not id == 1") == [1])
        #expect(try test.matching("((((id == 1))))") == [1])
        #expect(try test.matching("TRUEPREDICATE") == [1, 2, 3, 4])
        #expect(try test.matching("FALSEPREDICATE or falsepredicate") == [])
    }

    @Test func `Either side may be the constant`() throws {
        let test = try company()
        #expect(try test.matching("40 < age") == [2])
        #expect(try test.matching("40 >= age") == [1])
        #expect(try test.matching("\"Ada\" == name") == [1])
    }

    @Test func `A key path goes through to-one relationships`() throws {
        let test = try company()
        #expect(try test.matching("department.name == \"R&D\"") == [1])
        #expect(try test.matching("department.name != \"R&D\"") == [2, 3, 4])
        #expect(try test.matching("department.name == nil") == [3, 4])
        #expect(try test.matching("department.name != nil") == [1, 2])
        #expect(try test.matching("department.name IN {nil, \"Sales\"}") == [2, 3, 4])
        #expect(try test.matching("boss.boss.department.site.city BEGINSWITH[cd] \"KOL\"") == [3])
        #expect(try test.matching("boss.age > 36") == [3])
        #expect(try test.matching("seat.colour == \"red\"") == [1])
        #expect(try test.matching("note.text LIKE \"f*\"") == [1])
        #expect(try test.matching("boss.age < age") == [2])
        #expect(try test.matching("boss.boss.salary <= salary") == [3])
        #expect(try test.matching("boss.boss.seat.colour != \"red\"") == [1, 2, 4])
    }

    @Test func `A to-one relationship is compared with a key or nil`() throws {
        let test = try company()
        #expect(try test.matching("department == 3") == [3])
        #expect(try test.matching("department != 3") == [1, 2, 4])
        #expect(try test.matching("department == nil") == [4])
        #expect(try test.matching("department IN %@", "[[1, \"2\"]]") == [1, 2])
        #expect(try test.matching("department.site == %@", "[\"\(Self.site)\"]") == [1])
        #expect(try test.matching("boss.department == 2") == [3])
        #expect(try test.matching("boss.department == nil") == [1, 4])
        #expect(try test.matching("seat == %@", #"[{"number": "b", "floor": 1}]"#) == [2])
        #expect(try test.matching("seat != %@", #"[{"number": "b", "floor": 1}]"#) == [1, 3, 4])
        #expect(try test.matching("seat IN %@", #"[[{"number": "b", "floor": 1}, null]]"#) == [2, 3, 4])
        #expect(try test.matching("note == 1") == [1])
    }

    @Test func `Values are compared by the attribute's type`() throws {
        let test = try company()
        #expect(try test.matching("salary == 1.5") == [1])
        #expect(try test.matching("salary < 10.000000000000000000001 AND salary > 9.99999999999999999999") == [2])
        #expect(try test.matching("salary IN {1.500, 9.0}") == [1, 3])
        #expect(try test.matching("hiredAt == \"2011-12-22 03:24:51+01:00\"") == [1])
        #expect(try test.matching("hiredAt < %@", "[1324520692]") == [1])
        for truth in ["YES", "true", "1", "\"yes\""] { #expect(try test.matching("isActive == \(truth)") == [1]) }
        #expect(try test.matching("isActive = NO") == [2])
        #expect(try test.matching("age > 40.5 AND age < 41.5") == [2])
        #expect(try test.matching("age < 1e400 AND age > -99999999999999999999") == [1, 2])
        #expect(try test.matching("age == \"36\"") == [1])
    }

    @Test func `%K takes a name, and a keyword may be one`() throws {
        let test = try company()
        #expect(try test.matching("%K == %@", #"["department.name", "R&D"]"#) == [1])
        #expect(try test.matching("%K.%K == %@", #"["department", "name", "Sales"]"#) == [2])
        #expect(try test.matching("#in == nil AND order == nil AND %K == nil", #"["in"]"#) == [1, 2, 3, 4])
    }

    @Test func `Nothing that a predicate says becomes SQL`() throws {
        let test = try company()
        let hostile = "'); DROP TABLE Employee; --"
        #expect(try test.matching("name == %@", "[\"\(hostile)\"]") == [])
        #expect(try test.matching("name == \"\(hostile)\" OR name BEGINSWITH \"'\" OR name IN {\"'\", '\"'}") == [])
        #expect(try !test.sql("name == \"secret\"", of: "Employee").condition.contains("secret"))
        #expect(try test.matching("TRUEPREDICATE").count == 4)
    }

    @Test func `Comparisons of a column use its index`() throws {
        let test = try company()
        for (text, index) in [
            ("name == \"Ada\"", "Employee.name"), ("name IN {\"Ada\", \"Bob\"}", "Employee.name"),
            ("name BEGINSWITH \"A\"", "Employee.name"), ("age > 3", "Employee.age"),
            ("age BETWEEN {3, 4}", "Employee.age"), ("hiredAt < \"2012-01-01\"", "Employee.hiredAt"),
            ("name == nil", "Employee.name"), ("department == 3", "Employee.department"),
            ("department.name == \"R&D\"", "Employee.department"), ("department.name == \"R&D\"", "Department.name"),
            ("seat.colour == \"red\"", "Employee.seat_floor"), ("name == \"Ada\" OR age == 3", "MULTI-INDEX OR"),
            ("department.site.city == \"Köln\"", "Employee.department"),
        ] {
            let plan = try test.queryPlan(text)
            #expect(plan.contains(index) && !plan.contains("SCAN object"), "\(text): \(plan)")
        }
        #expect(try test.queryPlan("id IN %@", "[[1, 2, 3]]").contains("INTEGER PRIMARY KEY"))
    }
}
