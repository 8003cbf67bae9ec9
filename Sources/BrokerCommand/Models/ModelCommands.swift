import BrokerSchema
import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore

struct ModelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "model",
        abstract: "Checks, shows, imports and draws a model, prints the SQL of its tables, compares it with a store.",
        subcommands: [
            ModelCheckCommand.self, ModelShowCommand.self, ModelImportCommand.self, ModelDiagramCommand.self,
            ModelSchemaCommand.self, ModelDiffCommand.self, ModelSwiftCommand.self,
        ])
}

/// The files of a model; the first may be given without `--model`.
struct ModelFiles: ParsableArguments {
    @Argument(
        help: "The model: a JSON file, .xcdatamodeld or .xcdatamodel; - reads JSON from standard input.",
        completion: .file())
    var file: String?

    @Option(
        name: .customLong("model"), parsing: .singleValue,
        help: ArgumentHelp(
            "Another model, which changes those before it. May be repeated.",
            valueName: "file"), completion: .file())
    var more: [String] = []

    var all: [String] { (file.map { [$0] } ?? []) + more }

    var model: ModelFile { ModelFile(all) }
}

struct ModelArguments: ParsableArguments {
    @OptionGroup var files: ModelFiles

    @Flag(help: "Print the result as JSON.")
    var json = false

    mutating func validate() throws {
        guard !files.all.isEmpty else { throw ValidationError("A model is missing: broker model check model.json") }
    }

    /// The model, or every fault on standard error.
    func readOrComplain() throws(CommandFailure) -> Model {
        try files.model.readOrComplain().plan.model
    }
}

struct ModelCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Lists all faults of a model, with their positions in the file.")

    @OptionGroup var arguments: ModelArguments

    func run() async throws {
        guard arguments.json else {
            let model = try arguments.readOrComplain()
            let attributes = model.entities.reduce(0) { $0 + $1.attributes.count }
            let relationships = model.entities.reduce(0) { $0 + $1.relationships.count }
            try Program.say(
                "\(arguments.files.model.name): good, \(Program.counted(model.entities.count, "entity", "entities")), "
                    + "\(Program.counted(attributes, "attribute")), \(Program.counted(relationships, "relationship"))")
            return
        }
        var faults: [ModelFault] = []
        do throws(ModelError) {
            // Every default, limit and pattern can be used, too.
            _ = try StagingPlan(try ModelReader.read(try arguments.files.model.document()))
        } catch {
            faults = error.faults
        }
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("valid")
            writer.bool(faults.isEmpty)
            writer.key("faults")
            writer.array { writer in
                for fault in faults {
                    writer.object { writer in writer.members(of: fault.place, fault.message) }
                }
            }
        }
        try Program.write(String(decoding: writer.bytes, as: UTF8.self))
        if !faults.isEmpty { throw CommandFailure(.failed) }
    }
}

struct ModelSchemaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema", abstract: "Prints the SQL of the tables that a model becomes.")

    @OptionGroup var arguments: ModelArguments

    func run() async throws {
        let sql = Schema.sql(of: try arguments.readOrComplain())
        guard arguments.json else { return try Program.write(sql) }
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("sql")
            writer.string(sql)
        }
        try Program.write(String(decoding: writer.bytes, as: UTF8.self))
    }
}

extension JSONWriter {
    /// Where something is in a model, and what is said of it.
    mutating func members(of place: ModelPlace, _ message: String) {
        key("pointer")
        string(place.pointer)
        if !place.source.isEmpty {
            key("file")
            string(place.source)
        }
        key("line")
        integer(place.line)
        key("column")
        integer(place.column)
        key("message")
        string(message)
    }
}
