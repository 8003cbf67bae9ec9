internal import BrokerModel

/// The regular expressions of one model, each compiled once.
///
/// Compiling takes 5 us for an instruction, so a small file could take minutes: all of them together have a limit. Belongs to
/// the thread that compiles the model.
final class ModelPatterns {
    private let mostInstructions: Int
    private var compiled: [[UInt8]: RegularExpression] = [:]
    private var instructions = 0
    /// An expression was not compiled because of the limit.
    private(set) var isRefused = false

    /// - Parameter mostInstructions: takes some two seconds.
    init(mostInstructions: Int = 400_000) { self.mostInstructions = mostInstructions }

    /// - Throws: when no other expression may be compiled.
    private func checkRoom() throws(RegularExpression.Problem) {
        guard instructions > mostInstructions else { return }
        isRefused = true
        throw RegularExpression.Problem(
            message:
                "is not compiled: the patterns and tombstones of a model have at most \(mostInstructions) instructions of RE2 "
                + "together. Take some out, or limit lengths by \"minLength\" and \"maxLength\", and values by \"enum\""
        )
    }

    func expression(_ pattern: String) throws(RegularExpression.Problem) -> RegularExpression {
        let key = Array(pattern.utf8)
        if let known = compiled[key] { return known }
        try checkRoom()
        // RE2 tries as long with one that is too large.
        var count = RegularExpression.maximumInstructions
        defer { instructions += count }
        let expression = try RegularExpression(pattern)
        count = expression.instructions
        compiled[key] = expression
        return expression
    }

    /// The predicate of a tombstone, whose expressions count.
    func predicate(_ text: String, of entity: Int, in model: Model) throws(Fault) -> Predicate {
        do throws(RegularExpression.Problem) {
            try checkRoom()
        } catch {
            throw Fault(.invalidPredicate, "It \(error.message).")
        }
        var count = RegularExpression.maximumInstructions
        defer { instructions += count }
        let predicate = try model.predicate(text, arguments: nil, ofEntity: entity)
        count = predicate.instructions
        return predicate
    }
}
