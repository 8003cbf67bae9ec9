/// The cancellations that wait until the log has them; the jobs are not merged meanwhile. A pure value.
struct LoggedCancellations {
    struct Request {
        let job: RunningJobs.Found
        let id: JobID
        /// Answers the asker; nil for all but one of several jobs.
        let answer: (@Sendable (Cancellation) -> Void)?
        /// Its entry, which is appended when the log has the job.
        let entry: (LogPlace) -> LogEntry
    }

    /// By ticket, in the order of their entries.
    private var requests: [Int: [Request]] = [:]

    var isEmpty: Bool { requests.isEmpty }

    func holds(_ ticket: Int) -> Bool { !requests.isEmpty && requests[ticket] != nil }

    mutating func add(_ request: Request) { requests[request.job.ticket, default: []].append(request) }

    /// The entries for a job that the log has delivered.
    func entries(of ticket: Int, at place: LogPlace) -> [LogEntry] {
        requests.isEmpty ? [] : (requests[ticket] ?? []).map { $0.entry(place) }
    }

    /// The first cancellation of that ticket has been decided.
    mutating func take(_ ticket: Int) -> Request? {
        guard var known = requests.removeValue(forKey: ticket) else { return nil }
        let first = known.removeFirst()
        if !known.isEmpty { requests[ticket] = known }
        return first
    }

    /// All cancellations of that ticket have been decided.
    mutating func takeAll(_ ticket: Int) -> [Request] {
        requests.isEmpty ? [] : requests.removeValue(forKey: ticket) ?? []
    }
}
