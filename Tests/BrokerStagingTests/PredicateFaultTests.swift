import BrokerJSON
import BrokerModel
import Testing

@testable import BrokerStaging

/// Faults of predicates, each with its column and the remedy.
@Suite(.timeLimit(.minutes(5))) struct PredicateFaultTests {
    private static let model = """
        {"entities": {
            "Employee": {"identity": "id", "attributes": {
                "id": "integer64", "name": "string", "age": "integer16", "salary": "decimal", "hiredAt": "date",
                "isActive": "boolean", "photo": "binary", "key": "uuid", "any": "transformable"},
                "relationships": {"department": {"entity": "Department", "inverse": "employees"},
                    "seat": {"entity": "Seat"}}},
            "Department": {"identity": "code", "attributes": {"code": "integer32", "name": "string"},
                "relationships": {"employees": {"entity": "Employee", "toMany": true}}},
            "Seat": {"identity": ["floor", "number"], "attributes": {"floor": "integer16", "number": "string"}}}}
        """

    private func message(_ text: String, _ arguments: String? = nil) throws -> String {
        let model = try ModelReader.read(JSONText(copying: Array(Self.model.utf8)))
        let document = try arguments.map { try JSONDocument(parsing: JSONText(copying: Array($0.utf8))) }
        return withExtendedLifetime(document) {
            do throws(Fault) {
                _ = try model.predicate(text, arguments: document?.root, ofEntity: 0)
                return "fine"
            } catch {
                #expect(error.code == .invalidPredicate && error.entity == "Employee")
                return error.message
            }
        }
    }

    /// - Parameter words: the beginning of the message, and parts of it.
    private func expect(
        _ text: String, _ arguments: String? = nil, _ words: String..., at location: SourceLocation = #_sourceLocation
    ) throws {
        let message = try message(text, arguments)
        for word in words { #expect(message.contains(word), "\(message)", sourceLocation: location) }
    }

    @Test func `A misspelt name is reported with its column and the nearest known name`() throws {
        try expect(
            "age > 3 AND nmae == 1", nil, "Column 13 ", "Employee has no attribute or relationship \"nmae\"",
            "\"name\"?")
        try expect("department.nam == 1", nil, "Column 12 ", "Department has no", "did you mean \"name\"?")
        try expect("name == \"ü\" AND Age == 1", nil, "Column 17 ", "\"age\"?")
        try expect("%K == 1", "[\"departmnt\"]", "Column 1 ", "did you mean \"department\"?")
        try expect("age.x == 1", nil, "Column 1 ", "nothing lies below it")
    }

    @Test func `A constant of the wrong type is reported`() throws {
        try expect("age == \"abc\"", nil, "Column 8 ", "\"abc\" is not a whole number", "age")
        try expect("age IN {1, \"x\"}", nil, "Column 12 ", "not a whole number")
        try expect("hiredAt > \"yesterday\"", nil, "Column 11 ", "is not a date")
        try expect("isActive == 2", nil, "Column 13 ", "is not true or false")
        try expect("photo == \"?\"", nil, "is not base64")
        try expect("key == %@", "[\"x\"]", "Column 8 ", "is not a UUID")
        try expect("name == %@", "[{}]", "is not a string")
        try expect("salary == \"1,5\"", nil, "is not a number")
        try expect("department == \"R&D\"", nil, "Column 15 ", "not a whole number")
        try expect("seat == 3", nil, "Column 9 ", "an object with \"floor\", \"number\"")
    }

    @Test func `An operator that a type lacks is reported`() throws {
        try expect("age CONTAINS 3", nil, "Column 5 ", "CONTAINS is for texts", "\"age\" (integer16)")
        try expect("age ==[c] 3", nil, "[c] and [d] are for comparisons of texts")
        try expect("#any < 3", nil, "have no order")
        try expect("department < 3", nil, "Column 12 ", "compared with a key or nil")
        try expect("department == seat", nil, "not with another name")
        try expect("age == name", nil, "cannot be compared with each other")
        try expect("name ==[x] \"a\"", nil, "Column 8 ", "\"[x]\" is no option")
        try expect("name MATCHES \"(\"", nil, "Column 14 ", "not a regular expression of RE2's syntax")
        try expect("3 IN age", nil, "Column 1 ", "on its left")
        try expect("age IN 3", nil, "Column 8 ", "wants a list")
        try expect("age BETWEEN {1}", nil, "Column 13 ", "wants two values")
        try expect("age == {1}", nil, "Column 8 ", "one value was expected")
    }

    @Test func `Operators of Foundation that Broker lacks are rejected by name`() throws {
        try expect("SUBQUERY(a, $x, $x.b == 1)", nil, "SUBQUERY is not supported")
        try expect("lowercase(name) == \"a\"", nil, "Column 1 ", "functions are not supported", "lowercase(…)")
        try expect("age == $x", nil, "variables")
        try expect("age + 1 == 3", nil, "arithmetic")
        try expect("age == %d", "[1]", "Column 8 ", "only %@", "%K")
        try expect("SELF == 1", nil, "SELF is not supported")
        try expect("age NOT IN {1}", nil, "Column 5 ", "NOT goes before")
    }

    @Test func `A to-many relationship needs a quantifier or a count`() throws {
        for text in [
            "ANY department.employees.age > 3", "some department.employees.department.name BEGINSWITH 'a'",
            "ALL department.employees == 3", "NONE department.employees.seat != nil", "department.employees.@count > 3",
            "3 <= department.employees.@count", "NOT (ANY department.employees.age IN {1, 2} AND age > 3)",
        ] { try expect(text, nil, "fine") }
        try expect("%K > 3", "[\"department.employees.@count\"]", "fine")
        try expect("ANY %K == 3", "[\"department.employees\"]", "fine")
        try expect(
            "department.employees.age > 3", nil, "Column 12 ", "\"employees\" of Department is a to-many relationship",
            "write ANY, ALL or NONE before the comparison, or compare employees.@count")
        try expect("none name == 1", nil, "Column 6 ", "NONE is for a key path through a to-many relationship")
        try expect("ALL department != 1", nil, "Column 5 ", "omit it")
        try expect("ANY department.employees.department.employees.age > 3", nil, "Column 37 ", "one of them at most")
        try expect("ANY department.employees.@count > 3", nil, "Column 1 ", "its @count is one value; omit ANY")
        try expect("department.employees.@count.x > 3", nil, "Column 12 ", "to-many")
        try expect("department.@count > 3", nil, "Column 12 ", "@count follows a to-many relationship")
        try expect("department.employees.@sum.age > 3", nil, "Column 22 ", "\"@sum\" is not supported", "@count alone")
        try expect("ANY == 3", nil, "Column 1 ", "after ANY comes a key path", "write #ANY")
        try expect("ANY (age == 3)", nil, "Column 1 ", "after ANY comes a key path")
        try expect("ANY 3 == department.employees.age", nil, "after ANY comes a key path")
        try expect("ANY department.employees.age == age", nil, "Column 33 ", "a constant, not a name")
        try expect("department.employees.@count == age", nil, "Column 12 ", "compared with a constant")
        try expect("department.employees.@count == \"x\"", nil, "not a whole number")
        try expect("department.employees.@count CONTAINS 3", nil, "is for texts")
        try expect("ANY department.employees > 3", nil, "is a to-many relationship", "by ==, != and IN")
        let path = String(repeating: "boss.", count: 3)
        try expect("ANY \(path)x == 1", nil, "\"boss\"")
    }

    @Test func `A syntax error is reported with the expected token`() throws {
        try expect("", nil, "empty", "TRUEPREDICATE")
        try expect("age", nil, "Column 4 ", "expected an operator like ==, saw the end")
        try expect("age ==", nil, "Column 7 ", "expected a name or a value, saw the end")
        try expect("(age == 1", nil, "Column 10 ", "expected \")\"")
        try expect("age == 1)", nil, "Column 9 ", "expected AND, OR or the end, saw \")\"")
        try expect("age == 1 name == 2", nil, "Column 10 ", "expected AND, OR or the end, saw \"name\"")
        try expect("age == 'x", nil, "Column 8 ", "has no end")
        try expect("name == \"\\d\"", nil, "Column 10 ", "escape")
        try expect("name == \"\\ud800\"", nil, "surrogates")
        try expect("age == 0x1F", nil, "Column 8 ", "no number")
        try expect("age == 1.2.3", nil, "no number")
        try expect("age IN {1, name}", nil, "Column 12 ", "a list holds constants")
        try expect("age IN {{1}}", nil, "no other lists")
        try expect("age == (1)", nil, "lists are written {1, 2}")
        try expect("1 == 1", nil, "a comparison needs a name")
        try expect("age ; 1", nil, "Column 5 ", "\";\" means nothing here")
    }

    @Test func `SQL's forms are reported with the forms of predicates`() throws {
        try expect("name IS NOT NULL", nil, "Column 6 ", "IS NULL is written == nil, and IS NOT NULL is != nil")
        try expect("name IS NULL AND age == 1", nil, "Column 6 ", "IS NULL is written == nil")
        try expect("name IN ('a', \"b\")", nil, "Column 9 ", "IN {'a', \"b\"}")
        try expect("age in (1", nil, "IN {1, 2}")
        try expect("age BETWEEN (1, 2)", nil, "BETWEEN {1, 2}")
        try expect("age BETWEEN 10 AND 20", nil, "Column 13 ", "BETWEEN {1, 2}")
        try expect("name ILIKE 'a*'", nil, "Column 6 ", "LIKE[c]")
        try expect("name REGEXP 'a'", nil, "MATCHES")
        try expect("name LIKE '%a_b%'", nil, "Column 11 ", "LIKE \"*a_b*\"")
        try expect("name LIKE[c] %@", "[\"a%\"]", "Column 14 ", "LIKE \"a*\"")
        try expect("ANY department.employees.name LIKE '%'", nil, "LIKE \"*\"")
        for pattern in ["*50%*", "5?%", "50\\\\%", "5%0", "a_b", ""] {
            try expect("name LIKE \"\(pattern)\"", nil, "fine")
        }
        try expect("name CONTAINS '%'", nil, "fine")
    }

    @Test func `There is one argument for each %@ and %K`() throws {
        try expect("age == %@", nil, "Column 8 ", "none came")
        try expect("age == %@ AND %K == %@", "[1]", "Column 15 ", "argument number 2, and 1 came")
        try expect("age == 1", "[1]", "asks for 0 arguments", "1 came")
        try expect("age == %@", "{}", "an array is wanted")
        try expect("%K == 1", "[1]", "Column 1 ", "%K takes a name", "a number")
        try expect("name == \"%@\"", "[]", "fine")
        try expect("age == 1", "[]", "fine")
    }
}
