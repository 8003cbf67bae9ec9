import BrokerJSON
@testable import LoadTesting
import BrokerWire
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(5)))
struct LoadRunTests {
    private func completed(_ id: String) -> String {
        #"{"type":"completed","id":"\#(id)","sequence":1,"duplicate":false,"changes":{},"rejected":[],"warnings":[],"timing":{"queued":1,"staged":2,"journalWaited":5,"journalSynced":6,"waited":7,"merged":3,"committed":4}}"#
    }

    private func run(
        _ server: ScriptedServer, jobs: Int, inFlight: Int = 4, mode: SendingMode = .closed, patience: Double = 10,
        change: (inout RunOptions, inout JobOptions) -> Void = { _, _ in }
    ) throws -> RunResult {
        var job = JobOptions(RecordOptions())
        job.recordsOfJob = 3
        var options = RunOptions(socketPath: server.path, schedule: Schedule(mode, .jobs(jobs)))
        options.inFlight = inFlight
        options.patienceSeconds = patience
        change(&options, &job)
        options.preparedBytes = 1 << 20
        return try LoadRun(options, job).run()
    }

    @Test func `every job is sent once and ends once`() throws {
        let server = ScriptedServer { _, id in [completed(id)] }
        let result = try run(server, jobs: 1_000, inFlight: 16) { options, _ in options.connections = 3 }
        #expect(result.accounts.totals == JobAccounts.Totals(sent: 1_000, ok: 1_000))
        #expect(result.accounts.lost == 0)
        #expect(result.recorder.jobs == 1_000)
        #expect(result.recorder.records == 3_000)
        #expect(result.recorder.completed.count == 1_000)
        #expect(result.recorder.intervals.reduce(0) { $0 + $1.jobs } == 1_000)
        #expect(result.server.name == "scripted 1")
        #expect(
            result.server.stats.map { String(decoding: $0, as: UTF8.self) }?.contains(#""wal":{"bytes":7}"#) == true)
    }

    @Test func `lost, repeated, strange and busy answers are reported as such`() throws {
        let server = ScriptedServer { job, id in
            switch job {
            case 1: []
            case 2: [#"{"type":"failed","id":"\#(id)","error":{"code":"busy","message":"Later."}}"#]
            case 3: [completed(id), completed(id), completed("of another")]
            default: [completed(id)]
            }
        }
        let result = try run(server, jobs: 10, patience: 0.3)
        #expect(
            result.accounts.totals
                == JobAccounts.Totals(sent: 10, ok: 8, failed: 1, busy: 1, repeatedAnswers: 1, strangeAnswers: 1))
        #expect(result.accounts.lost == 1)
        #expect(result.accounts.failures["busy"]?.count == 1)
    }

    @Test func `jobs in flight when the server is lost are lost`() throws {
        let server = ScriptedServer { job, id in job < 5 ? [completed(id)] : [ScriptedServer.close] }
        let result = try run(server, jobs: 10, inFlight: 3)
        #expect(result.accounts.totals.ok == 5)
        #expect(result.accounts.lost == result.accounts.totals.sent - 5)
        #expect(result.accounts.lost > 0)
    }

    @Test func `an answer that is no message ends the run with what is wrong`() {
        let server = ScriptedServer { job, id in job < 5 ? [completed(id)] : ["xxxxx"] }
        let error = #expect(throws: LoadError.self) { try run(server, jobs: 10) }
        #expect(error?.message.contains("cannot be read") == true, "\(error as Any)")
    }

    @Test func `a job's latency includes its wait for other jobs`() throws {
        let server = ScriptedServer { _, id in [completed(id)] }
        let result = try run(server, jobs: 200, inFlight: 1, mode: .open(jobsPerSecond: 1_000_000))
        // All were to be sent within 200 µs, one after the other: each waits for all before it.
        #expect(result.accounts.totals.ok == 200)
        #expect(result.recorder.completed.microseconds(100) >= result.recorder.lag.microseconds(100))
        #expect(result.recorder.lag.microseconds(100) > result.recorder.lag.microseconds(1))
        #expect(result.recorder.completed.microseconds(50) >= result.recorder.lag.microseconds(50))
    }

    @Test func `accepted is measured apart from completed`() throws {
        let server = ScriptedServer { _, id in
            [#"{"type":"accepted","id":"\#(id)","sequence":1}"#, completed(id)]
        }
        let result = try run(server, jobs: 30) { $1.wantsAccepted = true }
        #expect(result.recorder.accepted.count == 30)
        #expect(result.recorder.completed.count == 30)
        #expect(result.accounts.totals.ok == 30)
    }

    @Test func `a missing server is reported as such`() {
        let error = #expect(throws: LoadError.self) {
            try LoadRun(
                RunOptions(socketPath: "/nowhere/b.sock", schedule: Schedule(.closed, .jobs(1))),
                JobOptions(RecordOptions()))
        }
        #expect(error?.code == .cannotConnect)
    }

    // MARK: - Frames

    @Test func `frames come in order, those that were prepared and the others`() throws {
        var job = JobOptions(RecordOptions())
        job.recordsOfJob = 50
        let supply = FrameSupply(job, jobs: 300)
        try supply.prepare(bytes: 100 << 10)
        var expected = JobSource(job)
        var count = 0
        while let frame = try supply.next() {
            var decoder = FrameDecoder()
            let content = try frame.bytes.withUnsafeBytes {
                try decoder.decode(UnsafeRawBufferPointer(rebasing: $0[4...]))
            }
            #expect(Array(content.bytes) == expected.next())
            count += 1
        }
        #expect(count == 300)
        #expect(supply.isEmpty)
    }
}
