internal import BrokerModel
internal import BrokerStore

/// The writer's next work.
struct WriterTurn {
    var reopening: StoreReopening?
    var tasks: [@Sendable (Store) -> Void]
    /// Jobs that the log refused: they end without a transaction.
    var refused: JobBatch = []
    var batch: JobBatch
    /// The last sequence of the block to reserve. A turn may have no jobs but a reservation for those without sequences.
    var reservation: Int64?
}

/// The transactions of one turn: all jobs together, and, if the store does not accept them, each alone. A pure value.
///
/// ```
/// together ─▶ applied: the rest together (answers of its jobs may need several transactions)
///    └─ failed ─▶ alone, alone, …          without jobs: the jobs without sequences fail
/// ```
struct WriterRun {
    enum Step {
        /// One transaction of all jobs in ``WriterRun/rest``, or of as many as it has room for.
        case together
        case alone(LogPlace, ReadyJob)
        /// No more sequences can be reserved: the jobs that wait for one fail.
        case failStarved(StoreError)
    }

    /// The jobs that have not been applied, in order.
    var rest: JobBatch
    private(set) var reservation: Int64?
    private(set) var next: Step?

    init(_ turn: WriterTurn) {
        rest = turn.batch
        reservation = turn.reservation
        next = rest.isEmpty && reservation == nil ? nil : .together
    }

    /// The first jobs are durable, in one transaction or alone.
    mutating func applied(_ count: Int) {
        rest.removeFirst(count)
        if case .together = next {
            reservation = nil
            next = rest.isEmpty ? nil : .together
        } else {
            nextAlone()
        }
    }

    /// The transaction of all jobs was undone.
    ///
    /// - Parameter hasMadeRoom: the store has room for the reservation now, which the next turn repeats.
    mutating func failed(_ error: StoreError, hasMadeRoom: Bool) {
        guard rest.isEmpty else { return nextAlone() }
        next = hasMadeRoom ? nil : .failStarved(error)
    }

    /// The jobs without sequences have failed.
    mutating func starvedFailed() { next = nil }

    private mutating func nextAlone() { next = rest.first.map { .alone($0.place, $0.job) } }
}

extension WriterRun {
    /// Checks the invariants: jobs remain in the order of their sequences, a run ends when no work remains, and a job alone
    /// is the first that remains.
    func checkInvariants() throws(InvariantViolation) {
        let positions = rest.compactMap(\.place.position)
        try InvariantViolation.require(
            zip(positions, positions.dropFirst()).allSatisfy { $0 < $1 }, "jobs are applied in order")
        switch next {
        case .together:
            try InvariantViolation.require(!rest.isEmpty || reservation != nil, "a transaction has work")
        case .alone(let place, _):
            try InvariantViolation.require(rest.first?.place == place, "the first job is applied first")
        case .failStarved, nil: try InvariantViolation.require(rest.isEmpty, "a run ends without jobs")
        }
    }
}
