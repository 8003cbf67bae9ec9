/// Whether everything waits for the writer: the share of recent time in which it worked.
///
/// A pure value without a clock. All times are in microseconds.
struct WriterLoad {
    /// The longest wait for jobs, as a share of the working time, of a writer that counts as busy: a tenth. A writer
    /// that waits longer needs more staged jobs, not a processor.
    private static let idleShare: Int64 = 10
    /// No turn counts for more, so that a very long one does not make the writer count as busy for long.
    static let longestTurn: Int64 = 100_000

    private var worked: Int64 = 0
    private var waited: Int64 = 0

    /// How long the writer may still wait before it is not busy any more; not above 0 when it is not busy.
    var patience: Int64 { worked / Self.idleShare - waited }
    var isBusy: Bool { patience > 0 }

    /// The writer has waited for jobs and worked on large ones. The last few such turns count most.
    mutating func note(waited: Int64, worked: Int64) {
        self.waited = self.waited * 3 / 4 + waited
        self.worked = self.worked * 3 / 4 + min(worked, Self.longestTurn)
    }
}
