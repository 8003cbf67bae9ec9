package import BrokerJSON
package import BrokerModel

extension Model {
    /// Reads a predicate (`where`, `tombstone`) on the objects of an entity.
    ///
    /// It is in this module because a predicate's constants are converted like records' values: by the type of the
    /// attribute that they are compared with, but by ISO 8601 alone and without the attribute's transforms and limits.
    ///
    /// - Parameters:
    ///   - arguments: a JSON array, one element for each `%@` and `%K` in their order; nil when there are none. The
    /// predicate does not retain it.
    /// - Throws: `invalidPredicate` with the column in the predicate; the caller adds the path.
    package func predicate(
        _ text: String, arguments: JSONValue?, ofEntity entity: Int
    ) throws(Fault) -> Predicate {
        do throws(PredicateFault) {
            let read = try PredicateParser.parse(text)
            return try withExtendedLifetime(read.literals) { () throws(PredicateFault) in
                var checker = PredicateChecker(
                    model: self, entity: entity, literals: Array(read.literals.root.elements),
                    arguments: try Self.values(of: arguments, for: read.argumentOffsets))
                return try checker.check(read.syntax)
            }
        } catch {
            throw error.fault(in: text).of(entity: entities[entity].name)
        }
    }

    /// Returns the arguments, one for each `%@` and `%K`.
    private static func values(
        of arguments: JSONValue?, for offsets: [Int]
    ) throws(PredicateFault) -> [JSONValue] {
        guard let arguments, !arguments.isNull else {
            guard let first = offsets.first else { return [] }
            throw PredicateFault("this asks for an argument, and none came; send \"arguments\", an array", at: first)
        }
        guard arguments.kind == .array else {
            throw PredicateFault("\"arguments\" is \(arguments.kind.phrase), and an array is wanted.", at: nil)
        }
        let count = arguments.elements.reduce(0) { count, _ in count + 1 }
        guard count >= offsets.count else {
            throw PredicateFault(
                "this asks for argument number \(count + 1), and \(count) came; send one for each %@ and %K",
                at: offsets[count])
        }
        guard count == offsets.count else {
            throw PredicateFault(
                "The predicate asks for \(offsets.count) argument\(offsets.count == 1 ? "" : "s") (one for each %@ and %K), and \(count) came. "
                    + "Many values for one IN %@ are one argument, an array.", at: nil)
        }
        return Array(arguments.elements)
    }
}
