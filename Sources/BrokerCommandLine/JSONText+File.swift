package import BrokerJSON
internal import BrokerModel
internal import Glibc

extension JSONText {
    /// Reads a file, or standard input for `-`.
    ///
    /// - Parameters:
    ///   - limit: bytes; of a longer file, only one byte more than that is read.
    ///   - isRegular: refuses pipes and devices.
    package static func file(
        _ path: String, limit: Int = .max >> 2, isRegular: Bool = false
    ) throws(CommandFailure) -> JSONText {
        var descriptor = STDIN_FILENO
        if isRegular, path != "-" {
            do throws(RegularFile.Refusal) {
                descriptor = try RegularFile.open(path)
            } catch {
                throw CommandFailure(.failed, "\(path) \(error.reason).")
            }
        } else if path != "-" {
            descriptor = open(path, O_RDONLY | O_CLOEXEC)
        }
        guard descriptor >= 0 else {
            throw CommandFailure(.failed, "\(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        defer { if path != "-" { close(descriptor) } }
        var builder = JSONTextBuilder(maximumCount: limit + 1)
        while true {
            let before = builder.count
            try builder.withFreeSpace(atLeast: 64 << 10) { free throws(CommandFailure) in
                guard free.count > 0 else { return 0 }
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
