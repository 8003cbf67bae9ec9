import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore

struct ModelShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Prints a model as JSON, with every default and key spelled out.",
        discussion: """
            The "description" of each part explains what was taken from a Core Data model, inferred or skipped; \
            --notes lists that with lines and columns instead. With --store it is the model in force of the store, which a \
            server may have open: broker model show --store app.sqlite > app.model.json
            """)

    @OptionGroup var files: ModelFiles

    @Option(
        help: ArgumentHelp("The SQLite database whose model is shown.", valueName: "file"), completion: .file())
    var store: String?

    @Flag(help: "Print the model on one line.")
    var json = false

    @Flag(help: "List what was taken, inferred, skipped and ignored, with lines and columns, not the model.")
    var notes = false

    func validate() throws {
        guard files.all.isEmpty == (store != nil) else {
            throw ValidationError("Give a model, or the store that has one: broker model show --store app.sqlite")
        }
        guard store == nil || !notes else {
            throw ValidationError("--notes is for models that are read from files; a store keeps descriptions alone.")
        }
    }

    func run() async throws {
        if let store { return try say(try Self.modelInForce(store), []) }
        let (document, plan) = try files.model.readOrComplain()
        if notes { try say(document.notes) } else { try say(plan.model, document.notes) }
    }

    private static func modelInForce(_ store: String) throws(CommandFailure) -> Model {
        do throws(StoreError) {
            if let plan = try Store.planInForce(path: store) { return plan.model }
        } catch {
            throw CommandFailure(.failed, error.message)
        }
        throw CommandFailure(.failed, "There is no store \(store) with a model. Check the path.")
    }

    private func say(_ model: Model, _ notes: [ModelNote]) throws {
        var writer = JSONWriter()
        model.write(to: &writer)
        if json, notes.isEmpty { return try Program.write(String(decoding: writer.bytes, as: UTF8.self)) }
        let resolved = try ModelDocument(parsing: JSONText(copying: writer.bytes))
        try Program.say(resolved.described(by: notes), isCompact: json)
    }

    private func say(_ notes: [ModelNote]) throws {
        guard json else {
            for note in notes { try Program.say(note.description) }
            return
        }
        var writer = JSONWriter()
        writer.array { writer in
            for note in notes {
                writer.object { writer in
                    writer.member("kind", note.kind.rawValue)
                    writer.members(of: note.place, note.message)
                }
            }
        }
        try Program.write(String(decoding: writer.bytes, as: UTF8.self))
    }
}

extension Program {
    /// A tree as JSON: on one line, or laid out for people.
    static func say(_ value: ModelValue, isCompact: Bool) throws {
        guard isCompact else { return try write(value.indentedJSON) }
        var writer = JSONWriter()
        value.write(to: &writer)
        try write(String(decoding: writer.bytes, as: UTF8.self))
    }
}
