package import BrokerJSON

/// A predicate as written, before any name is looked up.
package indirect enum PredicateSyntax {
    case constant(Bool)
    case not(PredicateSyntax)
    case all([PredicateSyntax])
    case any([PredicateSyntax])
    case comparison(PredicateComparisonSyntax)
}

package struct PredicateComparisonSyntax {
    /// Nil for a comparison of one value.
    package let quantifier: PredicateQuantifier?
    package let left: PredicateTerm
    package let relation: PredicateRelation
    package let right: PredicateTerm
}

/// How many objects of a to-many relationship must meet a comparison.
package struct PredicateQuantifier {
    package enum Kind: String {
        /// Also written SOME.
        case any = "ANY"
        case all = "ALL"
        case none = "NONE"
    }

    package let kind: Kind
    /// Its position, in bytes.
    package let offset: Int
}

/// An operator with its options.
package struct PredicateRelation {
    package enum Kind: String {
        case equal = "=="
        case notEqual = "!="
        case less = "<"
        case atMost = "<="
        case greater = ">"
        case atLeast = ">="
        case isIn = "IN"
        case between = "BETWEEN"
        case beginsWith = "BEGINSWITH"
        case endsWith = "ENDSWITH"
        case contains = "CONTAINS"
        case like = "LIKE"
        case matches = "MATCHES"
    }

    package var kind: Kind
    package var ignoresCase = false
    package var ignoresDiacritics = false
    package let offset: Int

    package var hasOptions: Bool { ignoresCase || ignoresDiacritics }
}

/// One side of a comparison.
package struct PredicateTerm {
    package enum Kind {
        case path([PredicateName])
        /// Index among the predicate's own constants (`PredicateText.literals`).
        case literal(Int)
        /// `%@`: index among the arguments.
        case argument(Int)
        /// `{…}`: literals and arguments.
        case list([PredicateTerm])
    }

    package let kind: Kind
    /// Its position, in bytes.
    package let offset: Int
}

/// One name of a key path.
package struct PredicateName {
    package enum Kind {
        case written(String)
        /// `%K`: index among the arguments. It may be a path itself.
        case argument(Int)
    }

    /// The last name of a key path that means the number of objects of a to-many relationship.
    package static let count = "@count"

    package let kind: Kind
    package let offset: Int
}

/// The parsed text of a predicate.
package struct PredicateText {
    package let syntax: PredicateSyntax
    /// The constants of the text, as the elements of a JSON array, so that they are converted like arguments.
    package let literals: JSONDocument
    /// The position of each use of an argument, in bytes.
    package let argumentOffsets: [Int]
}

/// A predicate that cannot be used.
package struct PredicateFault: Error {
    /// The fault and the remedy.
    package let message: String
    /// The position in the text, in bytes; nil when the fault has none.
    package let offset: Int?

    package init(_ message: String, at offset: Int?) {
        self.message = message
        self.offset = offset
    }

    /// As the contract's fault. Columns count characters (Unicode scalars) from 1.
    package func fault(in text: String) -> Fault {
        guard let offset else { return Fault(.invalidPredicate, message) }
        var column = 1
        for byte in text.utf8.prefix(offset) where byte & 0xC0 != 0x80 { column += 1 }
        return Fault(.invalidPredicate, "Column \(column) of the predicate: \(message)")
    }
}
