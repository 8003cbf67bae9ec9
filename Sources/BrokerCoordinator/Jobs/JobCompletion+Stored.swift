package import BrokerModel
internal import BrokerStore

extension JobCompletion {
    /// The completion of an outcome in the ledger.
    ///
    /// - Parameter timing: that of the message that is answered; nil when the message is not a job.
    init(stored outcome: StoredOutcome, id: String, isDuplicate: Bool, timing: StageTimes?) {
        // The ledger's object without its braces.
        let members = Array(outcome.body.dropFirst().dropLast())
        self.init(
            id: id, owner: outcome.owner, sequence: outcome.sequence,
            result: outcome.isFailure
                ? .failed(error: outcome.body)
                : .completed(members: members, isDuplicate: isDuplicate))
        self.timing = timing
    }

    /// Whether it reports what a job did, and not a failure.
    var isCommitted: Bool {
        switch result {
        case .completed: true
        case .failed: false
        }
    }
}

extension StoreError {
    /// The code of the error that a client is sent.
    package var faultCode: FaultCode {
        switch code {
        case .full: .storeFull
        case .unavailable, .incompatible: .storeUnavailable
        case .constraint: .constraintViolation
        case .defect: .internal
        case .overworked: .busy
        }
    }
}
