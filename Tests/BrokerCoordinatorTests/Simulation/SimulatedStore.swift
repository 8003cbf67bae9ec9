import BrokerModel

@testable import BrokerCoordinator
@testable import BrokerStore

/// A store in memory, with the ledger of the real one: what is committed is durable, what is not is gone with a crash.
struct SimulatedStore {
    struct Effect: Equatable {
        let sequence: Int64
        let id: String
    }

    struct Contents {
        var ledger: [String: StoredOutcome] = [:]
        /// The effects of completed jobs, in order.
        var effects: [Effect] = []
        /// Sequences of the jobs that were applied, however they ended.
        var ended: Set<Int64> = []
        var newestSequence: Int64 = 0
        var reservedThrough: Int64 = 0
        /// The newest position of the log that was applied.
        var applied: Int64 = 0
    }

    private(set) var durable = Contents()
    /// As the transaction in progress sees it.
    private(set) var contents = Contents()
    let skipsDedupe: Bool

    init(_ bug: PlantedBug?) { skipsDedupe = bug == .skipDedupe }

    /// The newest sequence of all; a block after it is reserved at once.
    mutating func openSequences(_ count: Int64) -> Int64 {
        rollback()
        let newest = max(durable.newestSequence, durable.reservedThrough)
        reserve(through: newest + count)
        commit()
        return newest
    }

    mutating func reserve(through sequence: Int64) { contents.reservedThrough = sequence }

    mutating func commit() { durable = contents }

    mutating func rollback() { contents = durable }

    /// As `Store.apply`.
    mutating func apply(_ job: StoreJob) -> JobOutcome {
        let known = job.contentHash == nil || skipsDedupe ? nil : contents.ledger[job.id]
        contents.ended.insert(job.sequence)
        contents.applied = max(contents.applied, job.sequence)
        if let known, !known.isFailure {
            let isSame = job.isRepetition(of: known)
            return isSame ? .duplicate(known) : .conflict(Fault(.idConflict, "used before"), committed: known)
        }
        let end: JobOutcome
        switch job.work {
        case .refused(let fault): end = .failed(fault)
        case .merge, .steps: end = .completed(Outcome())
        }
        if let known, end.isFailure, known.sequence > job.sequence { return end }
        contents.ledger[job.id] = StoredOutcome(
            sequence: job.sequence, owner: job.owner, contentHash: job.contentHash, isFailure: end.isFailure,
            body: end.body(of: job))
        contents.newestSequence = max(contents.newestSequence, job.sequence)
        if !end.isFailure { contents.effects.append(Effect(sequence: job.sequence, id: job.id)) }
        return end
    }
}
