import ArgumentParser
import BrokerCommandLine
import BrokerModel

@main
struct RootCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "broker",
        abstract:
            "Talks to a brokerd: submits, relates, syncs, deletes and fetches objects, asks for outcomes, operates it, checks models.",
        discussion: """
            Data goes to standard output, everything else to standard error.
            \(ExitStatus.explanation())
            Without a server: --store FILE --model MODEL instead of --socket opens the database in this process.
            \(OptionUnits.explanation)
            """,
        version: BrokerVersion.text,
        subcommands: [
            SubmitCommand.self, LoadCommand.self, RelateCommand.self, AdjustCommand.self, SyncCommand.self,
            DeleteCommand.self,
            FetchCommand.self, QueryCommand.self, UndoCommand.self, WatchCommand.self, AwaitCommand.self,
            CancelCommand.self,
            EntitiesCommand.self,
            JobsCommand.self, RejectsCommand.self, ClientsCommand.self, KickCommand.self,
            StatsCommand.self, TopCommand.self, HealthCommand.self, PingCommand.self, ConsoleCommand.self,
            ExporterCommand.self, AdminCommand.self,
            MigrateCommand.self, BackupCommand.self, RestoreCommand.self, LogCommand.self, ModelCommand.self,
            FrameCommand.self, UnframeCommand.self,
        ])

    static func main() async {
        Allocator.releaseFreeMemory()
        await Program.run(RootCommand.self) { ProgramArguments(RemovalOptions.completed($0)) }
    }
}
