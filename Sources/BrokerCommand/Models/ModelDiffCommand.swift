import BrokerSchema
import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerStore

struct ModelDiffCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff", abstract: "Shows how opening a store with a model would change the store.",
        discussion: """
            Prints a line for each change: `migrated` (nothing is lost), `kept` (it stays in the file, unused), `dropped`, \
            or `refused`, with the remedy. Nothing is printed when the store fits. The status is 1 when anything is \
            refused: the store would not be opened. The store is only read.
            """)

    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            "The model. May be repeated: each one changes those before it.",
            valueName: "file"), completion: .file())
    var model: [String]

    @Option(help: ArgumentHelp("The SQLite database.", valueName: "file"), completion: .file())
    var store: String

    @Option(
        name: .customLong("migrate"),
        help: "What would happen to tables and columns that the model no longer has: refuse, keep or drop.")
    var removal: RemovalPolicy = .refuse

    @Flag(help: "Print the result as JSON.")
    var json = false

    func run() async throws {
        let plan = try ModelFile(model).planOrComplain()
        let changes: [StoreChange]
        do throws(StoreError) {
            changes = try Store.changes(path: store, plan: plan, removal: removal)
        } catch {
            throw CommandFailure(.failed, error.message)
        }
        if json {
            try Program.write(Self.json(changes))
        } else {
            for change in changes { try Program.say("\(change.verdict.rawValue): \(change.line)") }
        }
        if changes.contains(where: { $0.verdict == .refused }) { throw CommandFailure(.failed) }
    }

    private static func json(_ changes: [StoreChange]) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("opens")
            writer.bool(!changes.contains { $0.verdict == .refused })
            writer.key("changes")
            writer.array { writer in
                for change in changes { change.write(to: &writer) }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

extension StoreChange {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.object { writer in
            let members = [
                ("change", verdict.rawValue), ("subject", subject), ("message", text), ("remedy", remedy),
            ]
            for case let (key, value?) in members {
                writer.key(key)
                writer.string(value)
            }
        }
    }
}
