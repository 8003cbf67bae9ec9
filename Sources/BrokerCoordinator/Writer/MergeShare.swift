/// How the time of a run, whose jobs were merged in the same statements, is shared among them: by their rows where it was long
/// enough to matter, else equally.
struct MergeShare {
    private static let longMicroseconds: Int64 = 10_000

    private let microseconds: Int64
    private let parts: Int64
    private let isByRows: Bool

    /// - Parameter rowCounts: of the jobs.
    init(of microseconds: Int64, rowCounts: some Collection<Int>) {
        self.microseconds = microseconds
        isByRows = microseconds >= Self.longMicroseconds && rowCounts.count > 1
        parts = Int64(max(1, isByRows ? rowCounts.reduce(0, +) : rowCounts.count))
    }

    /// - Parameter rowCount: of the job.
    func microseconds(ofRows rowCount: Int) -> Int64 {
        isByRows ? Int64(Double(microseconds) * Double(rowCount) / Double(parts)) : microseconds / parts
    }
}
