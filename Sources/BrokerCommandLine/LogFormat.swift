internal import ArgumentParser
internal import CGlibc
internal import Glibc

/// The form of the lines of a log on standard error.
package enum LogFormat: String, CaseIterable, Sendable, ExpressibleByArgument {
    /// Time, level and message, then the metadata.
    case text
    /// One JSON object.
    case json
    /// The priority of the line in `<>` (sd-daemon(3)), and no time: journald has its own.
    case journald

    /// ``journald`` where standard error is the journal's stream, else ``text``.
    package static var detected: LogFormat {
        getenv("JOURNAL_STREAM").map { isStandardError(String(cString: $0)) } == true ? .journald : .text
    }

    /// Whether standard error has the device and the inode of a text `device:inode` (systemd.exec(5), `$JOURNAL_STREAM`).
    static func isStandardError(_ stream: String) -> Bool {
        var status = stat()
        guard fstat(STDERR_FILENO, &status) == 0 else { return false }
        return stream == "\(status.st_dev):\(status.st_ino)"
    }
}
