import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore

struct ModelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "model", abstract: "Checks a model, shows it resolved, or prints the SQL of its tables.",
        subcommands: [ModelCheckCommand.self, ModelShowCommand.self, ModelSchemaCommand.self, ModelDiffCommand.self])
}

struct ModelArguments: ParsableArguments {
    @Argument(help: "The model, a JSON file; - reads standard input.", completion: .file(extensions: ["json"]))
    var file: String

    @Flag(help: "Print the result as JSON.")
    var json = false

    /// The model, whose every default, limit and pattern can be used, too.
    func read() throws(ModelError) -> Model {
        let text: JSONText
        do throws(CommandFailure) {
            text = try JSONText.file(file)
        } catch {
            throw ModelError(faults: [ModelFault(error.description, at: .unknown)])
        }
        return try StagingPlan(try ModelReader.read(text)).model
    }

    /// The model, or every fault on standard error.
    func readOrComplain() throws(CommandFailure) -> Model {
        try ModelFile(file).planOrComplain().model
    }
}

struct ModelCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Lists everything that is wrong with a model, with its place in the file.")

    @OptionGroup var arguments: ModelArguments

    func run() async throws {
        guard arguments.json else {
            let model = try arguments.readOrComplain()
            let attributes = model.entities.reduce(0) { $0 + $1.attributes.count }
            let relationships = model.entities.reduce(0) { $0 + $1.relationships.count }
            try Program.say(
                "\(arguments.file): good, \(model.entities.count) entities, \(attributes) attributes, "
                    + "\(relationships) relationships")
            return
        }
        var faults: [ModelFault] = []
        do throws(ModelError) { _ = try arguments.read() } catch { faults = error.faults }
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("valid")
            writer.bool(faults.isEmpty)
            writer.key("faults")
            writer.array { writer in
                for fault in faults { fault.write(to: &writer) }
            }
        }
        try Program.say(String(decoding: writer.bytes, as: UTF8.self))
        if !faults.isEmpty { throw CommandFailure(.failed) }
    }
}

struct ModelShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Prints a model as JSON, with every default and key spelled out.")

    @OptionGroup var arguments: ModelArguments

    func run() async throws {
        var writer = JSONWriter()
        try arguments.readOrComplain().write(to: &writer)
        try Program.say(String(decoding: writer.bytes, as: UTF8.self))
    }
}

struct ModelSchemaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema", abstract: "Prints the SQL of the tables that a model becomes.")

    @OptionGroup var arguments: ModelArguments

    func run() async throws {
        let sql = Schema(try arguments.readOrComplain()).sql
        guard arguments.json else { return try Program.say(sql) }
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("sql")
            writer.string(sql)
        }
        try Program.say(String(decoding: writer.bytes, as: UTF8.self))
    }
}

extension ModelFault {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("pointer")
            writer.string(place.pointer)
            writer.key("line")
            writer.integer(place.line)
            writer.key("column")
            writer.integer(place.column)
            writer.key("message")
            writer.string(message)
        }
    }
}
