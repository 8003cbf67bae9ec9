import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine

struct PingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ping", abstract: "Prints how long the server takes to answer.",
        discussion: """
            The time is that of a message and its answer over an open connection. Exit status 4 when there is no server, \
            or no answer in time. Without --timeout, 5 seconds.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Option(help: ArgumentHelp("Ask that many times, one after the other.", valueName: "count"))
    var count = 1

    mutating func validate() throws {
        try connection.requireServer("Only a server answers")
        try NumberOption("--count", count, in: 1...1_000_000).check()
    }

    func run() async throws {
        try await connection.connected("broker ping", defaultTimeout: .seconds(5), needsServer: true) { broker in
            do {
                let server = try await broker.serverInformation()
                for _ in 0..<count {
                    let start = ContinuousClock.now
                    try await broker.ping()
                    let time = Int64((ContinuousClock.now - start) / .microseconds(1))
                    try Program.say("\(server.name) answered in \(Shown.time(microseconds: time))")
                }
            } catch let failure as CommandFailure {
                throw failure
            } catch {
                throw CommandFailure(error)
            }
        }
    }
}
