internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerWire
internal import NIOCore
internal import Synchronization

/// What a client did since it connected, for the operator. Any thread may call.
final class ClientActivity: Sendable {
    struct State: Sendable {
        /// The name that it said in `hello`.
        var name: String?
        var jobs = 0
        var endedJobs = 0
        var failedJobs = 0
        /// The error of the last message that was refused or failed, as JSON, and when that was.
        var lastError: (error: [UInt8], at: Int64)?
    }

    let connectedAt = wallClockMilliseconds()
    private let state = Mutex(State())

    var now: State { state.withLock { $0 } }

    var name: String? { state.withLock { $0.name } }

    func saidHello(_ name: String?) { state.withLock { $0.name = name?.briefly } }

    func beganJob() { state.withLock { $0.jobs += 1 } }

    func ended(_ outcome: JobCompletion) {
        guard case .failed(let error) = outcome.result else { return state.withLock { $0.endedJobs += 1 } }
        let now = wallClockMilliseconds()
        state.withLock { state in
            state.endedJobs += 1
            state.failedJobs += 1
            state.lastError = (error, now)
        }
    }

    func refused(_ error: WireError) {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("code", error.code.rawValue)
            writer.member("message", error.message)
        }
        let now = wallClockMilliseconds()
        state.withLock { [bytes = writer.bytes] in $0.lastError = (bytes, now) }
    }
}

extension ConnectionSet {
    /// Bytes of the list after which it has no more connections.
    private static let longestList = 1 << 20

    /// Writes the connections that have a place, in the order in which they came.
    func writeClients(to writer: inout JSONWriter) {
        writer.array("clients") { writer in
            for handler in numbered where writer.bytes.count < Self.longestList {
                writer.object { write(handler, to: &$0) }
            }
        }
    }

    private func write(_ handler: FrameHandler, to writer: inout JSONWriter) {
        guard let connection = handler.connection else { return }
        let (activity, state) = (connection.activity, connection.activity.now)
        writer.member("connection", handler.number ?? 0)
        writer.member("client", state.name)
        writer.member("user", Int(handler.peer.user))
        writer.member("process", Int(handler.peer.process))
        writer.member("role", connection.role.rawValue)
        writer.member("connectedAt", activity.connectedAt)
        writer.member("jobs", state.jobs)
        writer.member("failed", state.failedJobs)
        writer.member("inFlight", state.jobs - state.endedJobs)
        writer.member("receivedBytes", handler.receivedBytes)
        writer.member("unreadBytes", connection.bytes)
        writer.member("limit", handler.limit)
        guard let error = state.lastError else { return }
        writer.member("failedAt", error.at)
        writer.member("error", raw: error.error)
    }

    /// Ends a connection, or those of a user.
    ///
    /// - Parameter own: the connection of the operator, which goes on.
    /// - Returns: how many were ended.
    func kick(_ message: KickMessage, except own: FrameHandler) -> Int {
        let kicked = numbered.filter { handler in
            handler !== own && (message.connection == handler.number || message.user == handler.peer.user)
        }
        for handler in kicked { handler.cutOff("the operator ended its connection") }
        return kicked.count
    }
}
