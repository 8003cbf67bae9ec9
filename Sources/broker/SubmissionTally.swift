import BrokerClient
import BrokerCommandLine
import BrokerFormats
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

    var place: String {
        records.count == 1
            ? "record \(records.lowerBound) of \(inputName)"
            : "records \(records.lowerBound) to \(records.upperBound) of \(inputName)"
    }

    /// The record that a JSON Pointer into the job's message leads to; the job's place when it leads to none.
    func place(of path: String?) -> String {
        // The operation may stand in the job itself or in its list of operations.
        guard let tokens = path?.split(separator: "/").drop(while: { $0 != "json" }).prefix(2), tokens.count == 2,
            let index = tokens.last.flatMap({ Int($0) }), lines.indices.contains(index)
        else { return place }
        return "\(inputName), line \(lines[index]) (record \(records.lowerBound + index))"
    }
}

/// What is known of a submission: what was read, sent, committed, and what went wrong. Any thread may ask and tell.
final class SubmissionTally: Sendable {
    struct State: Sendable {
        var summary = SubmissionSummary()
        var inputs: [SubmittedInput]
        /// Sent, and not answered yet; in doubt once the connection is lost.
        var unanswered: [Int: SubmissionJob] = [:]
        /// The server is gone: nothing more can be sent.
        var lossReason: String?
        /// Somebody says how it ended; nothing is sent from then on, and nobody else says it.
        var isOver = false
        var isInterrupted = false
        var bytesRead = 0
        var progress: ProgressBar
    }

    private let state: Mutex<State>
    /// Empty when no job is unanswered.
    private let unanswered = DispatchGroup()

    /// - Parameter totalBytes: of all inputs; nil when nobody knows.
    init(inputs: [String], totalBytes: Int?) {
        state = Mutex(
            State(inputs: inputs.map { SubmittedInput(name: $0) }, progress: ProgressBar(totalBytes: totalBytes)))
    }

    /// Nothing stands against sending more.
    var mayGoOn: Bool { state.withLock { $0.lossReason == nil && !$0.isOver } }

    /// - Parameters:
    ///   - bytes: read since this was told last.
    ///   - skipped: records of the input that were passed over.
    func read(_ bytes: Int, record number: Int, of input: Int, skipped: Int) {
        state.withLock { state in
            state.bytesRead += bytes
            state.inputs[input].recordsRead = number
            state.inputs[input].recordsSkipped = skipped
            state.progress.update(bytes: state.bytesRead, records: state.summary.records)
        }
    }

    func ended(_ input: Int, by fault: InputFault?) {
        state.withLock { state in
            state.inputs[input].hasEnded = true
            guard let fault else { return }
            state.inputs[input].fault = fault
            let number = state.inputs[input].recordsRead + 1
            state.summary.fail(state.inputs[input].faultText(fault), at: (input, number))
        }
    }

    /// False when the job must not be sent any more.
    func willSend(_ job: SubmissionJob) -> Bool {
        let isWanted = state.withLock { state in
            guard state.lossReason == nil, !state.isOver else { return false }
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

    func committed(_ job: SubmissionJob, _ completion: BrokerClient.Completion) {
        answered(job) { state in
            state.summary.add(completion, records: job.records.count, at: job.place(of:))
            state.inputs[job.input].committed.append(job.records)
        }
    }

    /// - Parameter wasSent: nobody knows whether the job was applied, if the error is not about the job.
    func failed(_ job: SubmissionJob, _ error: any Error, wasSent: Bool) {
        switch error {
        case BrokerError.failed, BrokerError.refused, BrokerError.tooLarge, BrokerError.notEncodable,
            BrokerError.idInUse, BrokerError.invalidID:
            answered(job) { state in
                let path = (error as? BrokerError)?.fault?.path
                state.summary.fail("\(job.place(of: path)): \(error)", at: (job.input, job.records.lowerBound))
                state.inputs[job.input].failed.append(job.records)
            }
        default:
            // The message would speak of one job; here it is told of all of them.
            let reason =
                switch error {
                case BrokerError.connectionLost(let reason), BrokerError.outcomeUnknown(_, .connectionLost(let reason)):
                    reason
                default: "\(error)"
                }
            state.withLock { state in
                if case BrokerError.outcomeUnknown(_, .noAnswer) = error {
                    state.summary.fail("\(job.place): \(error)", at: (job.input, job.records.lowerBound))
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

    /// Waits for the jobs that were sent, and lets nothing more be sent.
    ///
    /// - Returns: what is known then; nil when somebody else has it already.
    func end(isInterrupted: Bool = false, waitingAtMost interval: DispatchTimeInterval = .never) -> State? {
        let isFirst = state.withLock { state in
            defer { state.isOver = true }
            state.isInterrupted = isInterrupted
            return !state.isOver
        }
        guard isFirst else { return nil }
        _ = unanswered.wait(timeout: .now() + interval)
        return state.withLock { state in
            state.progress.clear()
            return state
        }
    }
}
