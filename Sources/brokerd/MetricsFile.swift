import BrokerCommandLine
import BrokerJSON
import BrokerStore
import Dispatch
import Glibc
import Logging

/// Writes the server's measurements to a file again and again, for node_exporter's textfile collector. A reader sees a
/// whole text always: each is written beside the file and renamed.
///
/// Only a file of measurements, or an empty one, is replaced or deleted; and never a file of the store, whatever is in it.
final class MetricsFile: Sendable {
    private static let interval = DispatchTimeInterval.seconds(15)

    private let path: String
    private let store: String
    private let instance: String
    private let logger: Logger
    private let queue = DispatchQueue(label: "metrics")
    /// Whether the last attempt failed. Touched on the queue alone.
    nonisolated(unsafe) private var hasFailed = false
    // Set once, before the first tick.
    nonisolated(unsafe) private var timer: (any DispatchSourceTimer)?

    /// - Parameter instance: the server's name in the measurements.
    /// - Throws: when the file could not be written. It is not touched before ``begin(_:)``: it may be another server's.
    init(_ path: String, besideStore store: String, instance: String, _ logger: Logger) throws {
        self.path = path
        self.store = store
        self.instance = instance
        self.logger = logger
        if let cause = obstacle(at: path) { throw CommandFailure(Self.failure(path, cause)) }
    }

    static func failure(_ path: String, _ cause: String) -> String {
        "The file \(path) of --metrics-file cannot be written: \(cause)"
    }

    /// Why a file at that path could not be replaced, and the remedy; nil when it can. Changes nothing.
    static func obstacle(at path: String, besideStore store: String) -> String? {
        let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let folder = slash.map { String(path[...$0]) } ?? "."
        guard access(folder, W_OK | X_OK) == 0 else { return "\(String(cString: strerror(errno))). Check its folder." }
        do {
            if let owner = try Store.owner(ofFile: path, besideStore: store) {
                return "it \(owner). Name another file."
            }
        } catch {
            return error.message
        }
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        guard status.st_mode & S_IFMT == S_IFREG else { return "it is no regular file. Name another one." }
        guard status.st_size == 0 || hasMeasurements(path) else {
            return "it is there, and does not begin as measurements do. Move it away, or name another file."
        }
        return nil
    }

    private static func hasMeasurements(_ path: String) -> Bool {
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        guard file >= 0 else { return false }
        defer { close(file) }
        let first = Array(PrometheusText.beginning.utf8)
        var bytes = [UInt8](repeating: 0, count: first.count)
        return pread(file, &bytes, bytes.count, 0) == first.count && bytes == first
    }

    /// Writes the file now and every 15 seconds.
    func begin(_ statistics: @escaping @Sendable () -> [UInt8]) {
        let timer = DispatchSource.makeTimerSource(queue: queue)
        self.timer = timer
        timer.schedule(deadline: .now(), repeating: Self.interval)
        timer.setEventHandler { [self] in write(statistics()) }
        timer.resume()
    }

    /// Deletes the file: a server that is not there has no measurements.
    func end() {
        guard let timer else { return }
        timer.cancel()
        queue.sync { if obstacle(at: path) == nil { unlink(path) } }
    }

    private func obstacle(at path: String) -> String? { Self.obstacle(at: path, besideStore: store) }

    private func write(_ statistics: [UInt8]) {
        let document = try? JSONDocument(parsing: JSONText(copying: statistics))
        guard let text = document?.withRoot({ PrometheusText.text($0, instance: instance) }) else { return }
        let cause = replace(with: Array(text.utf8))
        if let cause, !hasFailed {
            logger.warning("The measurements cannot be written.", metadata: ["file": "\(path)", "cause": "\(cause)"])
        }
        hasFailed = cause != nil
    }

    private func replace(with bytes: [UInt8]) -> String? {
        let temporary = "\(path).\(getpid())"
        for path in [path, temporary] {
            if let obstacle = obstacle(at: path) { return obstacle }
        }
        // A server of the same number that was killed may have left it.
        unlink(temporary)
        let file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o644)
        guard file >= 0 else { return "\(String(cString: strerror(errno))). Check its folder." }
        // The collector is another user. The mask is for the store's files.
        fchmod(file, 0o644)
        let isWritten = Glibc.write(file, bytes, bytes.count) == bytes.count
        let cause = errno
        close(file)
        guard isWritten, rename(temporary, path) == 0 else {
            let cause = isWritten ? errno : cause
            unlink(temporary)
            return "\(String(cString: strerror(cause))). Check its folder."
        }
        return nil
    }
}
