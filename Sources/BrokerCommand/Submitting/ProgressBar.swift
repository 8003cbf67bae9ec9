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
    private let isShown = Terminal.isAnimated(STDERR_FILENO)
    private let start = ContinuousClock.now
    private var lastDrawn: ContinuousClock.Instant?

    /// - Parameter totalBytes: nil when the size of the input is unknown.
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
        draw(
            Self.line(
                columns: columns, share: share, bytes: bytes, records: records,
                perSecond: seconds > 0 ? Int(Double(records) / seconds) : 0,
                secondsLeft: share.flatMap { Self.secondsLeft(after: seconds, share: $0) }))
    }

    /// Seconds after which the time that is left can be estimated.
    private static let soonestEstimate = 2.0

    /// The time for the rest at the speed so far; nil when it cannot be estimated yet.
    static func secondsLeft(after seconds: Double, share: Double) -> Int? {
        guard seconds >= soonestEstimate, share >= 0.01 else { return nil }
        return Int((seconds * (1 - share) / share).rounded(.up))
    }

    /// `40 s`, `12 min` or `3 h 05 min`.
    static func text(ofSeconds seconds: Int) -> String {
        if seconds < 100 { return "\(seconds) s" }
        let minutes = (seconds + 59) / 60
        guard minutes >= 100 else { return "\(minutes) min" }
        return "\(minutes / 60) h \(minutes % 60 < 10 ? "0" : "")\(minutes % 60) min"
    }

    mutating func clear() {
        if lastDrawn != nil { draw("") }
        lastDrawn = nil
    }

    /// As much as fits: a bar and all numbers, fewer of them, no bar, the percentage alone.
    ///
    /// - Parameters:
    ///   - share: of the whole, up to 1; nil when that is not known.
    ///   - secondsLeft: nil when unknown.
    static func line(
        columns: Int, share: Double?, bytes: Int, records: Int, perSecond: Int, secondsLeft: Int? = nil
    ) -> String {
        let percentage = share.map { "\(Int($0 * 100)) %" }
        let rest = secondsLeft.map { "\(text(ofSeconds: $0)) left" }
        let texts = [
            [percentage, rest, "\(bytes >> 20) MiB read", "\(records) records committed", "\(perSecond) a second"],
            [percentage, rest, "\(records) records committed", "\(perSecond) a second"],
            [percentage, rest, "\(records) records committed"], [percentage, "\(records) records committed"],
            [percentage, "\(records) records"],
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

    private func draw(_ line: String) {
        // Back to the first column, and the rest of the old line erased (ECMA-48, EL).
        let text = "\r\u{1B}[K\(line)"
        _ = write(STDERR_FILENO, text, text.utf8.count)
    }
}
