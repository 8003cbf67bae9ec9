import Broker

/// The ids of the jobs of `submit --id`.
enum SubmissionIDs {
    /// The end of a message about a job's id: empty, unless the id is not known and may be that of a submission.
    static func hint(for id: String, _ error: any Error) -> String {
        guard (error as? BrokerError)?.code == .unknownJob, !isNumbered(id) else { return "" }
        return " The jobs of `submit --id \(id)` are \(id)-1, \(id)-2 and so on."
    }

    /// As the id of one of its jobs.
    private static func isNumbered(_ id: String) -> Bool {
        let parts = id.split(separator: "-", omittingEmptySubsequences: false)
        return parts.count > 1 && Int(parts[parts.count - 1]) != nil
    }
}
