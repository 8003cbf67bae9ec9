import ArgumentParser
import BrokerCommandLine

#if Replication
struct LogCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Makes and looks after the log that several servers share (brokerd --log).",
        discussion: """
            An address is nats://HOST,HOST,HOST/NAME: servers of NATS, and the name of the stream. See protocol/replicas.md.
            """,
        subcommands: [
            LogCreateCommand.self, LogStatusCommand.self, LogRemoveCommand.self, LogUpgradeCommand.self,
        ])
}
#else
struct LogCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Makes and looks after the log that several servers share. Not in this program: see there.",
        discussion: "This program was built without the trait Replication.")

    @Argument(parsing: .allUnrecognized)
    var rest: [String] = []

    func run() async throws {
        throw CommandFailure(
            .failed,
            "This program was built without the trait Replication, and cannot reach a log that several servers share. Build it with "
                + "`swift build --traits Replication`.")
    }
}
#endif
