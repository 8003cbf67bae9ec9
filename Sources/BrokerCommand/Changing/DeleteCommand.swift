import ArgumentParser
import Broker
import BrokerClient

struct DeleteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "delete",
        abstract: "Deletes objects by their keys or by a predicate, and applies the delete rules.",
        discussion: """
            A key is the value of the entity's identity: JSON, or else text. Of a compound identity it is an object, \
            such as '{"floor": 1, "number": "a"}', and where objects may lack an identity it is the _pk. Keys that \
            name nothing are counted in a warning. One job deletes all objects, or none. Negative numbers go after --.
            For example: broker delete --entity Employee 3 4
            Or: broker delete --entity Employee --where "department.name == %@" --argument "R&D"

            \(SelectionOptions.language)
            """)

    @OptionGroup var options: OperationOptions

    @OptionGroup var selection: SelectionOptions

    @OptionGroup var deletions: DeletionOptions

    @Argument(help: "Keys of the objects.")
    var keys: [CommandValue] = []

    mutating func validate() throws {
        guard keys.isEmpty == (selection.format != nil) else {
            throw ValidationError(
                keys.isEmpty
                    ? "Say what to delete: keys, or --where with a predicate (TRUEPREDICATE deletes all)."
                    : "Say what to delete either by keys or by --where.")
        }
    }

    func run() async throws {
        let action: Job.Operation.Action =
            if let predicate = selection.predicate {
                .deleteMatching(predicate)
            } else {
                .delete(RawJSON("[\(keys.map(\.json.description).joined(separator: ","))]"))
            }
        // Keys name what is deleted; a predicate may match more than was thought.
        let asks = selection.predicate != nil && !options.dryRun && deletions.mayAsk()
        try await options.run(action, named: "broker delete", deletions: deletions, asks: asks, at: key)
    }

    /// The key that a JSON Pointer into the job's message leads to.
    @Sendable private func key(at path: String?) -> JobPlace? {
        guard let tokens = path?.split(separator: "/"), tokens.count == 2, tokens[0] == "objects",
            let index = Int(tokens[1]), keys.indices.contains(index)
        else { return nil }
        return .key(index + 1, text: keys[index].text)
    }
}
