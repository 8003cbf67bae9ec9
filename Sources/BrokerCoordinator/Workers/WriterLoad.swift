/// Whether the writer is what all else waits for: of its time lately, how much it worked.
///
/// A pure value: no clock. All times are in microseconds.
struct WriterLoad {
    /// What share of the time for which it works a busy writer waits for jobs at most: a tenth. One that waits for longer needs
    /// more to be staged, and not a processor.
    private static let idleShare: Int64 = 10
    /// No turn counts as more, so that it is not called busy for long after a very long one.
    static let longestTurn: Int64 = 100_000

    private var worked: Int64 = 0
    private var waited: Int64 = 0

    /// For how long it may still wait before it is busy no longer; not above 0 when it is not.
    var patience: Int64 { worked / Self.idleShare - waited }
    var isBusy: Bool { patience > 0 }

    /// It has waited for jobs, and worked on large ones. The last few such turns count most.
    mutating func note(waited: Int64, worked: Int64) {
        self.waited = self.waited * 3 / 4 + waited
        self.worked = self.worked * 3 / 4 + min(worked, Self.longestTurn)
    }
}
