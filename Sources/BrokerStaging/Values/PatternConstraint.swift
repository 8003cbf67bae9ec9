import Foundation

/// A regular expression in ICU's syntax that must match somewhere in a text, or the whole of it.
///
/// ICU backtracks: on a text that does not match, `.+@.+` takes steps by the square of its length, and `(a+)+$` twice as
/// many for each character. So the steps are counted, and a text that takes too many is given up. They are counted by
/// ICU itself and not by a clock, so the same text comes to the same end on every machine, however busy.
///
/// Steps are ways that are noted to be tried later. What ICU does between two of them is bounded by the pattern's
/// length, with exceptions: lookaround, atomic groups and back references may read the whole text and note nothing.
/// Patterns with these are tried on short texts only.
struct PatternConstraint: Sendable {
    enum Verdict: Equatable {
        case matches
        case doesNotMatch
        /// Nobody knows: it took too many steps.
        case givenUp
        /// It was not tried, because the pattern is not for texts of this length.
        case tooLong
        /// It was not tried, because the job's other texts have used up ``PatternBudget``.
        case budgetSpent
    }

    /// After this many steps ICU reports that it is still matching: `TIMER_INITIAL_VALUE` in its rematch.cpp.
    static let stepsPerReport = 10_000
    /// Reports that any text may take: 100,000 steps, about a millisecond, are more than any short text needs.
    static let reportsForAnyText = 10
    /// For each such number of UTF-16 units one report more, so ten steps a unit: patterns that read a text from its
    /// beginning to its end take one to four.
    static let unitsPerFurtherReport = 1_000
    /// UTF-16 units of a text on which a pattern that looks around is tried: it may read so many at every step, and then
    /// takes up to half a second.
    static let longestLookedAround = 4_096
    /// Texts beyond this get an expression of their own, because one keeps the memory that its longest match took.
    private static let longestShared = 4_096

    let pattern: String
    private let expression: NSRegularExpression
    /// What is matched at the beginning of a text: the pattern up to the text's end, or behind any prefix. Where a match
    /// begins is found by steps, too, and so they are counted; ICU's own search does not count them.
    private let searching: String
    private let looksAround: Bool

    /// Nil when the pattern is no regular expression; ICU does not say why.
    ///
    /// - Parameter coversWholeText: a match begins and ends where the text does.
    init?(_ pattern: String, coversWholeText: Bool = false) {
        guard Self.compile(pattern) != nil else { return nil }
        // What ends the pattern may be a comment or a quotation, which would swallow the bracket.
        let candidates = ["", "\n", "\\E"].lazy.compactMap { end -> (String, NSRegularExpression)? in
            let searching = coversWholeText ? "(?:\(pattern)\(end))\\z" : "[\\s\\S]*?(?:\(pattern)\(end))"
            return Self.compile(searching).map { (searching, $0) }
        }
        guard let (searching, expression) = candidates.first else { return nil }
        self.pattern = pattern
        self.searching = searching
        self.expression = expression
        looksAround = Self.looksAround(pattern)
    }

    /// Whether the pattern matches somewhere in the text, at a cost that grows with its length at most.
    func verdict(on text: UnsafeBufferPointer<UInt8>, budget: inout PatternBudget) -> Verdict {
        guard !budget.isSpent else { return .budgetSpent }
        let string = String(decoding: text, as: UTF8.self)
        let count = string.utf16.count
        guard !looksAround || count <= Self.longestLookedAround else { return .tooLong }
        let allowed = Self.reportsForAnyText + count / Self.unitsPerFurtherReport
        var reports = 0
        var verdict = Verdict.doesNotMatch
        // The pattern was compiled before, so it can be compiled again.
        let expression = count > Self.longestShared ? Self.compile(searching) ?? expression : expression
        expression.enumerateMatches(
            in: string, options: [.anchored, .reportProgress, .reportCompletion],
            range: NSRange(location: 0, length: count)
        ) { match, flags, stop in
            if match != nil {
                verdict = .matches
                stop.pointee = true
            } else if flags.contains(.internalError) {
                // ICU's stack, of 8 MB, is full.
                verdict = .givenUp
            } else if flags.contains(.progress) {
                reports += 1
                guard reports > allowed else { return }
                verdict = .givenUp
                stop.pointee = true
            }
        }
        // A long text's own steps are paid for by its length.
        let charged = max(0, reports - count / Self.unitsPerFurtherReport)
        budget.charge(reports: charged, weight: looksAround ? 1 + count / Self.unitsPerWeight : 1)
        return verdict
    }

    /// What a pattern that looks around reads between two steps counts as a step more for so many units.
    private static let unitsPerWeight = 64

    private static func compile(_ pattern: String) -> NSRegularExpression? {
        do {
            return try NSRegularExpression(pattern: pattern)
        } catch {
            // The caller tells that it is none.
            return nil
        }
    }

    /// There may be lookaround, an atomic group or a back reference; in doubt there is.
    private static func looksAround(_ pattern: String) -> Bool {
        let bytes = Array(pattern.utf8)
        for (byte, next) in zip(bytes, bytes.dropFirst()) {
            switch (byte, next) {
            case (UInt8(ascii: "?"), UInt8(ascii: ">")), (UInt8(ascii: "?"), UInt8(ascii: "=")),
                (UInt8(ascii: "?"), UInt8(ascii: "!")), (UInt8(ascii: "?"), UInt8(ascii: "<")),
                (UInt8(ascii: "\\"), UInt8(ascii: "1")...UInt8(ascii: "9")), (UInt8(ascii: "\\"), UInt8(ascii: "k")):
                return true
            default: continue
            }
        }
        return false
    }
}

/// What patterns may cost a job beyond what the lengths of its texts pay for: 100 million steps, about a second.
public struct PatternBudget {
    static let reports = 100_000_000 / PatternConstraint.stepsPerReport

    private var rest = PatternBudget.reports

    public init() {}

    var isSpent: Bool { rest <= 0 }

    /// Steps that any text may take for nothing: what ICU does not report.
    static let freeSteps = PatternConstraint.stepsPerReport

    func isSpent(after steps: Int) -> Bool { steps / PatternConstraint.stepsPerReport >= rest }

    mutating func charge(steps: Int) { rest -= max(0, steps) / PatternConstraint.stepsPerReport }

    fileprivate mutating func charge(reports: Int, weight: Int) { rest -= reports * weight }
}
