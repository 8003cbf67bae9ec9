import ArgumentParser
import Broker
import BrokerCommandLine
import BrokerJSON

struct AdjustCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "adjust",
        abstract: "Changes attributes of one object by their stored values.",
        discussion: """
            --increment adds to a number, --append to the end of a text or an array. The object must exist. Keys and values \
            are JSON, or else text. With an --id, the same command changes the object once.
            For example: broker adjust Account 7 --increment balance=-10 --append log='paid 10' --expect 'balance >= 10'
            """)

    /// An attribute, and what it is changed by.
    struct Change: ExpressibleByArgument {
        let attribute: String
        let value: CommandValue

        init?(argument: String) {
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2, !parts[0].isEmpty, let value = CommandValue(argument: parts[1]) else { return nil }
            (attribute, self.value) = (parts[0], value)
        }

        static func json(_ changes: [Change]) -> RawJSON? {
            guard !changes.isEmpty else { return nil }
            var writer = JSONWriter()
            writer.object { writer in
                for change in changes { writer.member(change.attribute, raw: change.value.json.bytes) }
            }
            return RawJSON(writer.bytes)
        }
    }

    @OptionGroup var options: OperationOptions

    @Option(help: .value("attribute=number", "Add to the attribute. May be given several times."))
    var increment: [Change] = []

    @Option(help: .value("attribute=value", "Add to the end of the attribute. May be given several times."))
    var append: [Change] = []

    @OptionGroup var condition: ExpectationOptions

    @Argument(help: "The key of the object; before it the entity, in the place of --entity.")
    var keys: [CommandValue] = []

    mutating func validate() throws {
        if try options.takeEntity(keys.first?.text) { keys.removeFirst() }
        guard keys.count == 1 else { throw ValidationError("Give the key of one object: broker adjust Account 7") }
        guard !increment.isEmpty || !append.isEmpty else {
            throw ValidationError("Say what to change: --increment or --append.")
        }
    }

    func run() async throws {
        let operation = Job.Operation(
            options.entity ?? "",
            [
                .object(keys[0].json), Change.json(increment).map { MessageField("increment", .json($0)) },
                Change.json(append).map { MessageField("append", .json($0)) },
            ])
        try await options.run(operation.expecting(condition.expectation), named: "broker adjust")
    }
}
