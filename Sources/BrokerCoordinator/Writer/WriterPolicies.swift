internal import BrokerStore

/// Decides what follows when a job that has a transaction of its own was not stored. A pure value, of one job.
struct LoneAttempts {
    enum Step {
        case again
        /// Wait for the machine, then again: the journal has the job.
        case wait
        case fail
        /// Neither the job nor the machine is at fault: the server must not go on after the job.
        case stop
    }

    let isLogged: Bool
    private var wasOverworked = false
    private var hasMadeRoom = false

    init(isLogged: Bool) { self.isLogged = isLogged }

    /// - Parameter makeRoom: makes room in a full store, and returns whether there may be some. A page that a reader needs now may
    ///   be copied before a later attempt.
    mutating func next(after error: StoreError, makeRoom: () -> Bool) -> Step {
        // The second attempt of a job that does too much ends with its fault.
        if error.code == .overworked, !wasOverworked {
            wasOverworked = true
            return .again
        }
        if error.code == .full, makeRoom(), !hasMadeRoom {
            hasMadeRoom = true
            return .again
        }
        guard isLogged else { return .fail }
        return error.isOfMachine ? .wait : .stop
    }
}

/// Whether the next transaction should merge its jobs as a batch. When one job of a batch is at fault, all of them are
/// merged twice; so after such a transaction some are merged job by job, more each time. A pure value.
struct BatchBackoff {
    /// The most transactions in a row that are merged job by job: faults may become rare again.
    static let longest = 32

    private var length = 0
    private var left = 0

    /// Called once for each transaction.
    mutating func allows() -> Bool {
        guard left > 0 else { return true }
        left -= 1
        return false
    }

    mutating func note(isTogether: Bool) {
        length = isTogether ? 0 : min(Self.longest, max(1, 2 * length))
        left = length
    }
}

/// A bound for the objects of jobs (`reply: objects`) between the writer, which reads them, and the thread that sends
/// them.
final class ReplyBudget: Sendable {
    private let bytes = Monitor(0)

    /// Bytes of objects, of one transaction and not yet sent, above which the writer reads no more.
    static let maximumBytes = 4 << 20

    /// Waits until most of the objects are sent. The sending thread never waits for the writer.
    func waitForRoom() { bytes.wait { $0 < Self.maximumBytes ? () : nil } }

    func add(_ count: Int) { bytes.withLock { $0 += count } }

    func remove(_ count: Int) {
        bytes.update { $0 -= count }
    }
}

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
