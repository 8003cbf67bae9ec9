import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput
import Dispatch
import Foundation
import Synchronization

/// The jobs of a command, sent one after the other. A window of them is unanswered; their ends are noted in their order.
struct JobStream {
    /// There is no use in sending more: the tally has the reason.
    struct Stopped: Error {}

    let broker: RemoteBroker
    let tally: JobTally
    private let maximumInFlight: Int
    private(set) var jobCount = 0
    /// For each job in flight: its end is noted.
    private var ends: [Task<Void, Never>] = []

    init(_ broker: RemoteBroker, _ tally: JobTally, maximumInFlight: Int) {
        self.broker = broker
        self.tally = tally
        self.maximumInFlight = maximumInFlight
    }

    /// Sends a job when there is room for one more.
    ///
    /// - Parameters:
    ///   - earlier: the completion of an earlier run: the job is not sent.
    ///   - subject: begins the message when the job cannot be sent; nil for its place.
    mutating func send(
        _ job: Job, _ records: JobRecords = JobRecords(), earlier: Completion? = nil, subject: String? = nil,
        at place: @escaping @Sendable (_ path: String?) -> JobPlace?,
        answer: @escaping @Sendable (SubmittedJob) async throws -> Completion = { try await $0.completion }
    ) async throws(Stopped) {
        try await settle(downTo: maximumInFlight - 1)
        jobCount += 1
        let note = StreamedJob(number: jobCount, id: job.id?.text, records: records, subject: subject, place: place)
        guard tally.willSend(note) else { throw Stopped() }
        if let earlier { return end(of: note) { earlier } }
        do {
            let sent = try await broker.enqueue(job)
            tally.sent(note, as: sent.id.text)
            end(of: note) { try await answer(sent) }
        } catch {
            tally.failed(note, error, wasSent: false)
            guard tally.mayGoOn else { throw Stopped() }
        }
    }

    private mutating func end(of note: StreamedJob, _ answer: @escaping @Sendable () async throws -> Completion) {
        let previous = ends.last
        ends.append(
            Task { [tally] in
                let result = await Result { try await answer() }
                await previous?.value
                switch result {
                case .success(let completion): tally.committed(note, completion)
                case .failure(let error): tally.failed(note, error, wasSent: true)
                }
            })
    }

    /// Waits until at most so many jobs are in flight.
    mutating func settle(downTo count: Int = 0) async throws(Stopped) {
        while ends.count > count { await ends.removeFirst().value }
        guard tally.mayGoOn else { throw Stopped() }
    }

    /// Waits for the ends of all jobs, also after one that failed.
    ///
    /// - Returns: what is known then. After a signal it waits forever: the signal's thread ends the process.
    mutating func end() async -> JobTally.State {
        try? await settle()
        if var state = tally.end() {
            if state.summary.warnings.count(of: .extraValue) > 0 {
                state.summary.warnings.model = try? await broker.model()
            }
            return state
        }
        return await withUnsafeContinuation { (_: UnsafeContinuation<JobTally.State, Never>) in }
    }
}

struct StreamedJob: Sendable {
    /// Counted from 1.
    let number: Int
    /// Nil until it is sent, when the client chooses it.
    var id: String?
    let records: JobRecords
    var subject: String?
    /// The part of the input that a JSON Pointer into the job's message leads to; nil for none.
    let place: @Sendable (_ path: String?) -> JobPlace?
}

/// The progress of a stream of jobs: the records that were read, sent and committed, and the faults. May be used from any
/// thread.
final class JobTally: Sendable {
    struct State: Sendable {
        var summary = SubmissionSummary()
        /// The exit status of a stream that a failed job ends.
        var status = ExitStatus.success
        /// Those whose progress is reported.
        var inputs: [SubmittedInput] = []
        /// Sent, and not answered yet; in doubt once the connection is lost.
        var unanswered: [Int: StreamedJob] = [:]
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
        var progress: ProgressBar?
    }

    /// The end of the message about an error that ends a stream.
    typealias Remedy = @Sendable (_ code: BrokerError.Code?, _ status: ExitStatus) -> String

    private let state: Mutex<State>
    private let rejects: RejectsFile?
    private let remedy: Remedy?
    /// Empty when no job is unanswered.
    private let unanswered = DispatchGroup()

    /// - Parameter remedy: nil for a stream that goes on after a job that failed by itself; any failed job ends the others.
    init(inputs: [String] = [], progress: ProgressBar? = nil, rejects: RejectsFile? = nil, remedy: Remedy? = nil) {
        self.rejects = rejects
        self.remedy = remedy
        state = Mutex(State(inputs: inputs.map { SubmittedInput(name: $0) }, progress: progress))
    }

    /// No fault prevents sending more.
    var mayGoOn: Bool { state.withLock(\.mayGoOn) }

    var current: State { state.withLock { $0 } }

    func read(_ bytes: Int, record number: Int, of input: Int, skipped: Int) {
        state.withLock { state in
            state.bytesRead += bytes
            state.inputs[input].recordsRead = number
            state.inputs[input].recordsSkipped = skipped
            state.showProgress()
        }
    }

    /// A line of the input is no record, and was skipped.
    func unreadable(_ reject: InputReject, of input: Int) {
        state.withLock { state in
            let name = state.inputs[input].name
            state.summary.skip(reject, at: .line(reject.fault.recordPlace?.line ?? reject.fault.place?.line, of: name))
            if state.status == .success { state.status = .rejected }
            rejects?.add(reject, of: name)
        }
    }

