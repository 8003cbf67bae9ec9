import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput
import Dispatch
import Synchronization

/// A job on its way, and which records of which input it holds.
struct SubmissionJob: Sendable {
    /// Counted from 1.
    let number: Int
    /// Nil until it is sent, when the client chooses it.
    var id: String?
    /// The input's place among all of them.
    let input: Int
    let inputName: String
    /// Counted from 1 in the input.
    let records: ClosedRange<Int>
    /// Where each record begins in the input.
    let lines: [Int]
    /// Nil unless the rejected ones are written to a file.
    var texts: JobRecords?

    var place: JobPlace { .records(records, of: inputName) }

    /// The record that a JSON Pointer into the job's message leads to; the job's place when it leads to none.
    func place(of path: String?) -> JobPlace {
        // The operation may be in the job itself or in its list of operations.
        guard let tokens = path?.split(separator: "/").drop(while: { $0 != "json" }).prefix(2), tokens.count == 2,
            let index = tokens.last.flatMap({ Int($0) }), lines.indices.contains(index)
        else { return place }
        let number = records.lowerBound + index
        return .records(number...number, of: inputName, line: lines[index])
    }
}

/// The progress of a submission: the records that were read, sent and committed, and the faults. May be used from any
/// thread.
final class SubmissionTally: Sendable {
    struct State: Sendable {
        var summary = SubmissionSummary()
        var inputs: [SubmittedInput]
        /// Sent, and not answered yet; in doubt once the connection is lost.
        var unanswered: [Int: SubmissionJob] = [:]
        /// The server is gone: nothing more can be sent.
        var lossReason: String?
        /// Why the server's store takes no jobs. Each further job would fail for the same reason, so none is sent.
        var refusal: String?
        /// Nothing is sent from then on.
        var isOver = false
        /// A signal ended it; the thread that handles the signal reports. Never set together with `isReported`.
        var isInterrupted = false
        /// The thread that reads the input reports.
        var isReported = false
        var bytesRead = 0
        var progress: ProgressBar
    }

    private let state: Mutex<State>
    private let rejects: RejectsFile?
    /// Empty when no job is unanswered.
    private let unanswered = DispatchGroup()

    /// - Parameters:
    ///   - totalBytes: of all inputs; nil when unknown.
    ///   - rejects: gets the records that are rejected.
    init(inputs: [String], totalBytes: Int?, rejects: RejectsFile? = nil) {
        self.rejects = rejects
        state = Mutex(
            State(inputs: inputs.map { SubmittedInput(name: $0) }, progress: ProgressBar(totalBytes: totalBytes)))
    }

    /// No fault prevents sending more.
    var mayGoOn: Bool { state.withLock(\.mayGoOn) }

    /// - Parameters:
    ///   - bytes: the bytes read since the last call.
    ///   - skipped: the records of the input that were skipped.
    func read(_ bytes: Int, record number: Int, of input: Int, skipped: Int) {
        state.withLock { state in
            state.bytesRead += bytes
            state.inputs[input].recordsRead = number
            state.inputs[input].recordsSkipped = skipped
            state.progress.update(bytes: state.bytesRead, records: state.summary.records)
        }
    }

    /// No record of the input is wanted, so it is not read.
    func excluded(_ input: Int) {
        state.withLock { state in
            state.inputs[input].hasEnded = true
            state.inputs[input].isExcluded = true
        }
    }

    func ended(_ input: Int, by fault: InputFault?) {
        state.withLock { state in
            state.inputs[input].hasEnded = true
            guard let fault else { return }
            state.inputs[input].fault = fault
            let number = state.inputs[input].recordsRead + 1
            let place = JobPlace.records(number...number, of: state.inputs[input].name, line: fault.place?.line)
            state.summary.fail(state.inputs[input].faultText(fault), at: place, order: (input, number))
        }
    }

    /// False when the job must not be sent any more.
    func willSend(_ job: SubmissionJob) -> Bool {
        let isWanted = state.withLock { state in
            guard state.mayGoOn else { return false }
            state.unanswered[job.number] = job
            return true
        }
        if isWanted { unanswered.enter() }
        return isWanted
    }

