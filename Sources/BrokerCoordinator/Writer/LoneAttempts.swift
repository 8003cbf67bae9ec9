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