    /// No record of the input is wanted, so it is not read.
    func excluded(_ input: Int) {
        state.withLock { ($0.inputs[input].hasEnded, $0.inputs[input].isExcluded) = (true, true) }
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
    func willSend(_ job: StreamedJob) -> Bool {
        state.withLock { state in
            guard state.mayGoOn else { return false }
            state.unanswered[job.number] = job
            unanswered.enter()
            return true
        }
    }

    func sent(_ job: StreamedJob, as id: String) {
        // Gone when it was answered at once.
        state.withLock { $0.unanswered[job.number]?.id = id }
    }

    func committed(_ job: StreamedJob, _ completion: Completion) {
        rejects?.add(completion, of: job.records)
        answered(job) { state in
            state.summary.add(completion, records: job.records.count) { job.place($0) ?? .job }
            if state.summary.rejectedCount > 0, state.status == .success { state.status = .rejected }
            if let input = job.records.input, state.inputs.indices.contains(input) {
                state.inputs[input].committed.insert(integersIn: job.records.range)
            }
        }
    }

    /// - Parameter wasSent: unless the error is about the job, it is unknown whether the job was applied.
    func failed(_ job: StreamedJob, _ error: any Error, wasSent: Bool) {
        let known = error as? BrokerError
        if remedy != nil {
            if wasSent { rejects?.add(error, of: job.records, withOthers: false) }
            let isUnknown = wasSent && CommandFailure(error).status == .cannotConnect
            stop(by: error, subject: wasSent ? nil : job.subject, at: job.place)
            return isUnknown ? unanswered.leave() : answered(job) { _ in }
        }
        let order = (input: job.records.input ?? 0, record: job.records.range.lowerBound)
        switch known?.code {
        case let code? where Self.storeCodes.contains(code):
            // The records are not at fault: they are submitted again when the store takes jobs. The server reports these
            // codes with a sequence and, when it refuses the job before that, without one.
            answered(job) { $0.refusal = $0.refusal ?? "\(error)" }
        case let code? where !Self.connectionCodes.contains(code):
            rejects?.add(error, of: job.records, withOthers: true)
            answered(job) { state in
                let place = job.place(known?.fault?.path) ?? .job
                // The frame is too large, of which no fault of the server says anything.
                let isLargeRecord = code == .tooLarge && known?.fault == nil && job.records.count == 1
                let remedy = isLargeRecord ? " One record may have 256 MiB without a server, with --store." : ""
                state.summary.fail("\(place.text): \(error)\(remedy)", code, at: place, order: order)
                state.inputs[order.input].failed.insert(integersIn: job.records.range)
            }
        default:
            // The message is about one job; here it describes all of them.
            let cause = known?.isOutcomeUnknown == true ? known?.cause as? BrokerError : known
            let reason = cause?.reason ?? "\(error)"
            state.withLock { state in
                if known?.isOutcomeUnknown == true, cause?.code == .protocolViolation {
                    let place = job.records.place
                    state.summary.fail("\(place.text): \(error)", cause?.code, at: place, order: order)
                } else {
                    state.lossReason = state.lossReason ?? reason
                }
                if !wasSent { state.unanswered[job.number] = nil }
            }
            unanswered.leave()
        }
    }

    /// Notes an error after which nothing more is sent. The loss of the connection is reported once.
    func stop(by error: any Error, subject: String? = nil, at place: (_ path: String?) -> JobPlace? = { _ in nil }) {
        let known = error as? BrokerError
        let place = subject == nil ? place(known?.fault?.path) : nil
        let status = CommandFailure(error).status
        let beginning = (subject ?? place?.text).map { "\($0): " } ?? ""
        state.withLock { state in
            state.isOver = true
            if status == .cannotConnect, state.status == status { return }
            let message = "\(beginning)\(error)\(remedy?(known?.code, status) ?? "")"
            state.fail(message, status, known?.code, at: place ?? .job)
        }
    }

    /// Notes a failure that is none of a job.
    func fail(_ message: String, _ status: ExitStatus = .failed) { state.withLock { $0.fail(message, status) } }

    private func answered(_ job: StreamedJob, _ note: (inout State) -> Void) {
        state.withLock { state in
            state.unanswered[job.number] = nil
            note(&state)
            state.showProgress()
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
            return state.reported()
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
        return state.withLock { $0.reported() }
    }

    /// For a signal: claims the report and gives it, unless the end of the command has claimed it.
    func reporting(
        waitingAtMost interval: DispatchTimeInterval, _ report: @escaping @Sendable (State) -> Void
    ) -> @Sendable () -> Void {
        {
            guard let state = self.interrupt(waitingAtMost: interval) else {
                // The report is being printed, and the process ends after it. A second signal ends it at once.
                return DispatchSemaphore(value: 0).wait()
            }
            report(state)
            _ = self.rejects?.finish()
        }
    }
}

extension JobTally.State {
    /// No fault prevents sending more.
    fileprivate var mayGoOn: Bool { lossReason == nil && refusal == nil && !isOver }

    fileprivate mutating func showProgress() { progress?.update(bytes: bytesRead, records: summary.records) }

    /// The state for a report, which takes the place of the progress.
    fileprivate mutating func reported() -> Self {
        progress?.clear()
        return self
    }

    /// Notes a failure after those before it.
    mutating func fail(
        _ message: String, _ status: ExitStatus = .failed, _ code: BrokerError.Code? = nil, at place: JobPlace = .job
    ) {
        summary.fail(message, code, at: place, order: (0, summary.failures.count))
        self.status = status
    }
}
