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
        ] {
            #expect(try holds(value, "==[d] \"\(other)\""), "\(value) \(other)")
        }
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
