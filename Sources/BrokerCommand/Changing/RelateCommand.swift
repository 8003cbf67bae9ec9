import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput
import BrokerJSON

struct RelateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relate",
        abstract: "Gives a relationship of one object a value.",
        discussion: """
            The value is what a record would hold at the relationship: an object or a key, for a to-many an array of \
            them, or null, which ends the links. It comes from --to, a file or standard input, as one JSON value. The \
            object must exist. Keys are JSON, or else text; a compound one is an object, and where objects may lack an \
            identity it is the _pk.
            For example: broker relate --entity Employee --object 3 --relationship department --to 7
            Or: echo '{"id": 7, "name": "R&D"}' | broker relate --entity Employee --object 3 --relationship department
            """)

    @OptionGroup var options: OperationOptions

    @Option(parsing: .unconditional, help: ArgumentHelp("The object's key.", valueName: "key"))
    var object: CommandValue

    @Option(help: ArgumentHelp("The relationship's name in the model.", valueName: "name"))
    var relationship: String

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The value, such as a key: JSON, or else text.", valueName: "value"))
    var to: CommandValue?

    @Argument(help: "A file with the value; none or - is standard input.", completion: .file())
    var file: String?

    mutating func validate() throws {
        if to != nil, file != nil { throw ValidationError("The value comes from --to or from a file, not from both.") }
    }

    func run() async throws {
        let value = try to?.json ?? read(file ?? "-")
        try await options.run(
            .relate(value, relationship: relationship, object: object.json), named: "broker relate",
            readsStandardInput: to == nil && file ?? "-" == "-", at: { _ in nil })
    }

    private func read(_ path: String) throws(CommandFailure) -> RawJSON {
        let text = try JSONText.file(path)
        let value = InputRecord(json: Array(text.bytes), place: InputPlace())
        if let fault = value.fault {
            throw CommandFailure(.failed, fault.sentence(in: path == "-" ? "standard input" : path))
        }
        return RawJSON(value.json)
    }
}

extension InputFault {
    /// The fault, when nothing of the input is sent because of it.
    func sentence(in name: String) -> String {
        guard let place else { return "\(name) \(reason)" }
        return "\(name), \(place): \(text); nothing was sent"
    }
}
