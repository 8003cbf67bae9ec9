import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerModelSources
import BrokerSchema
import BrokerStaging
import BrokerStore

struct ModelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "model",
        abstract:
            "Checks, shows, imports, draws and changes a model, prints the SQL of its tables, compares it with a store.",
        subcommands: [
            ModelCheckCommand.self, ModelShowCommand.self, ModelImportCommand.self, ModelDiagramCommand.self,
            ModelSchemaCommand.self, ModelDiffCommand.self, ModelSwiftCommand.self, ModelSetKeyCommand.self,
            ModelRenameCommand.self, ModelRetypeCommand.self, ModelPromoteCommand.self, ModelDropCommand.self,
            ModelIgnoreCommand.self, ModelFlattenCommand.self, ModelSplitCommand.self, ModelDescribeCommand.self,
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
        help: .value("file", "Another model, which changes those before it. May be repeated."), completion: .file())
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
    func readOrComplain() throws -> Model { try files.model.readOrComplain().plan.model }

    /// Writes a text as it is, or as a member of JSON.
    func write(_ text: String, as key: String) throws {
        if json { try Program.writeObject { $0.member(key, text) } } else { try Program.write(text) }
    }
}

struct ModelCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Lists all faults of a model, with their positions in the file.")

    @OptionGroup var arguments: ModelArguments

    func run() async throws {
        guard arguments.json else {
            let model = try arguments.readOrComplain()
            /// Those that entities have and do not inherit.
            func count(_ members: KeyPath<Entity, [Int]>) -> Int {
                model.entities.reduce(0) { count, entity in
                    count + entity[keyPath: members].count
                        - (entity.parent.map { model.entities[$0][keyPath: members].count } ?? 0)
                }
            }
            let (attributes, relationships) = (count(\.attributeIndices), count(\.relationshipIndices))
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
        try Program.writeObject { writer in
            writer.member("valid", faults.isEmpty)
            writer.objects("faults", of: faults) { fault, writer in
                writer.members(of: fault.place, fault.message)
                writer.member("page", fault.page)
            }
        }
        if !faults.isEmpty { throw CommandFailure(.failed) }
    }
}

struct ModelSchemaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema", abstract: "Prints the SQL of the tables that a model becomes.")

    @OptionGroup var arguments: ModelArguments

    func run() async throws {
        try arguments.write(Schema.sql(of: try arguments.readOrComplain()), as: "sql")
    }
}

extension JSONWriter {
    /// Where something is in a model, and what is said of it.
    mutating func members(of place: ModelPlace, _ message: String) {
        member("pointer", place.pointer)
        if !place.source.isEmpty { member("file", place.source) }
        member("line", place.line)
        member("column", place.column)
        member("message", message)
    }
}

struct ModelSwiftCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "swift", abstract: "Writes Swift structs for the entities of a model.",
        discussion: """
            The structs are `BrokerRecord`s for BrokerClient and BrokerEmbedded, in the form of the model's records: \
            broker model swift model.json > Sources/App/Model.swift

            A relationship is the key of its object, or the keys of its objects. With --include it is the objects, as a fetch \
            with that `include` returns them. A text or whole number with an `enum` in the model is one in Swift.
            """)

    @OptionGroup var arguments: ModelArguments

    @Option(
        name: .customLong("entity"), parsing: .singleValue,
        help: .value(
            "name", "An entity, which is written with those that its struct needs. May be repeated. Default: all."))
    var entities: [String] = []

    @Option(
        name: .customLong("include"), parsing: .singleValue,
        help: .value("path", "Relationships that are objects: Order.lines.product. May be repeated."))
    var includes: [String] = []

    @Flag(name: .customLong("public"), help: "Declare them public.")
    var isPublic = false

    func run() async throws {
        let model = try arguments.readOrComplain()
        let source: SwiftSource
        do throws(SwiftSource.Fault) {
            source = try SwiftSource(model, entities: entities, includes: includes, isPublic: isPublic)
        } catch {
            throw CommandFailure(error.message)
        }
        try arguments.write(source.text, as: "swift")
    }
}

