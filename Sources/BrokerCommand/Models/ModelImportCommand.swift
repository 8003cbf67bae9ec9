import ArgumentParser
import BrokerCommandLine
import BrokerModelSources
import BrokerJSON
import BrokerModel

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
        help: ArgumentHelp(
            "A model that changes those before it. May be repeated.", valueName: "file"), completion: .file())
    var more: [String] = []

    @Flag(help: "Print the model on one line.")
    var json = false

    mutating func validate() throws {
        if entity == nil, input.files.isEmpty, more.isEmpty {
            throw ValidationError("A model is missing: broker model import App.xcdatamodeld")
        }
        if entity == nil, input.root != nil || input.type != nil {
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
        let samples = try await SampleRecords(of: input.sources, entity: entity, limits: .samples)
        guard samples.inference.recordCount > 0 else {
            throw CommandFailure(.failed, "There is no record in the input to infer a model from.")
        }
        samples.reportRoot()
        let text = try samples.model(
            identities: inference.identities(or: entity), ignored: inference.ignored(or: entity)
        ).text
        let document = try InferredMark.marked(ModelDocument(parsing: JSONText(copying: Array(text.utf8))))
        try Program.say(document.root, isCompact: json)
    }
}
