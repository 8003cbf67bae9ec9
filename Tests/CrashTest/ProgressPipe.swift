import Foundation

/// Counts the answers that clients report, a byte for each.
final class ProgressPipe {
    private(set) var answers = 0
    /// Where clients write.
    let end: Int32
    private let reading: Int32

    init() throws {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw Difference("No pipe can be had: \(String(cString: strerror(errno))).") }
        (reading, end) = (ends[0], ends[1])
        for descriptor in ends { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
    }

    deinit {
        close(reading)
        close(end)
    }

    /// Until there are more answers, or for a moment.
    func wait() {
        var polled = pollfd(fd: reading, events: Int16(POLLIN), revents: 0)
        guard poll(&polled, 1, 5) > 0 else { return }
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = read(reading, &buffer, buffer.count)
        if count > 0 { answers += count }
    }
}