struct ModelDiagramCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diagram", abstract: "Draws a model as Mermaid or Graphviz text.",
        discussion: """
            Mermaid goes into Markdown as it is; for Graphviz: broker model diagram --format graphviz model.json | dot -Tsvg
            """)

    enum Format: String, CaseIterable, ExpressibleByArgument {
        case mermaid, graphviz
    }

    @OptionGroup var arguments: ModelArguments

    @Option(help: "mermaid or graphviz.")
    var format: Format = .mermaid

    func run() async throws {
        let diagram = ModelDiagram(try arguments.files.model.readOrComplain().document)
        let text = format == .mermaid ? diagram.mermaid : diagram.graphviz
        guard arguments.json else { return try Program.write(text) }
        try Program.writeObject { writer in
            writer.member("format", format.rawValue)
            writer.member("diagram", text)
        }
    }
}

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
        help: .value("file", "The model. May be repeated: each one changes those before it."), completion: .file())
    var model: [String]

    @Option(help: .value("file", "The SQLite database."), completion: .file())
    var store: String

    @OptionGroup var removal: RemovalOptions

    @Option(
        name: .customLong("migrate"),
        help: "The same as a word: refuse (the default), keep or drop, as --migrate of brokerd.")
    var policy: RemovalPolicy.Choice?

    @Flag(help: "Print the result as JSON.")
    var json = false

    mutating func validate() throws {
        guard policy == nil || !removal.isGiven else {
            throw ValidationError("--migrate does the same as --keep and --drop; give one of them.")
        }
    }

    func run() async throws {
        let plan = try ModelFile(model).planOrComplain()
        let changes = try Store.changes(
            path: store, plan: plan, removal: policy.map(RemovalPolicy.init) ?? removal.policy)
        if json {
            try StoreChange.write(changes)
        } else {
            for line in changes.flatMap(\.lines) { try Program.say(line) }
        }
        if changes.contains(where: { $0.verdict == .refused }) { throw CommandFailure(.failed) }
    }
}

struct ModelImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Makes a model.json of a Core Data model, a SQLite database or sample records.",
        discussion: """
            A Core Data model is converted as it is; several models are merged into one. From a SQLite database come \
            the tables, types, keys, unique lists and indexes. With --entity the files are sample records, from which \
            types, identity, nested entities and dates are inferred. The "description" of each part explains how it \
            was converted.
            """)

    @Option(help: "The entity of the sample records.")
    var entity: String?

    @OptionGroup var inference: InferenceOptions

    @OptionGroup var input: InputOptions

    @Option(
        name: .customLong("model"), parsing: .singleValue,
        help: .value("file", "A model that changes those before it. May be repeated."), completion: .file())
    var more: [String] = []

    @Flag(help: "Print the model on one line.")
    var json = false

    mutating func validate() throws {
        if entity == nil, input.files.isEmpty, more.isEmpty {
            throw ValidationError("A model is missing: broker model import App.xcdatamodeld")
        }
        if entity == nil, input.format.root != nil || input.format.type != nil {
            throw ValidationError("--root and --type are for sample records, which need --entity.")
        }
        if entity == nil, let option = inference.given.first {
            throw ValidationError("\(option) is for sample records, which need --entity.")
        }
        if entity != nil, !more.isEmpty {
            throw ValidationError("--model is for models, and --entity for sample records; give one of them.")
        }
    }

    func run() async throws {
        guard let entity else {
            // One that has faults would be refused wherever it is used.
            let document = try ModelFile(input.files + more).readOrComplain().document
            return try Program.say(document.described(by: document.notes), isCompact: json)
        }
        let samples = try await SampleRecords(of: input.sources.map(\.readingTables), entity: entity)
        guard samples.inference.recordCount > 0 else {
            throw CommandFailure("There is no record in the input to infer a model from.")
        }
        samples.reportRoot()
        let inferred = try samples.model(
            identities: inference.identities(or: entity), ignored: inference.ignored(or: entity), inference.nameStyle)
        try Program.say(inferred.document.root, isCompact: json)
    }
}

struct ModelShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Prints a model as JSON, with every default and key spelled out.",
        discussion: """
            The "description" of each part explains what was taken from a Core Data model, inferred or skipped; \
            --notes lists that with lines and columns instead. With --store it is the model in force of the store, which a \
            server may have open: broker model show --store app.sqlite > app.model.json
            """)

    @OptionGroup var files: ModelFiles

    @Option(help: .value("file", "The SQLite database whose model is shown."), completion: .file())
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
        if let store {
            guard let plan = try Store.planInForce(path: store) else {
                throw CommandFailure("There is no store \(store) with a model. Check the path.")
            }
            return try say(plan.model, [])
        }
        let (document, plan) = try files.model.readOrComplain()
        if notes { try say(document.notes) } else { try say(plan.model, document.notes) }
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
        try Program.writeJSON { writer in
            writer.objects(of: notes) { note, writer in
                writer.member("kind", note.kind.rawValue)
                writer.members(of: note.place, note.message)
            }
        }
    }
}

extension Program {
    /// A tree as JSON: on one line, or laid out for people.
    static func say(_ value: ModelValue, isCompact: Bool) throws {
        if isCompact { try writeJSON { value.write(to: &$0) } } else { try write(value.indentedJSON) }
    }
}
