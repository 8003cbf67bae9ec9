import BrokerModel
import Testing

@testable import BrokerStaging

/// Patterns against texts that were chosen to take long.
@Suite(.timeLimit(.minutes(5))) struct ValuesPatternTests {
    /// Far more than the steps allowed take on a slow machine, far less than any of these texts took without a limit.
    private static let patience = Duration.seconds(5)

    private func verdicts(
        _ pattern: String, _ texts: [String], sharing budget: PatternBudget = PatternBudget()
    ) throws -> [PatternConstraint.Verdict] {
        let constraint = try #require(PatternConstraint(pattern), "\(pattern)")
        var budget = budget
        return texts.map { text in
            withBytes(of: text) { bytes, _ in constraint.verdict(on: bytes, budget: &budget) }
        }
    }

    @Test(arguments: [
        (".+@.+", 64_000, "x", ""), ("(a+)+$", 40, "a", "b"), ("^(a|aa)+$", 60, "a", "b"), ("(x+x+)+y", 1_000, "x", ""),
        ("x*x*x*y", 3_000, "x", ""), ("(.*)(.*)(.*)z", 2_000, "x", ""), ("[xy]*+b", 64_000, "x", ""),
    ])
    func `a text that takes too many steps is given up`(
        pattern: String, count: Int, unit: String, end: String
    ) throws {
        let text = String(repeating: unit, count: count) + end
        var found: [PatternConstraint.Verdict] = []
        let taken = try ContinuousClock().measure { found = try verdicts(pattern, [text]) }
        #expect(found == [.givenUp])
        #expect(taken < Self.patience)
    }

    @Test(arguments: [
        "(?>[xy]*)b", "(?=[xy]*)b", "(?!.*+b)q", "(?<=x)b", "(?<!x{1,99})b", "(x*)\\1b", "(?<n>x*)\\k<n>b",
    ])
    func `a pattern that looks around is tried on short texts only`(pattern: String) throws {
        let longest = PatternConstraint.longestLookedAround
        let texts = [longest, longest + 1].map { String(repeating: "x", count: $0) }
        var found: [PatternConstraint.Verdict] = []
        let taken = try ContinuousClock().measure { found = try verdicts(pattern, texts) }
        #expect(found[0] == .doesNotMatch || found[0] == .givenUp)
        #expect(found[1] == .tooLong)
        #expect(taken < Self.patience)
    }

    @Test func `many such texts in one job use up its budget, and are then not tried`() throws {
        let text = String(repeating: "a", count: 40) + "b"
        var found: [PatternConstraint.Verdict] = []
        let taken = try ContinuousClock().measure {
            found = try verdicts("(a+)+$", Array(repeating: text, count: 100_000) + ["a"])
        }
        #expect(found.first == .givenUp)
        #expect(found.last == .budgetSpent)
        #expect(found.count { $0 == .givenUp } == 910)
        #expect(taken < .seconds(30))
    }

    @Test func `good texts spend nothing, however many and long`() throws {
        let short = Array(repeating: "someone@example.com", count: 20_000)
        #expect(try verdicts(".+@.+", short).allSatisfy { $0 == .matches })
        let article = String(repeating: "word word\n", count: 20_000) + "a@b"
        #expect(try verdicts("(.|\\n)@", Array(repeating: article, count: 50)).allSatisfy { $0 == .matches })
        #expect(try verdicts("^[^<>]*$", [article, article + "<"]) == [.matches, .doesNotMatch])
        #expect(try verdicts("^(\\w+\\s?)*$", [String(repeating: "word ", count: 2_000)]) == [.matches])
    }

    @Test func `a text too deep for the engine's stack is given up, not refused as one that does not match`() throws {
        #expect(try verdicts("^(x|y)*$", [String(repeating: "x", count: 1_000_000)]) == [.givenUp])
    }

    @Test func `combining marks cost no more than letters`() throws {
        let marks = "e" + String(repeating: "\u{301}", count: 200_000)
        var found: [PatternConstraint.Verdict] = []
        let taken = try ContinuousClock().measure {
            found = try verdicts("\\bq", [marks]) + verdicts("^\\X$", [marks]) + verdicts("^e", [marks])
        }
        #expect(found[0] == .doesNotMatch)
        #expect(found[2] == .matches)
        #expect(taken < Self.patience)
    }

    @Test func `a pattern means what it means by itself, wherever the match is`() throws {
        for (pattern, text, matches) in [
            ("b|c", "ab", true), ("b|c", "a", false), ("^b", "ab", false), ("^b|a$", "ba", true), ("a$", "a\n", true),
            ("(?i)B", "ab", true), ("(?x) a b # both", "xab", true), ("(?x) a b # (", "ab", true),
            ("\\Qa.", "xa.", true),
            ("\\Qa.", "xab", false), ("(?m)^b$", "a\nb\nc", true), (".", "\u{1F600}", true),
            ("^..$", "\u{1F600}\u{301}", true), ("é", "e\u{301}", false), ("(a)\\1", "xaa", true),
            ("\\Aa", "ba", false),
            ("(?s).\\z", "\n", true), ("\\r\\n", "a\r\nb", true), ("^\\n", "\r\n", false),
        ] {
            #expect(try verdicts(pattern, [text]) == [matches ? .matches : .doesNotMatch], "\(pattern) \(text)")
        }
        for pattern in ["(", ")", "a)(b", "[a", "*", "a\\", "(?<=x*)b"] { #expect(PatternConstraint(pattern) == nil) }
    }

    @Test func `a value that is given up is not allowed, and the message says why`() throws {
        let email = try ValueConverter.compiled(
            Attribute(name: "email", type: .string, constraints: ValueConstraints(pattern: ".+@.+")))
        let long = "\"\(String(repeating: "x", count: 64_000))\""
        #expect(try email.stored(long) == .notAllowed)
        let message = try #require(try email.refusal(of: long))
        #expect(message.contains("too many steps") && message.contains("\"email\"") && message.count < 300)
        #expect(try email.refusal(of: "\"a\"") == "\"a\" does not match the pattern: attribute \"email\", .+@.+")
        let password = try ValueConverter.compiled(
            Attribute(name: "password", type: .string, constraints: ValueConstraints(pattern: "^(?=.*[0-9]).{8,}$")))
        #expect(try password.stored("\"abcdefg1\"") == .text("abcdefg1"))
        #expect(try #require(try password.refusal(of: long)).contains("4096 UTF-16 units"))
    }
}
