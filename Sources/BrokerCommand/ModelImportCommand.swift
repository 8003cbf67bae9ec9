import ArgumentParser
import BrokerCommandLine
import BrokerModelSources
import BrokerModel

struct ModelImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Prints what is there already as a model.json to go on with.",
        discussion: """
            Of a Core Data model it says what that says and no more; several models are merged into one. Of a \
            SQLite database it takes tables, types, keys, unique lists and indexes. With --entity the files are sample records, of which types, identity, nested entities and dates are inferred. What was decided \
            on the way stands beside each part as its "description".
            """)

    @Option(help: "The entity that sample records are of.")
    var entity: String?

    @OptionGroup var input: InputOptions

    @Option(
        name: .customLong("model"), parsing: .singleValue,
        help: ArgumentHelp(
            "A model that changes what those before it say. May be repeated.", valueName: "file"), completion: .file())
    var more: [String] = []

    @Flag(help: "Print the model on one line.")
    var json = false

    mutating func validate() throws {
        if entity == nil, input.files.isEmpty, more.isEmpty {
            throw ValidationError("A model is missing: broker model import App.xcdatamodeld")
        }
        if entity == nil, input.root != nil || input.type != nil {
            throw ValidationError("--root and --type are for sample records, and --entity says what these are.")
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
        let samples = try await SampleRecords(of: input.sources, entity: entity, limit: nil)
        guard samples.inference.recordCount > 0 else {
            throw CommandFailure(.failed, "There is no record in the input to infer a model from.")
        }
        samples.tellRoot()
        try Program.say(samples.document.root, isCompact: json)
    }
}
