import BrokerJSON
import BrokerModel
import Testing

@testable import BrokerStaging

/// Text operators of predicates on records in memory.
@Suite(.timeLimit(.minutes(5))) struct PredicateTextTests {
    private func holds(_ value: String?, _ condition: String) throws -> Bool {
        let attribute = Attribute(name: "a", type: .string)
        let model = Model(entities: [Entity(name: "A", table: "A", attributes: [attribute])])
        let predicate = try model.predicate("a \(condition)", arguments: nil, ofEntity: 0)
        let record = try #require(RecordPredicate(predicate))
        var budget = WorkBudget.unlimited
        guard let value else { return try record.matches(budget: &budget) { _ in .absent } }
        return try Array(value.utf8).withUnsafeBufferPointer { bytes in
            try record.matches(budget: &budget) { _ in .text(bytes) }
        }
    }

    @Test func `Texts are compared byte by byte`() throws {
        #expect(try !holds("\u{e9}", "== \"e\\u0301\""))
        #expect(try holds("Z", "< \"a\""))
        #expect(try holds("\u{10000}", "> \"\\uffff\""))
        #expect(try holds("", "== ''"))
        #expect(try !holds(nil, "== ''"))
    }

    @Test func `c folds case for all of Unicode`() throws {
        for (value, other) in [
            ("ADA", "ada"), ("straße", "STRASSE"), ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"), ("ÉCOLE", "école"), ("Жук", "жУК"),
            ("Ǆ", "ǆ"),
            ("𐐀", "𐐨"), ("ﬁn", "FIN"),
        ] {
            #expect(try holds(value, "==[c] \"\(other)\""), "\(value) \(other)")
            #expect(try holds("x\(value)y", "CONTAINS[c] \"\(other)\""), "\(value) \(other)")
        }
        #expect(try !holds("É", "==[c] \"e\""))
    }

    @Test func `d ignores diacritics, however they are written`() throws {
        for (value, other) in [
            ("École", "Ecole"), ("e\u{301}", "é"), ("Ångström", "Angstrom"), ("Việt", "Viet"), ("ά", "α"),
        ] { #expect(try holds(value, "==[d] \"\(other)\""), "\(value) \(other)") }
        #expect(try !holds("École", "==[d] \"ecole\""))
        #expect(try holds("École", "==[cd] \"eCOLE\""))
        #expect(try holds("École", "BEGINSWITH[dc] \"ec\""))
        #expect(try holds("École", "IN[cd] {\"x\", \"ecole\"}"))
    }

    @Test func `LIKE has the star, the question mark and the backslash`() throws {
        #expect(try holds("abc", "LIKE \"a*c\""))
        #expect(try holds("ac", "LIKE \"a*c\""))
        #expect(try holds("abc", "LIKE \"???\""))
        #expect(try holds("äb\u{1F600}", "LIKE \"???\""))
        #expect(try !holds("abc", "LIKE \"??\""))
        #expect(try !holds("xabc", "LIKE \"abc\""))
        #expect(try holds("a*c", "LIKE \"a\\\\*c\""))
        #expect(try !holds("abc", "LIKE \"a\\\\*c\""))
        #expect(try holds("a?\\", "LIKE \"a\\\\?\\\\\\\\\""))
        #expect(try holds("line\nline", "LIKE \"line*\""))
        #expect(try holds("aXbXc", "LIKE[c] \"*x*x*\""))
        #expect(try holds("mississippi", "LIKE \"m*iss*pi\""))
        #expect(try holds("100%_", "LIKE \"100%_\""))
        #expect(try holds("", "LIKE \"*\"") && !holds(nil, "LIKE \"*\""))
    }

    @Test func `MATCHES is a regular expression for the whole text`() throws {
        #expect(try holds("abc", "MATCHES \"a.c\""))
        #expect(try !holds("abcd", "MATCHES \"a.c\""))
        #expect(try !holds("abc\n", "MATCHES \"a.c\""))
        #expect(try holds("ab", "MATCHES \"a|ab\""))
        #expect(try holds("ABC1", "MATCHES[c] \"[a-c]+\\\\D?1\""))
        #expect(try holds("éa", "MATCHES[d] \"ea\""))
        #expect(try holds("ABC", "MATCHES[c] \"abc|x\"") && !holds("ABC", "MATCHES \"abc\""))
        #expect(try !holds("a\nb", "MATCHES \"a.b\"") && holds("a\nb", "MATCHES \"(?s)a.b\""))
        #expect(try !holds("a\nb", "MATCHES \"(?m)a$\""))
    }

    @Test func `MATCHES rejects syntax that RE2 lacks, with the column and a remedy`() throws {
        for pattern in ["(?=a)b", "(a)\\\\1", "a*+b", "(?>a)b", "(?:[ac]*)?+b"] {
            let fault = #expect(throws: Fault.self) { try holds("", "MATCHES \"\(pattern)\"") }
            #expect(fault?.code == .invalidPredicate)
            let message = try #require(fault?.message)
            #expect(message.contains("RE2") && message.contains("lookaround"), "\(message)")
            #expect(message.lowercased().contains("column 11"), "\(message)")
        }
    }

    @Test func `the regular expressions of a predicate are bounded together`() throws {
        func fault(_ condition: String) throws -> String? {
            do throws(Fault) {
                let attribute = Attribute(name: "a", type: .string)
                let model = Model(entities: [Entity(name: "A", table: "A", attributes: [attribute])])
                _ = try model.predicate(condition, arguments: nil, ofEntity: 0)
                return nil
            } catch {
                #expect(error.code == .invalidPredicate)
                return error.message
            }
        }
        let one = "a MATCHES \"[a-z]+\""
        #expect(try fault(Array(repeating: one, count: 16).joined(separator: " OR ")) == nil)
        let many = try #require(try fault(Array(repeating: one, count: 17).joined(separator: " OR ")))
        #expect(many.contains("at most 16 MATCHES"))
        let large = "a MATCHES \"\\\\p{L}{2}\""
        #expect(try fault(large) == nil)
        let tooLarge = try #require(try fault(Array(repeating: large, count: 3).joined(separator: " OR ")))
        #expect(tooLarge.contains("5000 instructions"))
    }

    @Test func `CONTAINS finds periodic texts`() throws {
        let text = String(repeating: "ab", count: 500)
        #expect(try holds(text, "CONTAINS 'baba'") && !holds(text, "CONTAINS 'bb'") && !holds("ab", "CONTAINS 'abc'"))
        #expect(try holds(text + "b", "CONTAINS 'abb'") && holds("\u{e9}", "CONTAINS 'é'"))
    }

    @Test func `every byte that LIKE, CONTAINS and folding read is charged`() throws {
        let attribute = Attribute(name: "a", type: .string)
        let model = Model(entities: [Entity(name: "A", table: "A", attributes: [attribute])])
        func spent(_ condition: String, on text: String) throws -> Int {
            let predicate = try model.predicate("a \(condition)", arguments: nil, ofEntity: 0)
            let record = try #require(RecordPredicate(predicate))
            var budget = WorkBudget.unlimited
            _ = try Array(text.utf8).withUnsafeBufferPointer { bytes in
                try record.matches(budget: &budget) { _ in .text(bytes) }
            }
            return budget.spent
        }
        let text = String(repeating: "a", count: 8_000)
        #expect(try spent("LIKE '*b'", on: text) >= 8_000 / WildcardPattern.stepsPerUnit)
        let stars = String(repeating: "*aaaaaaaaaaaaaaaab", count: 10)
        #expect(try spent("LIKE '\(stars)'", on: text) > 8 * (try spent("LIKE '*b'", on: text)))
        #expect(try spent("CONTAINS 'b'", on: text) >= 4_000)
        #expect(try spent("==[c] 'b'", on: text) >= 8_000)
        #expect(try spent("== 'b'", on: text) >= 250)
        #expect(try spent("MATCHES 'b'", on: text) >= 2_000)
    }

    @Test func `a spent budget ends LIKE in the middle of a text`() throws {
        let pattern = WildcardPattern(Array("*aaaaaaaaaaaaaaaaaaab".utf8))
        let text = Array(repeating: UInt8(ascii: "a"), count: 100_000)
        var budget = WorkBudget(limit: 1_000)
        let verdict = text.withUnsafeBufferPointer { pattern.verdict(on: $0, budget: &budget) }
        #expect(verdict == .budgetSpent && budget.isSpent && budget.spent < 1_010)
    }

    @Test func `BEGINSWITH, ENDSWITH and CONTAINS find the empty text everywhere but in nil`() throws {
        for word in ["BEGINSWITH", "ENDSWITH", "CONTAINS", "beginswith"] {
            #expect(try holds("", "\(word) ''") && holds("a", "\(word) ''") && !holds(nil, "\(word) ''"))
            #expect(try holds("aa", "\(word) 'a'") && !holds("b", "\(word) 'a'") && !holds("a", "\(word) nil"))
        }
        #expect(try holds("abcabd", "ENDSWITH 'abd'") && holds("abcabd", "CONTAINS 'cab'"))
        #expect(try !holds("abcabd", "BEGINSWITH 'abd'"))
    }

    @Test func `Strings have escapes`() throws {
        #expect(try holds("a\"b'c\\\n\u{e9}\u{1F600}", #"== "a\"b'c\\\n\u00e9\ud83d\ude00""#))
        #expect(try holds("it's", #"== 'it\'s'"#))
    }

    @Test func `A predicate with a key path cannot test a record`() throws {
        let model = Model(entities: [
            Entity(
                name: "A", table: "A", identity: [0], attributes: [Attribute(name: "id", type: .integer64)],
                relationships: [Relationship(name: "b", destination: 0)])
        ])
        for text in ["b.id == 1", "b == nil", "id == 1 OR NOT (b == 1)", "id < b.id"] {
            #expect(try RecordPredicate(model.predicate(text, arguments: nil, ofEntity: 0)) == nil)
        }
    }
}

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
        try expect("age > 2020-01-31", nil, "Column 11 ", "expected AND, OR or the end, saw -1; write a date in quotes")
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
        try expect("name IN ('a', \"b\")", nil, "Column 9 ", "lists are written {1, 2}")
        try expect("age in (1", nil, "lists are written {1, 2}")
        try expect("age BETWEEN (1, 2)", nil, "lists are written {1, 2}")
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

/// Patterns and texts that take long for an engine that backtracks. Work is counted, not timed.
@Suite(.timeLimit(.minutes(5))) struct ValuesPatternTests {
    private func verdicts(_ pattern: String, _ texts: [String]) throws -> [RegularExpression.Verdict] {
        var budget = WorkBudget.unlimited
        return try verdicts(pattern, texts, &budget)
    }

    private func verdicts(
        _ pattern: String, _ texts: [String], _ budget: inout WorkBudget, freeInstructions: Int = 0
    ) throws -> [RegularExpression.Verdict] {
        let expression = try RegularExpression(pattern)
        var budget = budget
        return texts.map { text in
            withBytes(of: text) { bytes, _ in
                expression.verdict(on: bytes, wholeText: false, freeInstructions: freeInstructions, budget: &budget)
            }
        }
    }

    @Test func `the patterns of a model are compiled once each, up to a limit of all`() throws {
        let patterns = ModelPatterns(mostInstructions: 3_000)
        let first = try patterns.expression(#"\p{L}"#)
        #expect(first.instructions > 1_000)
        for _ in 0..<100 { #expect(try patterns.expression(#"\p{L}"#) === first) }
        for number in 0..<2 { _ = try patterns.expression("\\p{L}\(number)") }
        #expect(throws: RegularExpression.Problem.self) { try patterns.expression("a") }
        #expect(try patterns.expression(#"\p{L}"#) === first, "what is compiled can be used")
    }

    @Test func `a model of very many patterns that cannot be used has few faults`() throws {
        let attributes = (0..<1_900).map { "\"a\($0)\": {\"type\": \"string\", \"pattern\": \"x\($0)(\"}" }
        let text = "{\"entities\": {\"E\": {\"attributes\": {\(attributes.joined(separator: ", "))}}}}"
        let model = try ModelReader.read(JSONText(copying: Array(text.utf8)))
        let error = #expect(throws: ModelError.self) { try StagingPlan(model) }
        let faults = error?.faults.map(\.message) ?? []
        #expect(faults.count == 400_000 / 5_000 + 2)
        #expect(faults.last?.contains("at most 400000 instructions") == true)
    }

    private func problem(_ pattern: String) -> String? {
        do throws(RegularExpression.Problem) {
            _ = try RegularExpression(pattern)
            return nil
        } catch {
            return error.message
        }
    }

    @Test(arguments: [
        (".+@.+", 64_000, "x", ""), ("(a+)+$", 64_000, "a", "b"), ("^(a|aa)+$", 64_000, "a", "b"),
        ("(x+x+)+y", 64_000, "x", ""), ("x*x*x*y", 64_000, "x", ""), ("(.*)(.*)(.*)z", 64_000, "x", ""),
        ("[\\s\\S]*?(?:[ac]*)?b", 200_000, "ac", ""), ("^(x|y)*$", 1_000_000, "x", "z"),
        ("(a|b)*a(a|b){20}c", 200_000, "ab", ""),
    ])
    func `a text on which backtracking never ends has a verdict`(
        pattern: String, count: Int, unit: String, end: String
    ) throws { #expect(try verdicts(pattern, [String(repeating: unit, count: count) + end]) == [.doesNotMatch]) }

    @Test(arguments: [
        ("(a", #"parentheses do not pair in "(a""#), ("a)b", #"parentheses do not pair in "a)b""#),
        ("[a", #"a closing ] is missing in "[a""#), ("\\q", #"an escape is unknown in "\q""#),
        ("a**", #"a repetition follows another in "**""#), ("*", #"a repetition follows nothing in "*""#),
        ("a{1001}", #"a repetition has a wrong count, or one above 1,000 in "{1001}""#),
        ("[z-a]", #"a range of characters is wrong in "z-a""#), ("(?=a)", #"a group is of an unknown kind in "(?=""#),
    ])
    func `a pattern that cannot be read has a reason of Broker's own, the same for every version of RE2`(
        pattern: String, reason: String
    ) throws {
        let message = try #require(problem(pattern), "\(pattern)")
        #expect(message.hasPrefix("is not a regular expression of RE2's syntax: \(reason). RE2 has no"), "\(message)")
    }

    @Test(arguments: [
        "(?>[xy]*)b", "(?=[xy]*)b", "(?!.*b)q", "(?<=x)b", "(?<!x)b", "(x*)\\1b", "[xy]*+b", "(?:[ac]*)?+b", "\\X",
        "\\h", "(", ")", "a)(b", "[a", "*", "a\\", "(?x) a b", "ab(?#comment)", "\\u0061", "a{1001}",
    ])
    func `syntax that RE2 lacks is rejected with a remedy`(pattern: String) throws {
        let message = try #require(problem(pattern), "\(pattern)")
        #expect(message.contains("RE2's syntax") && message.contains("lookaround"))
        let converter = Result {
            try ValueConverter.compiled(
                Attribute(name: "a", type: .string, constraints: ValueConstraints(pattern: pattern)))
        }
        #expect(throws: (any Error).self) { try converter.get() }
    }

    @Test(arguments: [
        String(repeating: "[a-z]{1,99}", count: 90), "\\p{L}{2,30}", "((a{30}){30}){30}",
        "(a|b){0,999}(a|b){0,999}(.?){999}",
        String(repeating: "a", count: RegularExpression.maximumBytes + 1),
    ])
    func `a pattern that is large or compiles to a large program is rejected`(pattern: String) throws {
        let message = try #require(problem(pattern))
        let isTooLarge = message.contains("5000 instructions") && message.contains("1024 bytes")
        #expect(isTooLarge || message.contains("repetition"), "\(message)")
    }

    @Test func `the largest pattern is accepted`() throws {
        let expression = try RegularExpression(String(repeating: "a", count: RegularExpression.maximumBytes))
        #expect(expression.instructions <= RegularExpression.maximumInstructions)
    }

    @Test func `a match is charged for each byte and each instruction`() throws {
        let expression = try RegularExpression("[ab]c")
        let text = String(repeating: "ab", count: 500)
        var budget = WorkBudget.unlimited
        _ = withBytes(of: text) { bytes, _ in expression.verdict(on: bytes, wholeText: false, budget: &budget) }
        #expect(budget.spent == expression.instructions * 1_001 / RegularExpression.stepsPerUnit)
        #expect(expression.instructions < 64)
        budget = .unlimited
        _ = withBytes(of: text) { bytes, _ in
            expression.verdict(on: bytes, wholeText: false, freeInstructions: 64, budget: &budget)
        }
        #expect(budget.spent == 0)
    }

    @Test func `a text that may take too many steps is not tried`() throws {
        let pattern = "(a|b)*a(a|b){900}c"
        let instructions = try RegularExpression(pattern).instructions
        let longest = RegularExpression.maximumSteps / instructions - 1
        #expect(try verdicts(pattern, [String(repeating: "a", count: longest + 1)]) == [.textTooLong])
        #expect(try verdicts("a", [String(repeating: "b", count: longest + 1)]) == [.doesNotMatch])
    }

    @Test func `many texts with a large pattern spend the budget of a job, and later ones are not tried`() throws {
        let pattern = "^\\p{L}+$"
        let instructions = try RegularExpression(pattern).instructions
        var budget = WorkBudget(limit: 10 * 11 * instructions / RegularExpression.stepsPerUnit)
        let texts = Array(repeating: "abcdefghij", count: 12)
        let found = try verdicts(pattern, texts, &budget)
        #expect(found.prefix(9).allSatisfy { $0 == .matches } && found.last == .budgetSpent)
        let short = Array(repeating: "a@b", count: 20_000)
        #expect(try verdicts(".+@.+", short, &budget, freeInstructions: 64).allSatisfy { $0 == .matches })
    }

    @Test(arguments: [1, 7, 1_000_000, 256 << 20]) func `the parts of a job share its budget by their bytes`(total: Int)
    {
        let parts = [total / 3, total / 2, total - total / 2 - total / 3]
        let limits = parts.map { WorkBudget.staging($0, of: total).limit }
        #expect(limits.reduce(0, +) <= WorkBudget.staging.limit)
        #expect(limits.reduce(0, +) >= WorkBudget.staging.limit - parts.count)
        #expect(WorkBudget.staging(total, of: total).limit == WorkBudget.staging.limit)
    }

    @Test func `parts of a job that are staged separately try no more texts than one part would`() throws {
        let model = """
            {"entities": {
              "A": {"identity": "id", "attributes": {"id": "integer64", "text": {"type": "string", "pattern": "^\\\\p{L}{4}"}}},
              "B": {"identity": "id", "attributes": {"id": "integer64", "text": {"type": "string", "pattern": "^\\\\p{L}{4}"}}}}}
            """
        let fixture = try Staging(model)
        let text = String(repeating: "a", count: 30_000)
        let records = (0..<10).map { "{\"id\": \($0), \"text\": \"\(text)\"}" }.joined(separator: ",")
        let steps = try RegularExpression("^\\p{L}{4}").instructions * text.utf8.count
        let rejected = try fixture.stage("{\"A\": [\(records)], \"B\": [\(records)]}", .skip).rows.rejected.count
        #expect(rejected >= 20 - 4 * WorkBudget.staging.limit / steps - 1 && rejected < 20, "\(rejected)")
    }

    @Test func `a pattern has one meaning, wherever the match is`() throws {
        for (pattern, text, matches) in [
            ("b|c", "ab", true), ("b|c", "a", false), ("^b", "ab", false), ("^b|a$", "ba", true), ("a$", "a\n", false),
            ("(?i)B", "ab", true), ("\\Qa.", "xa.", true), ("\\Qa.", "xab", false), ("(?m)^b$", "a\nb\nc", true),
            ("^b$", "a\nb\nc", false), (".", "\u{1F600}", true), ("^.$", "\n", false), ("^.$", "\r", true),
            ("(?s)^.$", "\n", true), ("^..$", "\u{1F600}\u{301}", true), ("é", "e\u{301}", false),
            ("\\Aa", "ba", false), ("\\r\\n", "a\r\nb", true), ("^\\n", "\r\n", false),
            ("\\d", "\u{661}", false), ("\\p{Nd}", "\u{661}", true), ("\\w", "é", false), ("\\p{L}", "é", true),
            ("\\bq", "éq", true), ("^$", "", true),
        ] { #expect(try verdicts(pattern, [text]) == [matches ? .matches : .doesNotMatch], "\(pattern) \(text)") }
    }

    @Test func `a value that is not matched is not allowed, and the message says why`() throws {
        let pattern = "(a|b)*a(a|b){900}c"
        let email = try ValueConverter.compiled(
            Attribute(name: "email", type: .string, constraints: ValueConstraints(pattern: pattern)))
        let message = try #require(try email.refusal(of: "\"\(String(repeating: "a", count: 300_000))\""))
        #expect(message.contains("too long for the pattern") && message.contains("\"email\"") && message.count < 300)
        #expect(try email.refusal(of: "\"a\"") == "\"a\" does not match the pattern: attribute \"email\", \(pattern)")
    }
}
