/// How the time of a run, whose jobs were merged in the same statements, is shared among them: by their rows where it was long
/// enough to matter, else equally.
struct MergeShare {
    private static let longMicroseconds: Int64 = 10_000

    private let microseconds: Int64
    private let parts: Int64
    private let isByRows: Bool

    init(of microseconds: Int64, _ jobs: ArraySlice<JobBatch.Element>) {
        self.microseconds = microseconds
        isByRows = microseconds >= Self.longMicroseconds && jobs.count > 1
        parts = Int64(max(1, isByRows ? jobs.reduce(0) { $0 + $1.job.rowCount } : jobs.count))
    }

    func microseconds(of job: ReadyJob) -> Int64 {
        isByRows ? Int64(Double(microseconds) * Double(job.rowCount) / Double(parts)) : microseconds / parts
    }
}
