import ArgumentParser
import BrokerCommandLine

struct LogCommand: AsyncParsableCommand {
    #if Replication
    private static let commands: [any ParsableCommand.Type] = [
        LogCreateCommand.self, LogStatusCommand.self, LogRemoveCommand.self, LogUpgradeCommand.self,
    ]
    private static let note = ""
    #else
    private static let commands: [any ParsableCommand.Type] = []
    private static let note = "This program was built without the trait Replication, and can do none of that."
    #endif

    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Makes and looks after the log that several servers share (brokerd --log).",
        discussion: """
            An address is nats://HOST,HOST,HOST/NAME: servers of NATS, and the name of the stream.
            \(note)
            """,
        subcommands: commands)
}
