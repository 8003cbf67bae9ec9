import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerStaging

/// A model's file, read for starting.
struct ModelFile {
    let path: String

    /// - Throws: one line: the first fault, and how many more there are.
    func plan() throws(CommandFailure) -> StagingPlan {
        let text = try JSONText.file(path)
        do throws(ModelError) {
            return try StagingPlan(try ModelReader.read(text))
        } catch {
            let more = error.faults.count - 1
            throw CommandFailure(
                .failed,
                "The model \(path) is wrong: \(error.faults.first.map(\.description) ?? "")"
                    + (more > 0 ? " (\(more) more: `broker model check \(path)` lists them.)" : ""))
        }
    }
}
