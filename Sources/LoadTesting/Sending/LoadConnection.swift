internal import BrokerJSON
internal import BrokerWire
internal import Glibc

/// A connection of the load's: bytes that wait to be sent, and answers as they come.
final class LoadConnection {
    private static let receiveBytes = 256 << 10

    let socket: LoadSocket
    /// Jobs without an end.
    var inFlight = 0
    /// No answer comes any more.
    private(set) var isClosed = false
    /// The server takes nothing more; answers that it sent before can still be read.
    private var isSendingOver = false

    private var outgoing: [UInt8] = []
    private var sent = 0
    private var incoming: [UInt8]
    private var received = 0
    private var decoder = FrameDecoder()

    init(_ socket: LoadSocket) {
        self.socket = socket
        incoming = [UInt8](repeating: 0, count: Self.receiveBytes)
    }

    var canSend: Bool { !isSendingOver && !isClosed }
    var wantsToSend: Bool { sent < outgoing.count && canSend }

    func enqueue(_ bytes: some Collection<UInt8>) { outgoing.append(contentsOf: bytes) }

    /// Sends what the socket takes.
    func flush() {
        while wantsToSend {
            let result = outgoing.withUnsafeBytes { socket.send(UnsafeRawBufferPointer(rebasing: $0[sent...])) }
            switch result {
            case .bytes(let count):
                sent += count
            case .wouldBlock: return
            case .closed: isSendingOver = true
            }
        }
        outgoing.removeAll(keepingCapacity: true)
        sent = 0
    }

    /// Reads once, and calls `body` with the content of every whole frame.
    func receive(_ body: (JSONText) throws(WireError) -> Void) throws(WireError) {
        let result = incoming.withUnsafeMutableBytes {
            socket.receive(into: UnsafeMutableRawBufferPointer(rebasing: $0[received...]))
        }
        switch result {
        case .bytes(let count):
            received += count
        case .wouldBlock: return
        case .closed:
            isClosed = true
            return
        }
        try readFrames(body)
    }

    private func readFrames(_ body: (JSONText) throws(WireError) -> Void) throws(WireError) {
        var start = 0
        var wanted = 0
        while true {
            let scan = try scanFrame(from: start)
            guard case .frame(let payload) = scan else {
                if case .incomplete(let total) = scan { wanted = total ?? 0 }
                break
            }
            try body(try decode(start + payload.lowerBound..<start + payload.upperBound))
            start += payload.upperBound
        }
        if start > 0 {
            let left = received - start
            incoming.withUnsafeMutableBytes { bytes in
                bytes.baseAddress!.copyMemory(from: bytes.baseAddress! + start, byteCount: left)
            }
            received = left
        }
        // A frame that is larger than the buffer, or the next bytes at least.
        let needed = max(wanted, received + 1)
        if needed > incoming.count { incoming.append(contentsOf: repeatElement(0, count: needed - incoming.count)) }
    }

    private func scanFrame(from start: Int) throws(WireError) -> FrameScan {
        // A closure of the standard library's cannot throw a typed error out of this, so the result carries it.
        try incoming.withUnsafeBytes { bytes in
            Result { () throws(WireError) in
                try FrameScanner.scan(UnsafeRawBufferPointer(rebasing: bytes[start..<received]))
            }
        }.get()
    }

    private func decode(_ place: Range<Int>) throws(WireError) -> JSONText {
        try incoming.withUnsafeBytes { bytes in
            Result { () throws(WireError) in try decoder.decode(UnsafeRawBufferPointer(rebasing: bytes[place])) }
        }.get()
    }
}

/// One Unix socket that never blocks. Belongs to the thread that made it.
final class LoadSocket {
    let descriptor: Int32

