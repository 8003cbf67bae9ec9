import BrokerSchema
import ArgumentParser
import BrokerCommandLine
import BrokerStore

struct ModelDiffCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff", abstract: "Shows how opening a store with a model would change the store.",
        discussion: """
            Prints a line for each change: `migrated` (nothing is lost), `kept` (it stays in the file, unused), `dropped`, \
            or `refused`, with the remedy; then what is lost by it. Nothing is printed when the store fits. The status is \
            1 when anything is refused: the store would not be opened. The store is only read. `broker migrate` makes the \
            changes.
            """)

    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            "The model. May be repeated: each one changes those before it.",
            valueName: "file"), completion: .file())
    var model: [String]

    @Option(help: ArgumentHelp("The SQLite database.", valueName: "file"), completion: .file())
    var store: String

    @OptionGroup var removal: RemovalOptions

    @Option(
        name: .customLong("migrate"),
        help: "The same as a word: refuse (the default), keep or drop, as --migrate of brokerd.")
    var policy: RemovalPolicy?

    @Flag(help: "Print the result as JSON.")
    var json = false

    mutating func validate() throws {
        guard policy == nil || removal.choice == nil else {
            throw ValidationError("--migrate does the same as --keep and --drop; give one of them.")
        }
    }

    func run() async throws {
        let plan = try ModelFile(model).planOrComplain()
        let changes: [StoreChange]
        do throws(StoreError) {
            changes = try Store.changes(path: store, plan: plan, removal: policy ?? removal.policy)
        } catch {
            throw CommandFailure(.failed, error.message)
        }
        if json {
            try Program.write(StoreChange.json(changes))
        } else {
            for line in changes.flatMap(\.lines) { try Program.say(line) }
        }
        if changes.contains(where: { $0.verdict == .refused }) { throw CommandFailure(.failed) }
    }
}
