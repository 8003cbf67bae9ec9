internal import BrokerJSON
internal import BrokerModel
internal import CRE2

/// A compiled regular expression in RE2's syntax.
///
/// RE2 does not backtrack: a match takes at most one step for each byte of the text and each instruction of the program. That
/// product is always charged, because the real cost depends on the contents of RE2's caches, which it guards itself. Immutable,
/// shared by all threads.
final class RegularExpression: @unchecked Sendable {
    enum Verdict: Equatable {
        case matches
        case doesNotMatch
        /// The text was not matched: with this expression it may take more than ``maximumSteps``.
        case textTooLong
        /// The text was not matched, because the job's budget is spent.
        case budgetSpent
    }

    /// The reason why a pattern cannot be used, and the remedy.
    struct Problem: Error { let message: String }

    static let maximumBytes = 1_024
    /// A class such as `\p{L}` has 1,200 instructions, a literal one for each byte, `[a-z]` five.
    static let maximumInstructions = 5_000
    /// Limit in bytes on the compiled program and the cached DFA.
    static let memory: Int64 = 2 << 20
    /// Limit on the steps of one match, at 3 to 5 ns each: at most a second. A statement cannot be interrupted within a
    /// match.
    static let maximumSteps = 200_000_000
    static let stepsPerUnit = 4

    let pattern: String
    let instructions: Int
    private let handle: OpaquePointer

    init(_ pattern: String, ignoresCase: Bool = false) throws(Problem) {
        var pattern = pattern
        let (handle, status, reason) = pattern.withUTF8 { bytes in Self.compile(bytes, ignoresCase) }
        guard let handle else { throw Self.problem(status, reason) }
        let instructions = Int(broker_re2_program_size(handle))
        guard instructions <= Self.maximumInstructions else {
            broker_re2_free(handle)
            throw Self.problem(BROKER_RE2_TOO_LARGE, "")
        }
        self.pattern = pattern
        self.handle = handle
        self.instructions = instructions
    }

    deinit { broker_re2_free(handle) }

    private static func compile(
        _ bytes: UnsafeBufferPointer<UInt8>, _ ignoresCase: Bool
    ) -> (OpaquePointer?, broker_re2_status, String) {
        guard bytes.count <= maximumBytes else { return (nil, BROKER_RE2_TOO_LARGE, "") }
        var status = BROKER_RE2_OK
        var fault = BROKER_RE2_FAULT_OTHER
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { fragment in
            fragment[0] = 0
            let handle = broker_re2_compile(
                bytes.baseAddress, bytes.count, ignoresCase, memory, &fault, fragment.baseAddress, fragment.count,
                &status)
            return (handle, status, reason(fault, String(cString: fragment.baseAddress!)))
        }
    }

    /// Outcomes of jobs have it, so it is not RE2's text, which differs between versions.
    private static func reason(_ fault: broker_re2_fault, _ fragment: String) -> String {
        let what =
            switch fault {
            case BROKER_RE2_FAULT_ESCAPE: "an escape is unknown"
            case BROKER_RE2_FAULT_CLASS: "a character class is unknown"
            case BROKER_RE2_FAULT_RANGE: "a range of characters is wrong"
            case BROKER_RE2_FAULT_BRACKET: "a closing ] is missing"
            case BROKER_RE2_FAULT_PARENTHESIS: "parentheses do not pair"
            case BROKER_RE2_FAULT_BACKSLASH: "it ends with a backslash"
            case BROKER_RE2_FAULT_REPEATED: "a repetition follows nothing"
            case BROKER_RE2_FAULT_COUNT: "a repetition has a wrong count, or one above 1,000"
            case BROKER_RE2_FAULT_REPETITION: "a repetition follows another"
            case BROKER_RE2_FAULT_GROUP: "a group is of an unknown kind"
            case BROKER_RE2_FAULT_NAME: "the name of a group is wrong"
            default: "it cannot be read"
            }
        return fragment.isEmpty ? what : "\(what) in \(fragment.quotedBriefly)"
    }

    private static func problem(_ status: broker_re2_status, _ reason: String) -> Problem {
        switch status {
        case BROKER_RE2_INVALID:
            return Problem(
                message: "is not a regular expression of RE2's syntax: \(reason). RE2 has no lookaround, back "
                    + "references, atomic groups or possessive quantifiers; write the pattern without them, and pair all "
                    + "brackets")
        case BROKER_RE2_TOO_LARGE:
            return Problem(
                message: "is too large: a regular expression has at most \(maximumBytes) bytes and "
                    + "\(maximumInstructions) instructions of RE2; a repetition counts as often as it may repeat, and \\p{L} counts 1,200. "
                    + "Repeat fewer times, and limit lengths by \"minLength\" and \"maxLength\" where there are some")
        default: preconditionFailure("out of memory for a regular expression")
        }
    }

    /// Returns the number of steps for the text; nil when it exceeds the limit.
    func steps(for text: UnsafeBufferPointer<UInt8>) -> Int? {
        let steps = (text.count + 1).multipliedReportingOverflow(by: instructions)
        return steps.overflow || steps.partialValue > Self.maximumSteps ? nil : steps.partialValue
    }

    /// Matches the whole text, or a part of it.
    ///
    /// - Parameter freeInstructions: instructions that are not charged, because bytes of the job itself pay for them.
    func verdict(
        on text: UnsafeBufferPointer<UInt8>, wholeText: Bool, freeInstructions: Int = 0, budget: inout WorkBudget
    ) -> Verdict {
        guard let steps = steps(for: text) else { return .textTooLong }
        let free = min(freeInstructions, instructions) * (text.count + 1)
        budget.charge((steps - free) / Self.stepsPerUnit)
        guard !budget.isSpent else { return .budgetSpent }
        switch broker_re2_match(handle, text.baseAddress, text.count, wholeText) {
        case BROKER_RE2_MATCH: return .matches
        case BROKER_RE2_NO_MATCH: return .doesNotMatch
        default: preconditionFailure("out of memory for matching a regular expression")
        }
    }
}

/// The regular expressions of one model, each compiled once.
///
/// Compiling takes 5 us for an instruction, so all of them together have a limit. Belongs to the thread that compiles the model.
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
