import BrokerCommandLine
import Glibc

/// A line on a terminal that says what is being read before anything is sent; silent where standard error is none.
struct ReadingLine {
    private let name: String
    private let totalBytes: Int?
    private let isShown = TerminalLine.isShown
    private var lastDrawn = ContinuousClock.now

    /// So long is read before it is shown: small inputs need no line.
    private static let patience = Duration.milliseconds(200)
    /// A file of that size is shown at once.
    private static let largeBytes = 16 << 20

    init(_ name: String, totalBytes: Int? = nil) {
        (self.name, self.totalBytes) = (name, totalBytes)
        if totalBytes ?? 0 >= Self.largeBytes { Self.draw("reading \(name)") }
    }

    mutating func update(bytes: Int, records: Int) {
        let now = ContinuousClock.now
        guard isShown, lastDrawn.duration(to: now) >= Self.patience else { return }
        lastDrawn = now
        let share = totalBytes.flatMap { $0 > 0 ? " \(min(100, bytes * 100 / $0)) %," : nil } ?? ""
        Self.draw("reading \(name):\(share) \(ShortText.count(records)) records")
    }

    func clear() { TerminalLine.clear() }

    /// Draws a line as far as there is room.
    static func draw(_ text: String) {
        // The ^C that a terminal shows must fit after it.
        let columns = (Terminal.columns(of: STDERR_FILENO) ?? 80) - 3
        if TerminalLine.isShown { TerminalLine.draw(TableText(text, columns: columns).shown) }
    }
}
