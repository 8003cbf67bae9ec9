import BrokerCommandLine
import BrokerLoad
import Glibc

/// A line on a terminal that says how far a run is; silent where standard error is none.
final class ProgressLine {
    private let name: String
    private let total: Int?
    private let isShown = Terminal.isAnimated(STDERR_FILENO)
    private var isDrawn = false

    /// - Parameter total: the number of all jobs; nil when unknown.
    init(_ name: String, total: Int?) {
        self.name = name
        self.total = total
    }

    func say(_ text: String) {
        guard isShown else { return }
        isDrawn = true
        draw(text)
    }

    func update(_ progress: RunProgress) {
        let share = total.map { " of \($0)" } ?? ""
        let seconds = Double(Int(progress.seconds * 10)) / 10
        say(
            "\(name): \(seconds) s\(progress.isWarmUp ? " (warm-up)" : ""), \(progress.ended)\(share) jobs, "
                + "\(Int(progress.jobsPerSecond)) a second, p99 \(progress.p99 / 1_000) µs")
    }

    /// Takes the line away.
    func clear() {
        if isDrawn { draw("") }
        isDrawn = false
    }

    private func draw(_ line: String) {
        let columns = Terminal.columns(of: STDERR_FILENO) ?? 80
        // Moves to the first column, and erases the rest of the old line (ECMA-48, EL). A wrapped line is not erased.
        let bytes = Array("\r\u{1B}[K\(line.prefix(columns - 1))".utf8)
        _ = write(STDERR_FILENO, bytes, bytes.count)
    }
}
