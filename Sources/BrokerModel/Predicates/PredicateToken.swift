/// The words and signs of predicates.
struct PredicateToken {
    enum Kind: Equatable {
        case word(String)
        /// Written with `#`, so that it is always a name; or `@count`.
        case escapedWord(String)
        /// A string's content.
        case string([UInt8])
        /// In JSON's notation.
        case number([UInt8])
        case relation(PredicateRelation.Kind)
        /// The text between brackets.
        case options(String)
        case and, or, not
        case open, close, openList, closeList, comma, point
        /// `%@` and `%K`.
        case argument, nameArgument
        case end
    }

    let kind: Kind
    /// In bytes.
    let offset: Int
}

extension PredicateToken {
    /// The token as in a sentence.
    var shown: String {
        switch kind {
        case .word(let word): word.quotedBriefly
        case .escapedWord(let word): (word == PredicateName.count ? word : "#\(word)").quotedBriefly
        case .string: "a string"
        case .number(let digits): String(decoding: digits, as: UTF8.self).briefly
        case .relation(let relation): "\"\(relation.rawValue)\""
        case .options(let options): "[\(options)]".quotedBriefly
        case .and: "\"AND\""
        case .or: "\"OR\""
        case .not: "\"NOT\""
        case .open: "\"(\""
        case .close: "\")\""
        case .openList: "\"{\""
        case .closeList: "\"}\""
        case .comma: "\",\""
        case .point: "\".\""
        case .argument: "%@"
        case .nameArgument: "%K"
        case .end: "the end"
        }
    }

    /// The keyword's upper-case form; nil for a token that is no word.
    var keyword: String? {
        guard case .word(let word) = kind, word.utf8.count <= Self.longestKeyword else { return nil }
        return word.uppercased()
    }

    private static let longestKeyword = 14
}
