import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerStaging

struct ModelShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Prints a model as JSON, with every default and key spelled out.",
        discussion: """
            The "description" of each part explains what was taken from a Core Data model, inferred or skipped; \
            --notes lists that with lines and columns instead.
            """)

    @OptionGroup var arguments: ModelArguments

    @Flag(help: "List what was taken, inferred, skipped and ignored, with lines and columns, not the model.")
    var notes = false

    func run() async throws {
        let (document, plan) = try arguments.files.model.readOrComplain()
        guard !notes else { return try say(document.notes) }
        var writer = JSONWriter()
        plan.model.write(to: &writer)
        if arguments.json, document.notes.isEmpty {
            return try Program.write(String(decoding: writer.bytes, as: UTF8.self))
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
