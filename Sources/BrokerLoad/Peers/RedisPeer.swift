internal import Glibc

/// A Redis server of its own that writes every command to disk before it answers.
struct RedisPeer {
    let folder: WorkFolder
    let records: RecordOptions

    /// Sets one key for each record, with so many commands unanswered on one connection.
    ///
    /// - Returns: commands a second.
    func load(_ count: Int, inFlight: Int) throws(LoadError) -> Double {
        let commands = makeCommands(count)
        // A folder of its own, so that each round begins with nothing.
        let files = try WorkFolder(in: folder.path)
        let path = files.file("redis.sock")
        let log = folder.file("redis.log")
        let server = try ChildProcess(
            ProgramPath.find("redis-server") ?? "redis-server",
            [
                "--port", "0", "--unixsocket", path, "--dir", files.path, "--save", "", "--appendonly", "yes",
                "--appendfsync", "always", "--daemonize", "no",
            ], in: folder.path, output: log)
        defer { server.stop() }
        var socket: LoadSocket?
        try server.wait(
            until: {
                socket = try? LoadSocket(connectingTo: path)
                return socket != nil
            }, name: "redis-server", log: log)
        guard let socket else { throw LoadError(.failed, "redis-server has no socket.") }
        let start = monotonicNanoseconds()
        try send(commands, on: socket, inFlight: inFlight)
        return Double(count) / (Double(monotonicNanoseconds() - start) / 1e9)
    }

    private func makeCommands(_ count: Int) -> [[UInt8]] {
        var generator = GeneratedRecords(records)
        return (0..<count).map { number in
            var record: [UInt8] = []
            generator.write(number, to: &record)
            let key = "\(generator.layout.entity):\(number)"
            let head = "*3\r\n$3\r\nSET\r\n$\(key.utf8.count)\r\n\(key)\r\n$\(record.count)\r\n"
            return Array(head.utf8) + record + Array("\r\n".utf8)
        }
    }

    private func send(_ commands: [[UInt8]], on socket: LoadSocket, inFlight: Int) throws(LoadError) {
        var (queued, answered, sent) = (0, 0, 0)
        var outgoing: [UInt8] = []
        var answers = [UInt8](repeating: 0, count: 64 << 10)
        while answered < commands.count {
            if sent == outgoing.count {
                let end = min(commands.count, answered + inFlight)
                outgoing = Array(commands[queued..<max(queued, end)].joined())
                (queued, sent) = (max(queued, end), 0)
            }
            if sent < outgoing.count {
                let result = outgoing.withUnsafeBytes { socket.send(UnsafeRawBufferPointer(rebasing: $0[sent...])) }
                if case .bytes(let count) = result { sent += count }
            }
            var poll = pollfd(
                fd: socket.descriptor, events: Int16(POLLIN | (sent < outgoing.count ? POLLOUT : 0)), revents: 0)
            Glibc.poll(&poll, 1, 10_000)
            switch answers.withUnsafeMutableBytes({ socket.receive(into: $0) }) {
            case .bytes(let count):
                // Each answer is one line, "+OK".
                for byte in answers[..<count] {
                    if byte == UInt8(ascii: "-") {
                        throw LoadError(.failed, "Redis: \(String(decoding: answers[..<count], as: UTF8.self))")
                    }
                    if byte == UInt8(ascii: "\n") { answered += 1 }
                }
            case .wouldBlock: break
            case .closed: throw LoadError(.failed, "redis-server closed the connection.")
            }
        }
    }
}
