import ArgumentParser
import BrokerClient
import BrokerCommandLine
import Glibc

/// Where the server is.
struct ConnectionOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The server's Unix socket. Default: the environment's BROKER_SOCKET, else broker.sock in this folder.",
            valueName: "path"), completion: .file())
    var socket: String = getenv("BROKER_SOCKET").map { String(cString: $0) } ?? "broker.sock"

    @Option(
        help: ArgumentHelp(
            "How long to try again when the connection is lost, before what is unanswered is given up.",
            valueName: "seconds"))
    var patience = 30

    mutating func validate() throws {
        try NumberOption("--patience", patience, in: 0...86_400).check()
    }

    func connect(_ name: String, jobsInFlight: Int = 64) async throws(CommandFailure) -> BrokerClient {
        var options = BrokerClient.Options(clientName: name)
        options.maximumJobsInFlight = jobsInFlight
        options.reconnectDeadline = .seconds(patience)
        do {
            return try await BrokerClient.connect(to: socket, options: options)
        } catch {
            throw CommandFailure(.cannotConnect, "\(error)")
        }
    }
}

extension CommandFailure {
    /// The status that the contract gives an error of the client library.
    init(_ error: any Error) {
        switch error {
        case BrokerError.cannotConnect, BrokerError.connectionLost: self.init(.cannotConnect, "\(error)")
        default: self.init(.failed, "\(error)")
        }
    }
}
