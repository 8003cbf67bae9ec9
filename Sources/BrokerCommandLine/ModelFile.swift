internal import BrokerJSON
internal import BrokerModel
public import BrokerStaging

/// A model's file, read for starting.
public struct ModelFile {
    /// `-` is standard input.
    private let path: String

    public init(_ path: String) { self.path = path }

    /// - Throws: one line: the first fault, and how many more there are.
    public func plan() throws(CommandFailure) -> StagingPlan {
        try plan { faults in
            let more = faults.count - 1
            return CommandFailure(
                .failed,
                "The model \(path) is wrong: \(faults.first.map(\.description) ?? "")"
                    + (more > 0 ? " (\(more) more: `broker model check \(path)` lists them.)" : ""))
        }
    }

    /// The same, with every fault on standard error before the one line.
    public func planOrComplain() throws(CommandFailure) -> StagingPlan {
        try plan { faults in
            for fault in faults { Program.complain("\(path): \(fault)") }
            return CommandFailure(.failed, "\(path) is no model that can be used: \(faults.count) faults.")
        }
    }

    private func plan(failure: ([ModelFault]) -> CommandFailure) throws(CommandFailure) -> StagingPlan {
        let text = try JSONText.file(path)
        do throws(ModelError) {
            return try StagingPlan(try ModelReader.read(text))
        } catch {
            throw failure(error.faults)
        }
    }
}
