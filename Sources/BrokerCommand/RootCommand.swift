import ArgumentParser
import BrokerCommandLine

@main
struct RootCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "broker",
        abstract:
            "Talks to a brokerd: submits, relates, syncs, deletes and fetches objects, asks for outcomes, operates it, checks models.",
        discussion: """
            Data goes to standard output, everything else to standard error. Exit status: 0 when all that was asked for \
            is committed, 1 failed, 2 wrong arguments, 3 committed with rejected records, 4 no connection.
            Without a server: --store FILE --model MODEL instead of --socket opens the database in this process.
            """,
        subcommands: [
            SubmitCommand.self, RelateCommand.self, SyncCommand.self, DeleteCommand.self, FetchCommand.self,
            WatchCommand.self, AwaitCommand.self, CancelCommand.self, StatsCommand.self, AdminCommand.self,
            BackupCommand.self, RestoreCommand.self, ModelCommand.self, FrameCommand.self, UnframeCommand.self,
        ])

    static func main() async {
        Allocator.giveBackWhatIsFree()
        await Program.run(RootCommand.self)
    }
}
