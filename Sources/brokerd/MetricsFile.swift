import BrokerCommandLine
import BrokerJSON
import Dispatch
import Glibc
import Logging

/// Writes the server's measurements to a file again and again, for node_exporter's textfile collector. A reader sees a
/// whole text always: each is written beside the file and renamed.
final class MetricsFile: Sendable {
    private static let interval = DispatchTimeInterval.seconds(15)

    private let path: String
    private let logger: Logger
    private let queue = DispatchQueue(label: "metrics")
    /// Whether the last attempt failed. Touched on the queue alone.
    nonisolated(unsafe) private var hasFailed = false
    // Set once, before the first tick.
    nonisolated(unsafe) private var timer: (any DispatchSourceTimer)?

    /// - Throws: when the file cannot be written.
    init(_ path: String, _ logger: Logger) throws(CommandFailure) {
        self.path = path
        self.logger = logger
        if let cause = replace(with: []) {
            throw CommandFailure(.failed, Self.failure(path, cause))
        }
    }

    static func failure(_ path: String, _ cause: String) -> String {
        "The file \(path) of --metrics-file cannot be written: \(cause). Check its folder."
    }

    /// Why a file at that path could not be replaced; nil when it can. Changes nothing.
    static func obstacle(at path: String) -> String? {
        let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let folder = slash.map { String(path[...$0]) } ?? "."
        guard access(folder, W_OK | X_OK) == 0 else { return String(cString: strerror(errno)) }
        var status = stat()
        let isFolder = stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
        return isFolder ? String(cString: strerror(EISDIR)) : nil
    }

    /// Writes the file now and every 15 seconds.
    ///
    /// - Parameter statistics: the `stats` message.
    func begin(_ statistics: @escaping @Sendable () -> [UInt8]) {
        let timer = DispatchSource.makeTimerSource(queue: queue)
        self.timer = timer
        timer.schedule(deadline: .now(), repeating: Self.interval)
        timer.setEventHandler { [self] in write(statistics()) }
        timer.resume()
    }

    /// Deletes the file: a server that is not there has no measurements.
    func end() {
        timer?.cancel()
        queue.sync { _ = unlink(path) }
    }

    private func write(_ statistics: [UInt8]) {
        guard let document = try? JSONDocument(parsing: JSONText(copying: statistics)) else { return }
        let text = withExtendedLifetime(document) { PrometheusText.text(document.root) }
        let cause = replace(with: Array(text.utf8))
        if let cause, !hasFailed {
            logger.warning("The measurements cannot be written.", metadata: ["file": "\(path)", "cause": "\(cause)"])
        }
        hasFailed = cause != nil
    }

    /// - Returns: why the file could not be written; nil when it was.
    private func replace(with bytes: [UInt8]) -> String? {
        let temporary = "\(path).\(getpid())"
        let file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o644)
        guard file >= 0 else { return String(cString: strerror(errno)) }
        let isWritten = Glibc.write(file, bytes, bytes.count) == bytes.count
        let cause = errno
        close(file)
        guard isWritten, rename(temporary, path) == 0 else {
            let cause = isWritten ? errno : cause
            unlink(temporary)
            return String(cString: strerror(cause))
        }
        return nil
    }
}
