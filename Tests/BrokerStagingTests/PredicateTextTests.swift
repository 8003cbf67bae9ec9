import BrokerModel
import Testing

@testable import BrokerStaging

/// Operators of texts, asked of records in memory.
@Suite(.timeLimit(.minutes(5))) struct PredicateTextTests {
    private func holds(_ value: String?, _ condition: String) throws -> Bool {
        let attribute = Attribute(name: "a", type: .string)
        let model = Model(entities: [Entity(name: "A", table: "A", attributes: [attribute])])
        let predicate = try model.predicate("a \(condition)", arguments: nil, ofEntity: 0)
        let record = try #require(RecordPredicate(predicate))
        var budget = PatternBudget()
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

    @Test func `LIKE knows the star, the question mark and the backslash`() throws {
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
        #expect(try holds("ab", "MATCHES \"ab(?#comment)\""))
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

    @Test func `A predicate with a key path is not asked of a record`() throws {
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