    func sent(_ job: SubmissionJob, as id: String) {
        // Gone when it was answered at once.
        state.withLock { $0.unanswered[job.number]?.id = id }
    }

    func committed(_ job: SubmissionJob, _ completion: Completion) {
        rejects?.add(completion, of: job.texts, at: job.place(of:))
        answered(job) { state in
            state.summary.add(completion, records: job.records.count, at: job.place(of:))
            state.inputs[job.input].committed.append(job.records)
        }
    }

    /// - Parameter wasSent: unless the error is about the job, it is unknown whether the job was applied.
    func failed(_ job: SubmissionJob, _ error: any Error, wasSent: Bool) {
        let known = error as? BrokerError
        switch known?.code {
        case let code? where Self.storeCodes.contains(code):
            // The records are not at fault: they are submitted again when the store takes jobs. The server reports these
            // codes with a sequence and, when it refuses the job before that, without one.
            answered(job) { $0.refusal = $0.refusal ?? "\(error)" }
        case let code? where !Self.connectionCodes.contains(code):
            rejects?.add(error, of: job.texts, withOthers: true, at: job.place(of:))
            answered(job) { state in
                let place = job.place(of: known?.fault?.path)
                state.summary.fail(
                    "\(place.text): \(error)", code, at: place, order: (job.input, job.records.lowerBound))
                state.inputs[job.input].failed.append(job.records)
            }
        default:
            // The message is about one job; here it describes all of them.
            let cause = known?.isOutcomeUnknown == true ? known?.cause as? BrokerError : known
            let reason = cause?.reason ?? "\(error)"
            state.withLock { state in
                if known?.isOutcomeUnknown == true, cause?.code == .protocolViolation {
                    state.summary.fail(
                        "\(job.place.text): \(error)", cause?.code, at: job.place,
                        order: (job.input, job.records.lowerBound))
                } else {
                    state.lossReason = state.lossReason ?? reason
                }
                if !wasSent { state.unanswered[job.number] = nil }
            }
            unanswered.leave()
        }
    }

    private func answered(_ job: SubmissionJob, _ note: (inout State) -> Void) {
        state.withLock { state in
            state.unanswered[job.number] = nil
            note(&state)
            state.progress.update(bytes: state.bytesRead, records: state.summary.records)
        }
        unanswered.leave()
    }

    /// The codes with which jobs of any content fail while the server or its store accepts none.
    private static let storeCodes: [BrokerError.Code] = [.storeFull, .storeUnavailable, .draining]
    /// The codes of errors that are about the connection, and not about one job.
    private static let connectionCodes: [BrokerError.Code] = [
        .cannotConnect, .connectionLost, .outcomeUnknown, .protocolViolation, .closed,
    ]

    /// Lets nothing more be sent, waits for the jobs that were sent, and claims the report.
    ///
    /// - Returns: what is known then; nil when a signal came before: the thread that handles it reports.
    func end() -> State? {
        state.withLock { $0.isOver = true }
        unanswered.wait()
        return state.withLock { state in
            guard !state.isInterrupted else { return nil }
            state.isReported = true
            state.progress.clear()
            return state
        }
    }

    /// A signal came: lets nothing more be sent, claims the report, and waits for the jobs that were sent.
    ///
    /// - Returns: what is known then; nil when ``end()`` has claimed the report before.
    func interrupt(waitingAtMost interval: DispatchTimeInterval) -> State? {
        let isFirst = state.withLock { state in
            state.isOver = true
            state.isInterrupted = !state.isReported
            return state.isInterrupted
        }
        guard isFirst else { return nil }
        _ = unanswered.wait(timeout: .now() + interval)
        return state.withLock { state in
            state.progress.clear()
            return state
        }
    }
}

extension SubmissionTally.State {
    /// No fault prevents sending more.
    fileprivate var mayGoOn: Bool { lossReason == nil && refusal == nil && !isOver }
}