    /// - Throws: `cannotConnect` with what the system says.
    init(connectingTo path: String) throws(LoadError) {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Self.failure(path) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw LoadError(.cannotConnect, "The socket's path \(path) is longer than a Unix socket's may be.")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
        }
        guard result == 0 else { throw Self.failure(path) }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    }

    deinit { close(descriptor) }

    private static func failure(_ path: String) -> LoadError {
        LoadError(
            .cannotConnect,
            "There is no server at \(path): \(String(cString: strerror(errno))). Start brokerd, or name its --socket.")
    }

    enum Transfer {
        case bytes(Int)
        /// Nothing more can be had or taken now.
        case wouldBlock
        case closed
    }

    func send(_ bytes: UnsafeRawBufferPointer) -> Transfer {
        let count = Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
        return transfer(count)
    }

    func receive(into bytes: UnsafeMutableRawBufferPointer) -> Transfer {
        let count = recv(descriptor, bytes.baseAddress, bytes.count, 0)
        return count == 0 ? .closed : transfer(count)
    }

    private func transfer(_ count: Int) -> Transfer {
        if count >= 0 { return .bytes(count) }
        return errno == EAGAIN || errno == EINTR ? .wouldBlock : .closed
    }

    /// The process at the other end (unix(7), SO_PEERCRED); nil when the kernel does not report it.
    var peerProcess: Int32? {
        // `struct ucred`: pid, uid, gid.
        var peer: (Int32, UInt32, UInt32) = (0, 0, 0)
        var size = socklen_t(MemoryLayout.size(ofValue: peer))
        guard getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0, peer.0 > 0 else { return nil }
        return peer.0
    }
}

/// Nanoseconds of a clock that never goes back.
package func monotonicNanoseconds() -> UInt64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
}

/// A connection of its own on which the server is asked how it is.
final class ServerWatch {
    let connection: LoadConnection
    private(set) var observations = ServerObservations()
    private var isAsking = false
    private let question: [UInt8]

    init(_ socketPath: String) throws(LoadError) {
        connection = LoadConnection(try LoadSocket(connectingTo: socketPath))
        observations.process = connection.socket.peerProcess
        var encoder = FrameEncoder()
        do throws(WireError) {
            question = try encoder.encode(ClientMessageWriter.stats())
            connection.enqueue(try encoder.encode(ClientMessageWriter.hello(client: "brokerload")))
        } catch {
            throw LoadError(.failed, error.message)
        }
        // The greeting and the first numbers are there before anything is measured.
        try wait(until: { !self.observations.name.isEmpty })
        try finish()
        observations.samples = []
    }

    /// Asks for the numbers, unless an answer is outstanding.
    func ask() {
        guard !isAsking, !connection.isClosed else { return }
        isAsking = true
        connection.enqueue(question)
        connection.flush()
    }

    /// The measured time begins.
    func begin() { observations.before = observations.process.flatMap(ProcessUsage.init(of:)) }

    func end() { observations.after = observations.process.flatMap(ProcessUsage.init(of:)) }

    /// Asks once more, and waits for the answer.
    func finish() throws(LoadError) {
        ask()
        try wait(until: { !self.isAsking })
    }

    private func wait(until isDone: () -> Bool) throws(LoadError) {
        let deadline = monotonicNanoseconds() + 10_000_000_000
        while !isDone(), !connection.isClosed {
            connection.flush()
            var poll = pollfd(fd: connection.socket.descriptor, events: Int16(POLLIN), revents: 0)
            Glibc.poll(&poll, 1, 1_000)
            receive()
            guard monotonicNanoseconds() < deadline else {
                throw LoadError(.failed, "The server does not answer `stats` within ten seconds.")
            }
        }
        guard !connection.isClosed else {
            throw LoadError(.cannotConnect, "The server closed the connection; see its log.")
        }
    }

    func receive() {
        do throws(WireError) {
            try connection.receive { content throws(WireError) in try read(content) }
        } catch {
            // An unreadable answer counts as none; the run itself reports a failing server.
            isAsking = false
        }
    }

    private func read(_ content: JSONText) throws(WireError) {
        let envelope = try ServerEnvelope.decode(parsing: content)
        switch envelope.message {
        case .welcome(let welcome): observations.name = welcome.name
        case .stats:
            isAsking = false
            observations.stats = Array(content.bytes)
            observations.samples.append(withExtendedLifetime(envelope) { ServerSample(envelope.document.root) })
        default: if observations.name.isEmpty { observations.name = "unknown" }
        }
    }
}
