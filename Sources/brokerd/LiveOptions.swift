import BrokerCommandLine
import BrokerModel
import BrokerServer
import Logging
import Synchronization

/// The options of a running server that a reload changes: its users, their limits, and the level of its log.
final class LiveOptions: Sendable {
    private static let names: Set = [
        "allow-user", "allow-group", "user-connections", "user-bytes-in-flight", "user-jobs-per-second", "log-level",
    ]

    /// The arguments of the options that the file and the environment have, by name.
    private typealias Configured = [String: [String]]

    private struct Options {
        let configured: Configured
        let users: UserRules
        let logLevel: Logger.Level
    }

    private struct State {
        let atStart: Configured
        var inForce: Configured
        /// The users that no server has been given yet.
        var users: UserRules?
        var server: BrokerServer?
    }

    let logLevel: LogLevel
    private let state: Mutex<State>
    /// Held while options are read: the C library looks up names of users for one thread at a time.
    private let reading = Mutex<Void>(())

    init(_ command: Brokerd) throws {
        logLevel = LogLevel(command.logLevel)
        let configured = Self.byName(try Self.configured())
        state = Mutex(State(atStart: configured, inForce: configured))
    }

    private static func configured() throws -> ProgramArguments {
        try ServerConfiguration.resolve(Array(CommandLine.arguments.dropFirst())) { Brokerd.options }
    }

    /// Those of the command line, which come last, never change.
    private static func byName(_ arguments: ProgramArguments) -> Configured {
        let changing = arguments.arguments.dropLast(CommandLine.arguments.count - 1)
        return Dictionary(grouping: changing) { String($0.dropFirst(2).prefix { $0 != "=" }) }
    }

    /// A server is there, which has the options of the start.
    func serve(_ server: BrokerServer) {
        let users = state.withLock { state in
            state.server = server
            return state.users.take()
        }
        if let users { server.use(users) }
    }

    /// One reload, which reads the options and uses them if it succeeds.
    final class Reload: Sendable {
        private let live: LiveOptions
        private let read = Mutex<Options?>(nil)

        init(_ live: LiveOptions) { self.live = live }

        /// Reads the options, and changes nothing.
        func fault() -> Fault? {
            live.reading.withLock { _ in
                do {
                    let arguments = try LiveOptions.configured()
                    let command = try Program.parse(Brokerd.self, arguments)
                    let options = Options(
                        configured: LiveOptions.byName(arguments), users: try command.users(),
                        logLevel: command.logLevel)
                    read.withLock { $0 = options }
                    return nil
                } catch {
                    return Fault(.validationFailed, "The configuration cannot be used: \(error)")
                }
            }
        }

        /// - Returns: for people, a line for each option that has changed.
        func use() -> [String] {
            guard let options = read.withLock({ $0.take() }) else { return [] }
            live.logLevel.use(options.logLevel)
            let (changed, waiting, server) = live.state.withLock { state in
                let changed = Self.names(of: options.configured, unlike: state.inForce)
                    .filter(LiveOptions.names.contains)
                let waiting = Self.names(of: options.configured, unlike: state.atStart)
                    .filter { !LiveOptions.names.contains($0) }
                state.inForce = options.configured
                if state.server == nil { state.users = options.users }
                return (changed, waiting, state.server)
            }
            server?.use(options.users)
            return changed.map { "The option \($0) has changed, and is in effect." }
                + waiting.map { "The option \($0) has changed, and takes effect at the next start." }
        }

        private static func names(of one: Configured, unlike other: Configured) -> [String] {
            Set(one.keys).union(other.keys).filter { one[$0] != other[$0] }.sorted()
        }
    }
}
