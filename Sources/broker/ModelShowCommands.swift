import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerStaging

struct ModelShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Prints a model as JSON, with every default and key spelled out.",
        discussion: """
            What was taken from a Core Data model, inferred or left out stands beside each part as its "description"; \
            --notes lists it with lines and columns instead.
            """)

    @OptionGroup var arguments: ModelArguments

    @Flag(help: "List what was taken, inferred, left out and passed over, and where, instead of the model.")
    var notes = false

    func run() async throws {
        let (document, plan) = try arguments.files.model.readOrComplain()
        guard !notes else { return try say(document.notes) }
        var writer = JSONWriter()
        plan.model.write(to: &writer)
        if arguments.json, document.notes.isEmpty {
            return try Program.say(String(decoding: writer.bytes, as: UTF8.self))
        }
        let resolved = try ModelDocument(parsing: JSONText(copying: writer.bytes))
        try Program.say(resolved.described(by: document.notes), isCompact: arguments.json)
    }

    private func say(_ notes: [ModelNote]) throws {
        guard arguments.json else {
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
        try Program.say(String(decoding: writer.bytes, as: UTF8.self))
    }
}

struct ModelImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Prints a Core Data model as a model.json to go on with.",
        discussion: """
            It says what the Core Data model says and no more; what was decided on the way stands beside each part as its \
            "description". Several models are merged into one.
            """)

    @OptionGroup var arguments: ModelArguments

    func run() async throws {
        // One that has faults would be refused wherever it is used.
        let document = try arguments.files.model.readOrComplain().document
        try Program.say(document.described(by: document.notes), isCompact: arguments.json)
    }
}

extension Program {
    /// A tree as JSON: on one line, or laid out for people.
    fileprivate static func say(_ value: ModelValue, isCompact: Bool) throws {
        guard isCompact else { return try say(value.indentedJSON) }
        var writer = JSONWriter()
        value.write(to: &writer)
        try say(String(decoding: writer.bytes, as: UTF8.self))
    }
}
