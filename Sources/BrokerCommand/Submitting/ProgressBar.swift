import BrokerCommandLine
import Glibc

/// A line on a terminal that says how far a submission is; silent where standard error is none.
struct ProgressBar {
    /// Columns of the bar itself, with its brackets, where there is room.
    private static let widestBar = 32
    private static let narrowestBar = 12
    /// Seconds between two drawings: often enough to be alive, seldom enough to cost nothing.
    private static let interval = Duration.milliseconds(100)

    private let totalBytes: Int?
    private let isShown = TerminalLine.isShown
    private let start = ContinuousClock.now
    private var lastDrawn: ContinuousClock.Instant?

    init(totalBytes: Int?) { self.totalBytes = totalBytes }

    mutating func update(bytes: Int, records: Int) {
        let now = ContinuousClock.now
        guard isShown, lastDrawn.map({ $0.duration(to: now) >= Self.interval }) ?? true else { return }
        lastDrawn = now
        let seconds = start.duration(to: now) / .seconds(1)
        let share = totalBytes.map { $0 > 0 ? min(1, Double(bytes) / Double($0)) : 1 }
        // Read each time, because the window may have changed. The ^C that a terminal shows must fit after the line: a
        // wrapped line cannot be removed any more.
        let columns = (Terminal.columns(of: STDERR_FILENO) ?? 80) - 3
        TerminalLine.draw(
            Self.line(
                columns: columns, share: share, left: share.flatMap { Self.left(after: seconds, share: $0) },
                records: records, perSecond: seconds > 0 ? Int(Double(records) / seconds) : 0))
    }

    mutating func clear() {
        if lastDrawn != nil { TerminalLine.clear() }
        lastDrawn = nil
    }

    /// The time for the rest at the speed so far; nil when it cannot be estimated yet.
    static func left(after seconds: Double, share: Double) -> String? {
        guard seconds >= 2, share >= 0.01 else { return nil }
        return ShortText.time(milliseconds: Int(seconds * 1_000 * (1 - share) / share)) + " left"
    }

    /// As much as fits: a bar and all numbers, fewer of them, no bar, the percentage alone.
    static func line(columns: Int, share: Double?, left: String? = nil, records: Int, perSecond: Int) -> String {
        let percentage = share.map { "\(Int($0 * 100)) %" }
        let texts = [
            [percentage, left, "\(records) records committed", "\(perSecond) a second"],
            [percentage, "\(records) records committed"], [percentage, "\(records) records"],
        ].map { $0.compactMap(\.self).joined(separator: ", ") }
        if let share, let text = texts.first(where: { narrowestBar + 1 + $0.count <= columns }) {
            return "\(bar(share, columns: min(widestBar, columns - text.count - 1))) \(text)"
        }
        return texts.first { $0.count <= columns } ?? String((percentage ?? "\(records)").prefix(max(0, columns)))
    }

    private static func bar(_ share: Double, columns: Int) -> String {
        let filled = Int(share * Double(columns - 2))
        return "[" + String(repeating: "#", count: filled) + String(repeating: ".", count: columns - 2 - filled) + "]"
    }
}
