package import Broker
package import BrokerWire

extension Completion {
    package init(_ message: CompletedMessage) {
        self.init(
            id: JobID(message.id), sequence: message.sequence, isDuplicate: message.duplicate,
            changes: message.changes.mapValues(Changes.init), rejections: message.rejected.map(Rejection.init),
            warnings: message.warnings.map(Warning.init), timing: message.timing.map(Timing.init),
            keys: message.keys.map { RawJSON($0) }, objects: message.objects.map { RawJSON($0) })
        if message.dryRun { isDryRun = true }
        if let keys = message.examples { examples = RawJSON(keys) }
    }
}

extension Completion.Changes {
    package init(_ counts: EntityChanges) {
        self.init(
            inserted: counts.inserted, updated: counts.updated, unchanged: counts.unchanged, deleted: counts.deleted,
            rejected: counts.rejected)
    }
}

extension Completion.Rejection {
    fileprivate init(_ error: ErrorBody) {
        self.init(
            code: BrokerError.Code(rawValue: error.code), message: error.message, path: error.path,
            entity: error.entity, attribute: error.attribute)
    }
}

extension Completion.Warning {
    fileprivate init(_ warning: WarningBody) {
        self.init(
            code: Code(rawValue: warning.code), entity: warning.entity, key: warning.key, count: warning.count)
    }
}

extension Completion.Timing {
    fileprivate init(_ timing: TimingBody) {
        self.init(
            queued: .microseconds(timing.queued), staged: .microseconds(timing.staged),
            journalWaited: .microseconds(timing.journalWaited), journalSynced: .microseconds(timing.journalSynced),
            waited: .microseconds(timing.waited), merged: .microseconds(timing.merged),
            committed: .microseconds(timing.committed))
    }
}

extension BrokerError.Fault {
    package init(_ error: ErrorBody) {
        self.init(
            code: BrokerError.Code(rawValue: error.code), message: error.message, path: error.path,
            entity: error.entity, attribute: error.attribute)
        line = error.line
        column = error.column
        offset = error.offset
        oldest = error.oldest
    }
}

extension BrokerError {
    /// The error that a server reports.
    package init(_ error: ErrorBody, jobID: JobID? = nil, sequence: Int64? = nil) {
        self = .reported(
            Fault(error), jobID: jobID, sequence: sequence,
            retryAfter: error.retryAfterMilliseconds.map { .milliseconds($0) })
    }

    /// The error of a job that failed or was refused.
    ///
    /// - Parameter id: the job's, where the message has none.
    package init(_ failed: FailedMessage, jobID id: JobID? = nil) {
        self.init(failed.error, jobID: failed.id.map { JobID($0) } ?? id, sequence: failed.sequence)
        // Such a job must be split: to send it again is of no use. Only a sync in parts waits for others to end.
        guard code == .busy, fault?.path?.hasSuffix("/part") != true else { return }
        code = .tooLarge
        retryAfter = nil
    }
}
