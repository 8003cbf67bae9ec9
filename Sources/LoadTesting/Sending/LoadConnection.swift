internal import BrokerJSON
internal import BrokerWire
internal import Glibc

/// A connection of the load's, which never blocks: bytes that wait to be sent, and answers as they come. Belongs to the thread
/// that made it.
final class LoadConnection {
    private static let receiveBytes = 256 << 10

    let descriptor: Int32
    /// Jobs without an end.
    var inFlight = 0
    /// No answer comes any more.
    private(set) var isClosed = false
    /// The server takes nothing more; answers that it sent before can still be read.
    private var isSendingOver = false

    private var outgoing: [UInt8] = []
    private var sent = 0
    private var incoming = [UInt8](repeating: 0, count: receiveBytes)
    private var received = 0
    private var decoder = FrameDecoder()

    /// - Throws: `cannotConnect` with what the system says.
    init(to path: String) throws(LoadError) {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
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
        guard result == 0 else {
            throw LoadError(
                .cannotConnect,
                "There is no server at \(path): \(String(cString: strerror(errno))). Start brokerd, or name its --socket."
            )
        }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    }

    deinit { close(descriptor) }

    var canSend: Bool { !isSendingOver && !isClosed }
    var wantsToSend: Bool { sent < outgoing.count && canSend }

    func enqueue(_ bytes: some Collection<UInt8>) { outgoing.append(contentsOf: bytes) }

    /// Sends what the socket takes.
    func flush() {
        while wantsToSend {
            let count = outgoing.withUnsafeBytes {
                send(descriptor, $0.baseAddress! + sent, $0.count - sent, Int32(MSG_NOSIGNAL))
            }
            if count >= 0 { sent += count } else if Self.isBlocked { return } else { isSendingOver = true }
        }
        outgoing.removeAll(keepingCapacity: true)
        sent = 0
    }

    /// Nothing more can be had or taken now.
    private static var isBlocked: Bool { errno == EAGAIN || errno == EINTR }

    /// Reads once, and calls `body` with the content of every whole frame.
    func receive(_ body: (JSONText) throws(WireError) -> Void) throws(WireError) {
        let count = incoming.withUnsafeMutableBytes {
            recv(descriptor, $0.baseAddress! + received, $0.count - received, 0)
        }
        if count < 0, Self.isBlocked { return }
        guard count > 0 else {
            isClosed = true
            return
        }
        received += count
        try readFrames(body)
    }

    private func readFrames(_ body: (JSONText) throws(WireError) -> Void) throws(WireError) {
        var (start, wanted) = (0, 0)
        try incoming.withUnsafeBufferPointer { bytes throws(WireError) in
            while true {
                let rest = UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: bytes[start..<received]))
                switch try FrameScanner.scan(rest) {
                case .incomplete(let total):
                    wanted = total ?? 0
                    return
                case .frame(let payload):
                    try body(try decoder.decode(UnsafeRawBufferPointer(rebasing: rest[payload])))
                    start += payload.upperBound
                }
            }
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

/// A connection of its own on which the server is asked who and how it is.
final class ServerWatch {
    private let connection: LoadConnection
    private(set) var observations = ServerObservations()

    init(_ socketPath: String) throws(LoadError) {
        connection = try LoadConnection(to: socketPath)
        observations.process = connection.peerProcess
        try ask(MessageWriter.hello(client: "brokerload")) { !$0.name.isEmpty }
        guard !connection.isClosed else {
            throw LoadError(.cannotConnect, "The server closed the connection; see its log.")
        }
    }

    /// The measured time begins.
    func begin() { observations.before = observations.process.flatMap(ProcessUsage.init(of:)) }

    /// It has ended. A server that is gone says nothing of itself; the run reports its lost jobs.
    func end() throws(LoadError) {
        observations.after = observations.process.flatMap(ProcessUsage.init(of:))
        try ask(MessageWriter.message("stats") { _ in }) { $0.stats != nil }
    }

    private func ask(_ message: [UInt8], until isAnswered: (ServerObservations) -> Bool) throws(LoadError) {
        do throws(WireError) {
            var encoder = FrameEncoder()
            connection.enqueue(try encoder.encode(message))
            let deadline = monotonicNanoseconds() + 10_000_000_000
            while !isAnswered(observations), !connection.isClosed, monotonicNanoseconds() < deadline {
                connection.flush()
                var poll = pollfd(fd: connection.descriptor, events: Int16(POLLIN), revents: 0)
                Glibc.poll(&poll, 1, 1_000)
                try connection.receive { content throws(WireError) in try read(content) }
            }
        } catch {
            throw LoadError(.failed, error.message)
        }
        guard isAnswered(observations) || connection.isClosed else {
            throw LoadError(.failed, "The server does not answer `stats` within ten seconds.")
        }
    }

    private func read(_ content: JSONText) throws(WireError) {
        switch try ServerEnvelope.decode(parsing: content).message {
        case .welcome(let welcome): observations.name = welcome.name
        case .stats: observations.stats = Array(content.bytes)
        default: if observations.name.isEmpty { observations.name = "unknown" }
        }
    }
}
