/// How many lines about jobs one user may cause: ``burst`` at once, and then one a second. A pure value.
///
/// So a user whose jobs all fail causes some 30 MB a day, whatever the number of jobs is.
struct LogRation {
    /// Lines that are logged at once after a time without any.
    static let burst = 50
    /// Between the first line that is omitted and the line with the number of those.
    static let summary = Duration.seconds(10)

    private var credit = Duration.seconds(burst)
    private var at: ContinuousClock.Instant
    /// Lines that were omitted and not counted in a line yet.
    private(set) var omitted = 0

    init(at now: ContinuousClock.Instant) { at = now }

    /// Whether the line is logged.
    mutating func take(at now: ContinuousClock.Instant) -> Bool {
        (credit, at) = (filled(at: now), now)
        guard credit >= .seconds(1) else {
            omitted += 1
            return false
        }
        credit -= .seconds(1)
        return true
    }

    /// The number of omitted lines, which the caller logs now.
    mutating func takeOmitted() -> Int {
        defer { omitted = 0 }
        return omitted
    }

    /// Nothing was logged for so long that a new value is the same.
    func isFull(at now: ContinuousClock.Instant) -> Bool {
        omitted == 0 && filled(at: now) == .seconds(Self.burst)
    }

    private func filled(at now: ContinuousClock.Instant) -> Duration {
        min(.seconds(Self.burst), credit + at.duration(to: now))
    }
}
