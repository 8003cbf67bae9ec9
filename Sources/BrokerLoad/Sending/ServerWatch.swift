internal import BrokerJSON
internal import BrokerWire
internal import Glibc

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
        case .welcome(let welcome): observations.name = welcome.server
        case .stats:
            isAsking = false
            observations.stats = Array(content.bytes)
            observations.samples.append(withExtendedLifetime(envelope) { ServerSample(envelope.document.root) })
        default: if observations.name.isEmpty { observations.name = "unknown" }
        }
    }
}
