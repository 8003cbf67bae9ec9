import BrokerCommandLine
import Glibc

/// A line on a terminal that says how far a submission is; silent where standard error is none.
struct ProgressBar {
    private static let width = 30
    /// Seconds between two drawings: often enough to be alive, seldom enough to cost nothing.
    private static let interval = Duration.milliseconds(100)

    private let totalBytes: Int?
    private let isShown = isatty(STDERR_FILENO) == 1
    private let start = ContinuousClock.now
    private var lastDrawn: ContinuousClock.Instant?

    /// - Parameter totalBytes: nil when nobody knows how much will come.
    init(totalBytes: Int?) { self.totalBytes = totalBytes }

    mutating func update(bytes: Int, records: Int) {
        let now = ContinuousClock.now
        guard isShown, lastDrawn.map({ $0.duration(to: now) >= Self.interval }) ?? true else { return }
        lastDrawn = now
        let elapsed = start.duration(to: now).components
        let seconds = Double(elapsed.seconds) + Double(elapsed.attoseconds) / 1e18
        let rate = seconds > 0 ? Int(Double(records) / seconds) : 0
        draw("\(bar(bytes)) \(bytes >> 20) MiB read, \(records) records committed, \(rate) a second")
    }

    /// Takes the line away.
    func clear() {
        if lastDrawn != nil { draw("") }
    }

    private func bar(_ bytes: Int) -> String {
        guard let totalBytes, totalBytes > 0 else { return "[…]" }
        let share = min(1, Double(bytes) / Double(totalBytes))
        let filled = Int(share * Double(Self.width))
        return "[" + String(repeating: "#", count: filled) + String(repeating: ".", count: Self.width - filled)
            + "] \(Int(share * 100)) %"
    }

    private func draw(_ line: String) {
        // Back to the first column, and the rest of the old line erased (ECMA-48, EL).
        let bytes = Array("\r\u{1B}[K\(line)".utf8)
        _ = write(STDERR_FILENO, bytes, bytes.count)
    }
}
