import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON
import BrokerWire
import Glibc

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

    init(to path: String) throws(CommandFailure) {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw CommandFailure(.cannotConnect, "The socket's path \(path) is longer than a Unix socket's may be.")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
        }
        guard result == 0 else {
            throw CommandFailure(
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
    func receive(_ body: (JSONText) throws -> Void) throws {
        let count = incoming.withUnsafeMutableBytes {
            recv(descriptor, $0.baseAddress! + received, $0.count - received, 0)
        }
        if count < 0, Self.isBlocked { return }
        guard count > 0 else {
            isClosed = true
            return
        }
        received += count
        let (start, wanted) = try readFrames(body)
        let left = received - start
        if start > 0 {
            incoming.withUnsafeMutableBytes { bytes in
                bytes.baseAddress!.copyMemory(from: bytes.baseAddress! + start, byteCount: left)
            }
            received = left
        }
        // A frame that is larger than the buffer, or the next bytes at least.
        let needed = max(wanted, received + 1)
        if needed > incoming.count { incoming.append(contentsOf: repeatElement(0, count: needed - incoming.count)) }
    }

    /// - Returns: where the first frame begins that is not whole, and the bytes that it has as far as that is known.
    private func readFrames(_ body: (JSONText) throws -> Void) throws -> (start: Int, wanted: Int) {
        var start = 0
        return try incoming.withUnsafeBytes { bytes in
            while true {
                let rest = UnsafeRawBufferPointer(rebasing: bytes[start..<received])
                switch try FrameScanner.scan(rest) {
                case .incomplete(let total): return (start, total ?? 0)
                case .frame(let payload):
                    try body(try decoder.decode(UnsafeRawBufferPointer(rebasing: rest[payload])))
                    start += payload.upperBound
                }
            }
        }
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

/// A server as a run saw it.
struct ServerObservations: Sendable {
    var process: Int32?
    var before: ProcessUsage?
    var after: ProcessUsage?
    /// The `stats` after the run as JSON text; nil when there was none.
    var stats: [UInt8]?
}

/// A connection of its own on which the server is asked how it is.
final class ServerWatch {
    private let connection: LoadConnection
    private(set) var observations = ServerObservations()

    init(_ socketPath: String) throws {
        connection = try LoadConnection(to: socketPath)
        observations.process = connection.peerProcess
        guard try ask(MessageWriter.hello(client: "brokerload"), for: "welcome") != nil else {
            throw CommandFailure(.cannotConnect, "The server closed the connection; see its log.")
        }
    }

    /// The measured time begins.
    func begin() { observations.before = observations.process.flatMap(ProcessUsage.init(of:)) }

    /// It has ended. A server that is gone says nothing of itself; the run reports its lost jobs.
    func end() throws {
        observations.after = observations.process.flatMap(ProcessUsage.init(of:))
        observations.stats = try ask(MessageWriter.message("stats") { _ in }, for: "stats")
    }

    private func ask(_ message: [UInt8], for type: String) throws -> [UInt8]? {
        var encoder = FrameEncoder()
        connection.enqueue(try encoder.encode(message))
        let deadline = monotonicNanoseconds() + 10_000_000_000
        var answer: [UInt8]?
        while answer == nil, !connection.isClosed, monotonicNanoseconds() < deadline {
            connection.flush()
            var poll = pollfd(fd: connection.descriptor, events: Int16(POLLIN), revents: 0)
            Glibc.poll(&poll, 1, 1_000)
            try connection.receive { content in
                try JSONDocument(fast: content).withRoot { root in
                    if root["type"]?.string == type { answer = Array(content.bytes) }
                }
            }
        }
        guard answer != nil || connection.isClosed else {
            throw CommandFailure("The server does not send its `\(type)` within ten seconds.")
        }
        return answer
    }
}

/// An answer of the server's, as far as it is measured.
struct LoadAnswer: Sendable, Equatable {
    enum Kind: Sendable, Equatable {
        case accepted
        case completed
        /// `failed`, or an `error`.
        case failed(code: String, message: String)
        /// One to a message that is no job.
        case other
    }

    /// The number of the job in this run; nil for an answer to anything else.
    var job: Int?
    var kind: Kind
}

extension LoadAnswer {
    init(_ content: JSONText, idPrefix: String) throws {
        let document = try JSONDocument(fast: content)
        defer { withExtendedLifetime(document) {} }
        let root = document.root
        guard let type = root["type"]?.string else { throw CommandFailure("It has no type.") }
        switch type {
        case "completed": kind = .completed
        case "accepted": kind = .accepted
        case "failed", "error":
            let code = root["error"]?["code"]?.string ?? ""
            kind = .failed(code: code, message: "\(code): \(root["error"]?["message"]?.string ?? "")")
        default: kind = .other
        }
        if let id = root["id"]?.string, id.hasPrefix(idPrefix) { job = Int(id.dropFirst(idPrefix.count)) }
    }
}
