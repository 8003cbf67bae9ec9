public import ArgumentParser
public import Broker
import BrokerCommandLine

/// How many objects a command may delete, and whether it asks before.
struct DeletionOptions: ParsableArguments {
    @Option(
        name: .customLong("max-delete"),
        help: ArgumentHelp(
            """
            The maximum number of objects to delete, those that delete rules delete included; 10% is a tenth of the \
            objects of each entity. If it would be more, the job fails and changes nothing.
            """, valueName: "count"))
    var maximum: Job.DeletionLimit?

    @Flag(help: "Delete without asking. Only a person at a terminal is asked.")
    var yes = false

    func mayAsk() -> Bool { !yes && Confirmation.isPossible }

    /// Asks whether what a job would delete is to be deleted; true when it would delete nothing.
    static func agrees(to completion: Completion) -> Bool {
        let deleted = completion.changes.filter { $0.value.deleted > 0 }.sorted { $0.key < $1.key }
        guard !deleted.isEmpty else { return true }
        let parts = deleted.map { "\($0.value.deleted.grouped) \($0.key)" }
        let list =
            parts.count == 1 ? parts[0] : parts.dropLast().joined(separator: ", ") + " and \(parts[parts.count - 1])"
        return Confirmation.agrees(to: "Delete \(list)?")
    }
}

extension Job.DeletionLimit: ExpressibleByArgument {
    public init?(argument: String) {
        if argument.hasSuffix("%") {
            guard let percent = Double(argument.dropLast()), (0...100).contains(percent) else { return nil }
            self = .percent(percent)
        } else {
            guard let count = Int(argument), count >= 0 else { return nil }
            self = .objects(count)
        }
    }
}

extension Int {
    /// With commas between thousands.
    var grouped: String {
        var text = String(self)
        var index = text.count - 3
        while index > 0 {
            text.insert(",", at: text.index(text.startIndex, offsetBy: index))
            index -= 3
        }
        return text
    }
}
