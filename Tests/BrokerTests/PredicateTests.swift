import Broker
import Testing

/// Predicates that are made of others.
@Suite(.timeLimit(.minutes(5))) struct PredicateCompositionTests {
    private let adult: BrokerPredicate = "age >= \(18)"

    @Test func `operators join formats in parentheses, and values in their order`() {
        let joined = adult && !("email == \(nil)" || "name BEGINSWITH \("A")")
        #expect(joined.format == "(age >= %@) AND (NOT ((email == %@) OR (name BEGINSWITH %@)))")
        #expect(joined.arguments == [RawJSON("18"), RawJSON("null"), RawJSON("\"A\"")])
    }

    @Test func `an interpolated predicate is one operand, whatever is in it`() {
        let either: BrokerPredicate = "a == \(1) OR b == \(2)"
        let whole: BrokerPredicate = "c == \(0) AND \(either) AND \(key: "d") == \(3)"
        #expect(whole.format == "c == %@ AND (a == %@ OR b == %@) AND %K == %@")
        #expect(whole.arguments.map(\.description) == ["0", "1", "2", "\"d\"", "3"])
    }

    @Test func `predicates of one operator add no parentheses inside each other`() {
        let any = (0..<3).map { "id == \($0)" as BrokerPredicate }.reduce("FALSEPREDICATE", ||)
        #expect(any.format == "(FALSEPREDICATE) OR (id == %@) OR (id == %@) OR (id == %@)")
        var changed = any
        changed.format = "id == %@ AND x == 1 OR id == %@ OR id == %@"
        #expect((changed || adult).format == "(\(changed.format)) OR (age >= %@)")
    }

    @Test func `a value that cannot be encoded is an error of each predicate that it is in`() throws {
        let wrong: BrokerPredicate = "a == \(Double.nan)"
        for predicate in [wrong && adult, adult || wrong, !wrong, "\(wrong) OR b == 1"] {
            let error = #expect(throws: BrokerError.self) {
                try Job(.delete("E", where: predicate)).content(id: nil, wantsAcceptance: false)
            }
            #expect(error?.code == .notEncodable)
        }
    }
}
