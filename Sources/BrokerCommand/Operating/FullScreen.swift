import BrokerCommandLine
import Dispatch
import Glibc
import Synchronization

/// The whole terminal, for a program that draws it again and again. Its former contents come back with ``restore()``.
final class FullScreen: Sendable {
    private let settings: termios?
    /// The terminal is as this program has set it. The thread of a signal restores it, too.
    private let isOpen = Atomic(true)

    /// The alternate screen, without a cursor (ctlseqs of xterm: 1049, 25).
    init() {
        var settings = termios()
        if tcgetattr(STDIN_FILENO, &settings) == 0 {
            self.settings = settings
            settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
            tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        } else {
            self.settings = nil
        }
        Self.write("\u{1B}[?1049h\u{1B}[?25l")
    }

    /// Any number of calls, on any thread.
    func restore() {
        guard isOpen.exchange(false, ordering: .relaxed) else { return }
        Self.write("\u{1B}[?25h\u{1B}[?1049l")
        guard var settings else { return }
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    /// Draws the lines, as many as there is room for.
    func show(_ lines: [String]) throws(CommandFailure) {
        var size = winsize()
        let isKnown = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
        let (rows, columns) = isKnown ? (Int(size.ws_row), Int(size.ws_col)) : (24, 80)
        // Home; each line erases the rest of its row, and the last one what is below (ECMA-48: CUP, EL, ED).
        let shown = lines.prefix(rows).map { TableText($0, columns: columns).shown + "\u{1B}[K" }
        try StandardOutput.write(Array(("\u{1B}[H" + shown.joined(separator: "\r\n") + "\u{1B}[J").utf8))
    }

    /// Waits for a key. Whether it is one that ends the program, or there will be no more keys.
    func isQuitting(within milliseconds: Int32) async -> Bool {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: Self.readsQuit(milliseconds)) }
        }
    }

    private static func readsQuit(_ milliseconds: Int32) -> Bool {
        guard isatty(STDIN_FILENO) == 1 else {
            usleep(UInt32(milliseconds) * 1_000)
            return false
        }
        var polled = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        guard poll(&polled, 1, milliseconds) > 0 else { return false }
        var key: UInt8 = 0
        guard read(STDIN_FILENO, &key, 1) == 1 else { return true }
        return key == UInt8(ascii: "q") || key == UInt8(ascii: "Q")
    }

    private static func write(_ text: String) {
        let bytes = Array(text.utf8)
        _ = Glibc.write(STDOUT_FILENO, bytes, bytes.count)
    }
}
