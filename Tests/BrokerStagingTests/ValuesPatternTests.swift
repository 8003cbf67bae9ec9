import BrokerJSON
import BrokerModel
import Testing

@testable import BrokerStaging

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
    ) throws {
        #expect(try verdicts(pattern, [String(repeating: unit, count: count) + end]) == [.doesNotMatch])
    }

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
        ] {
            #expect(try verdicts(pattern, [text]) == [matches ? .matches : .doesNotMatch], "\(pattern) \(text)")
        }
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
