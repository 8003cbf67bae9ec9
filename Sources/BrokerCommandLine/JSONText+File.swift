public import BrokerJSON
internal import Glibc

extension JSONText {
    /// The bytes of a file, or of standard input for `-`.
    public static func file(_ path: String) throws(CommandFailure) -> JSONText {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CommandFailure(.failed, "\(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        defer { if path != "-" { close(descriptor) } }
        var builder = JSONTextBuilder(maximumCount: .max >> 1)
        while true {
            let before = builder.count
            try builder.withFreeSpace(atLeast: 64 << 10) { free throws(CommandFailure) in
                let count = Glibc.read(descriptor, free.baseAddress, free.count)
                guard count >= 0 else {
                    throw CommandFailure(.failed, "\(path) cannot be read: \(String(cString: strerror(errno))).")
                }
                return count
            }
            if builder.count == before { return builder.finish() }
        }
    }
}
