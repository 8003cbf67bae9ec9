import Broker
import BrokerClient
import Dispatch
import Testing

@testable import BrokerCommand

/// Which thread reports how a submission ended.
@Suite(.timeLimit(.minutes(5))) struct JobTallyTests {
    private let tally = JobTally(inputs: ["e.ndjson"])

    private func job(_ number: Int, _ numbers: ClosedRange<Int>) -> StreamedJob {
        let records = JobRecords(numbers, of: "e.ndjson", lines: Array(numbers))
        return StreamedJob(number: number, id: "job-\(number)", records: records) {
            records.record(at: $0) ?? records.place
        }
    }

    private func send(_ number: Int, _ records: ClosedRange<Int>) -> StreamedJob {
        let job = job(number, records)
        #expect(tally.willSend(job))
        return job
    }

    private func commit(_ job: StreamedJob) {
        tally.committed(job, Completion(id: JobID(job.id ?? ""), sequence: Int64(job.number)))
    }

    @Test func `a signal while the end waits for answers reports how far it came`() async throws {
        commit(send(1, 1...100))
        let last = send(2, 101...200)
        let ended = DispatchSemaphore(value: 0)
        let end = Task.detached { [tally] in
            let state = tally.end()
            ended.signal()
            return state == nil
        }
        // It waits for the second job from here on, or is about to.
        while tally.mayGoOn { await Task.yield() }
        let state = try #require(tally.interrupt(waitingAtMost: .milliseconds(1)))
        #expect(state.summary.records == 100 && state.isInterrupted)
        #expect(state.unanswered.count == 1)
        commit(last)
        #expect(await end.value, "the thread that reads the input leaves the report to the signal's")
    }

    @Test func `a signal after the end leaves the report to the end`() {
        commit(send(1, 1...100))
        #expect(tally.end()?.summary.records == 100)
        #expect(tally.interrupt(waitingAtMost: .never) == nil)
    }

    @Test func `after a signal nothing is sent`() {
        #expect(tally.interrupt(waitingAtMost: .never) != nil)
        #expect(!tally.willSend(job(1, 1...1)) && !tally.mayGoOn)
        #expect(tally.end() == nil)
    }

    /// Without a sequence: the server refused the job before it had one.
    @Test(
        arguments: [BrokerError.Code.storeFull, .storeUnavailable, .draining], [nil, 1] as [Int64?]
    )
    func `a store that takes no jobs ends the submission, and is reported once`(
        _ code: BrokerError.Code, sequence: Int64?
    ) {
        let jobs = (1...4).map { send($0, $0...$0) }
        let refused = BrokerError.reported(BrokerError.Fault(code: code, message: "why"), sequence: sequence)
        for job in jobs.dropFirst() { tally.failed(job, refused, wasSent: true) }
        #expect(!tally.mayGoOn)
        commit(jobs[0])
        let state = tally.end()
        #expect(state?.refusal == "\(code): why" && state?.summary.failures == [])
        #expect(state?.inputs[0].failed == [] && state?.inputs[0].committed == [1...1])
    }
}
