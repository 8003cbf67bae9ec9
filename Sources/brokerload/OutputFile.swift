import BrokerCommandLine
import Glibc

/// A file that is written as a whole.
enum OutputFile {
    static func write(_ text: String, to path: String) throws(CommandFailure) {
        guard let file = fopen(path, "w") else { throw failure(path) }
        let bytes = Array(text.utf8)
        let written = fwrite(bytes, 1, bytes.count, file)
        // An error of a full disk may be reported only here.
        guard fclose(file) == 0, written == bytes.count else { throw failure(path) }
    }

    private static func failure(_ path: String) -> CommandFailure {
        CommandFailure(.failed, "\(path) cannot be written: \(String(cString: strerror(errno))).")
    }
}
