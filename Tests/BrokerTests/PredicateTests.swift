import Broker
import Foundation
import Testing

@Suite(.timeLimit(.minutes(5))) struct PredicateTests {
    @Test func `interpolated values are bound, and never become a part of the text`() {
        let name = #"x" OR TRUEPREDICATE OR name == "%@"#
        let none: Int? = nil
        let predicate: BrokerPredicate =
            "name == \(name) AND \(key: "depart.ment") IN \([1, 2]) AND boss == \(none) AND at < \(Date(timeIntervalSince1970: 1.5))"
        #expect(predicate.format == "name == %@ AND %K IN %@ AND boss == %@ AND at < %@")
        #expect(
            predicate.arguments.map(\.description)
                == [#""x\" OR TRUEPREDICATE OR name == \"%@""#, #""depart.ment""#, "[1,2]", "null", "1.5"])
    }

    @Test func `a literal has no arguments`() {
        let predicate: BrokerPredicate = "age > 40"
        #expect(predicate == BrokerPredicate("age > 40", arguments: []))
    }

    @Test func `a format that is known at run time has its values in order`() throws {
        let predicate = try BrokerPredicate("a == %@ AND b == %@", "12", 12)
        #expect(predicate.arguments.map(\.description) == [#""12""#, "12"])
        let error = #expect(throws: BrokerError.self) { try BrokerPredicate("a == %@", Double.infinity) }
        #expect(error?.code == .notEncodable)
    }

    @Test(arguments: [
        ("", "is empty"), (" \n", "is empty"), ("a == %@", "asks for 1 argument ("), ("a == %d", "Column 6"),
        ("%K == 1 AND b == %@", "asks for 2 arguments"), ("ä == 'x", "Column 6"), (#"a == "x\""#, "Column 6"),
        ("50%", "Column 3"),
    ])
    func `what is wrong whatever the model is, is found before it is sent`(text: String, problem: String) {
        let error = #expect(throws: BrokerError.self) { try BrokerPredicate(text).check() }
        #expect(error?.code == .invalidPredicate)
        #expect(error?.message.contains(problem) == true, "\(String(describing: error))")
    }

    @Test func `placeholders are counted outside of strings`() throws {
        for text in [
            "a == '%@'", #"a == "\"%d" AND b == '\\'"#, "TRUEPREDICATE", "a == '100%'", #"a == '"' OR b == 1"#,
        ] {
            try BrokerPredicate(text).check()
        }
        try BrokerPredicate("%K == %@ AND c == '%@'", values: ["a", 1]).check()
        try BrokerPredicate.all.check()
        #expect(throws: BrokerError.self) { try BrokerPredicate(String(repeating: "a", count: 1 << 20 | 1)).check() }
    }

    @Test func `a text is a value as an argument, as a key and as what is compared`() throws {
        // RawJSON is not expressible by a literal, so that no text is taken for JSON unseen.
        #expect(!((RawJSON.self as Any.Type) is any ExpressibleByStringLiteral.Type))
        let predicate = try BrokerPredicate("name == %@", values: ["7"])
        #expect(predicate.arguments.map(\.description) == [#""7""#])
        #expect(try RawJSON(value: "Ada").description == #""Ada""#)
    }
}
