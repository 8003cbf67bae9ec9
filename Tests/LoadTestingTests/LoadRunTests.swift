import BrokerCommandLine
import BrokerJSON
import BrokerWire
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import brokerload

@Suite(.timeLimit(.minutes(5)))
struct LoadRunTests {
    private func completed(_ id: String) -> String {
        #"{"type":"completed","id":"\#(id)","sequence":1,"duplicate":false,"changes":{},"rejected":[],"warnings":[],"timing":{"queued":1,"staged":2,"journalWaited":5,"journalSynced":6,"waited":7,"merged":3,"committed":4}}"#
    }

    private func run(
        _ server: ScriptedServer, jobs: Int, inFlight: Int = 4, rate: Double? = nil, patience: Double = 10,
        change: (inout RunOptions, inout JobOptions) -> Void = { _, _ in }
    ) throws -> RunResult {
        var job = JobOptions(RecordOptions())
        job.recordsOfJob = 3
        var options = RunOptions(socketPath: server.path, schedule: Schedule(rate: rate, .jobs(jobs)))
        options.inFlight = inFlight
        options.patienceSeconds = patience
        change(&options, &job)
        options.preparedBytes = 1 << 20
        return try LoadRun(options, job).run()
    }

    @Test func `every job is sent once and ends once`() throws {
        let server = ScriptedServer { _, id in [completed(id)] }
        let result = try run(server, jobs: 1_000, inFlight: 16) { options, _ in options.connections = 3 }
        #expect(result.accounts.sent == 1_000 && result.accounts.ok == 1_000)
        #expect(result.accounts.lost == 0)
        #expect(result.recorder.jobs == 1_000)
        #expect(result.recorder.records == 3_000)
        #expect(result.recorder.completed.count == 1_000)
        #expect(result.recorder.intervals.reduce(0) { $0 + $1.jobs } == 1_000)
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
        #expect(result.accounts.ok == 8 && result.accounts.failed == 1 && result.accounts.unexpected == 2)
        #expect(result.accounts.lost == 1)
        #expect(result.accounts.failures["busy"]?.count == 1)
    }

    @Test func `jobs in flight when the server is lost are lost`() throws {
        let server = ScriptedServer { job, id in job < 5 ? [completed(id)] : [ScriptedServer.close] }
        let result = try run(server, jobs: 10, inFlight: 3)
        #expect(result.accounts.ok == 5)
        #expect(result.accounts.lost == result.accounts.sent - 5)
        #expect(result.accounts.lost > 0)
    }

    @Test func `an answer that is no message ends the run with what is wrong`() {
        let server = ScriptedServer { job, id in job < 5 ? [completed(id)] : ["xxxxx"] }
        let error = #expect(throws: CommandFailure.self) { try run(server, jobs: 10) }
        #expect(error?.message?.contains("cannot be read") == true, "\(error as Any)")
    }

    @Test func `a job's latency includes its wait for other jobs`() throws {
        let server = ScriptedServer { _, id in [completed(id)] }
        let result = try run(server, jobs: 200, inFlight: 1, rate: 1_000_000)
        // All were to be sent within 200 µs, one after the other: each waits for all before it.
        #expect(result.accounts.ok == 200)
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
        #expect(result.accounts.ok == 30)
    }

    @Test func `a missing server is reported as such`() {
        let error = #expect(throws: CommandFailure.self) {
            try LoadRun(
                RunOptions(socketPath: "/nowhere/b.sock", schedule: Schedule(.jobs(1))),
                JobOptions(RecordOptions()))
        }
        #expect(error?.status == .cannotConnect)
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

@Suite(.timeLimit(.minutes(5)))
struct AccountTests {
    private func completed(_ job: Int?) -> LoadAnswer { LoadAnswer(job: job, kind: .completed) }

    @Test func `latency is counted from the intended time`() {
        var schedule = Schedule(rate: 1_000, .jobs(10))
        var accounts = JobAccounts()
        // The sender slept for five milliseconds: five jobs are overdue.
        while let at = schedule.take(at: 5_000_000) { accounts.send(intendedAt: at) }
        #expect(accounts.sent == 6)
        let latencies = (0..<6).compactMap { accounts.end(completed($0)).map { 6_000_000 - $0 } }
        #expect(latencies == [6_000_000, 5_000_000, 4_000_000, 3_000_000, 2_000_000, 1_000_000])
    }

    @Test func `a schedule does not move when a job is late`() {
        var schedule = Schedule(rate: 3, .jobs(4))
        #expect(schedule.take(at: 900_000_000) == 0)
        #expect(schedule.take(at: 900_000_000) == 333_333_333)
        #expect(schedule.take(at: 900_000_000) == 666_666_666)
        #expect(schedule.take(at: 900_000_000) == nil)
        #expect(schedule.nextAt == 1_000_000_000)
        #expect(schedule.take(at: 7_000_000_000) == 1_000_000_000)
        #expect(schedule.isOver(at: 0))
        #expect(schedule.nextAt == nil)
    }

    @Test func `an open loop of some seconds has a job for each interval in them`() {
        #expect(Schedule(rate: 1_000, .seconds(2.5)).jobs == 2_500)
        #expect(Schedule(rate: 0.5, .seconds(3)).jobs == 2)
        #expect(Schedule(.seconds(3)).jobs == nil)
    }

    @Test func `a closed loop gives jobs until the time is over`() {
        var schedule = Schedule(.seconds(1))
        #expect(schedule.take(at: 999_999_999) == 999_999_999)
        #expect(schedule.take(at: 1_000_000_000) == nil)
        #expect(schedule.isOver(at: 1_000_000_000))
        #expect(schedule.nextAt == nil)
    }

    @Test func `an unanswered job is lost, and one with two answers is reported`() {
        var accounts = JobAccounts()
        for at in 0..<4 { accounts.send(intendedAt: UInt64(at)) }
        #expect(accounts.end(completed(0)) == 0)
        #expect(accounts.end(completed(0)) == nil)
        #expect(accounts.end(LoadAnswer(job: 2, kind: .failed(code: "invalidValue", message: "no number"))) != nil)
        #expect(accounts.end(completed(2)) == nil)
        #expect(accounts.end(completed(4)) == nil)
        #expect(accounts.end(completed(nil)) == nil)
        #expect(accounts.end(LoadAnswer(kind: .failed(code: "busy", message: "busy: no"))) == nil)
        #expect(accounts.lost == 2 && accounts.ok == 1 && accounts.failed == 1 && accounts.unexpected == 5)
        #expect(accounts.unexpectedMessage == "busy: no")
        #expect(accounts.failures["invalidValue"]?.message == "no number")
    }

    @Test func `only a job in flight can be accepted`() {
        var accounts = JobAccounts()
        accounts.send(intendedAt: 17)
        #expect(accounts.accepted(0) == 17)
        #expect(accounts.accepted(1) == nil)
        _ = accounts.end(completed(0))
        #expect(accounts.accepted(0) == nil)
    }
}

@Suite(.timeLimit(.minutes(5)))
struct AnswerTests {
    private func read(_ text: String) throws -> LoadAnswer {
        try LoadAnswer(JSONText(copying: Array(text.utf8)), idPrefix: "run-")
    }

    private let members = #"""
        "changes":{"Employee":{"inserted":1,"updated":2,"unchanged":3,"deleted":4,"rejected":0},"D":{"inserted":10,"updated":0,"unchanged":0,"deleted":0,"rejected":0}},"rejected":[],"warnings":[],"timing":{"queued":12,"staged":340,"waited":5,"merged":95,"committed":180}
        """#

    @Test func `a completion as the server writes it is one of the job`() throws {
        let content = completedMessage(
            id: "run-123", sequence: 42, isDuplicate: false, members: Array(members.utf8))
        let answer = try read(String(decoding: content, as: UTF8.self))
        #expect(answer.job == 123)
        #expect(answer.kind == .completed)
    }

    @Test func `failures have their code, and ids of others are no jobs of the run`() throws {
        let failed = try read(
            #"{"type":"failed","id":"run-9","error":{"code":"busy","message":"Later.","retryAfterMilliseconds":5}}"#)
        #expect(failed.job == 9)
        #expect(failed.kind == .failed(code: "busy", message: "busy: Later."))
        #expect(try read(#"{"type":"accepted","id":"run-4","sequence":4}"#).kind == .accepted)
        #expect(try read(#"{"type":"accepted","id":"other-4","sequence":4}"#).job == nil)
        let error = try read(#"{"type":"error","error":{"code":"malformedJSON","message":"No."}}"#)
        #expect(error.job == nil)
        #expect(try read(#"{"type":"pong","tag":[5]}"#).job == nil)
    }

    @Test func `text that is no message is an error and no answer`() {
        #expect(throws: CommandFailure.self) { try read("{}") }
        #expect(throws: JSONError.self) { try read(#"{"type":"completed","id":"run-"#) }
    }
}

@Suite(.timeLimit(.minutes(5)))
struct HistogramTests {
    @Test func `an empty histogram has no percentile`() { #expect(LatencyHistogram().microseconds(99) == 0) }

    @Test func `jobs before the measured time are not counted`() {
        var recorder = RunRecorder()
        recorder.sent(late: 5, contentBytes: 10, frameBytes: 10)
        recorder.ended(records: 1, latency: 5)
        recorder = RunRecorder()
        // One of the warm-up that ends later counts for the rate alone.
        recorder.ended(records: 1, latency: nil)
        recorder.ended(records: 1, latency: 7)
        recorder.closeInterval(at: 1)
        #expect(recorder.jobs == 2)
        #expect(recorder.completed.count == 1)
        #expect(recorder.lag.count == 0)
    }
}

@Suite(.timeLimit(.minutes(5)))
struct ReportTests {
    private func report(jobs: Int = 100, accepted: Bool = true) -> RunReport {
        var recorder = RunRecorder()
        for job in 0..<jobs {
            recorder.sent(late: 10, contentBytes: 300, frameBytes: 100)
            if accepted { recorder.accepted(latency: UInt64(job + 1) * 500) }
            recorder.ended(records: 2, latency: UInt64(job + 1) * 1_000)
            if job % 10 == 9 { recorder.closeInterval(at: Double(job + 1) / 100) }
        }
        var result = RunResult()
        result.seconds = 1
        result.recorder = recorder
        for _ in 0..<102 { result.accounts.send(intendedAt: 0) }
        for job in 0..<100 { _ = result.accounts.end(LoadAnswer(job: job, kind: .completed)) }
        _ = result.accounts.end(LoadAnswer(job: 100, kind: .failed(code: "invalidValue", message: "no number")))
        return RunReport(offeredRate: 100, arguments: ["--seed", "1"], result: result)
    }

    private func parse(_ bytes: [UInt8]) throws -> JSONDocument { try JSONDocument(parsing: JSONText(copying: bytes)) }

    @Test func `the report as JSON has what was measured`() throws {
        let document = try parse(report().json)
        func number(_ path: String...) -> Double? {
            path.reduce(document.root as JSONValue?) { $0?[$1] }?.double
        }
        #expect(number("offeredJobsPerSecond") == 100)
        #expect(number("jobsPerSecond") == 100)
        #expect(number("recordsPerSecond") == 200)
        #expect(number("total", "sent") == 102)
        #expect(number("total", "failed") == 1)
        #expect(number("total", "lost") == 1)
        #expect(number("failures", "invalidValue") == 1)
        #expect(number("latencyMicroseconds", "completed", "p50").map { abs($0 - 50) < 0.1 } == true)
        #expect(number("latencyMicroseconds", "completed", "max").map { abs($0 - 100) < 0.1 } == true)
        #expect(number("latencyMicroseconds", "accepted", "max").map { abs($0 - 50) < 0.1 } == true)
        #expect(document.root["intervals"].map { Array($0.elements).count } == 10)
        #expect(document.root["arguments"]?.elements.compactMap(\.string) == ["--seed", "1"])
    }
}

/// A server that answers each job as a test requests. It answers greetings and `stats` by itself.
final class ScriptedServer: Sendable {
    /// An answer that ends the connection instead.
    static let close = "close"

    let path: String
    private let folder = TemporaryFolder()
    private let listener: Int32
    private let answer: @Sendable (_ job: Int, _ id: String) -> [String]

    /// - Parameter answer: the answers to the n-th job, in order; none leaves it without one.
    init(_ answer: @escaping @Sendable (_ job: Int, _ id: String) -> [String]) {
        self.answer = answer
        path = folder.path("s.sock")
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, size) }
        }
        precondition(result == 0 && listen(listener, 16) == 0, "no socket for a test")
        DispatchQueue(label: "scripted").async { [listener, answer] in
            // Closed by another thread, its number may already be the next server's.
            defer { Glibc.close(listener) }
            while true {
                let connection = accept(listener, nil, nil)
                guard connection >= 0 else { return }
                DispatchQueue(label: "scripted.connection").async { Self.serve(connection, answer) }
            }
        }
    }

    deinit { shutdown(listener, Int32(SHUT_RDWR)) }

    /// - Returns: when the client has closed.
    private static func serve(_ connection: Int32, _ answer: (Int, String) -> [String]) {
        defer { Glibc.close(connection) }
        var (unread, jobs, buffer) = ([UInt8](), 0, [UInt8](repeating: 0, count: 64 << 10))
        while true {
            while let content = next(&unread) {
                guard let document = try? JSONDocument(parsing: content) else { return }
                var answers: [String]
                switch document.root["type"]?.string ?? "job" {
                case "hello": answers = [#"{"type":"welcome","version":1,"server":"scripted 1"}"#]
                case "stats": answers = [#"{"type":"stats","commits":3,"queues":{"opening":2},"wal":{"bytes":7}}"#]
                default:
                    answers = answer(jobs, document.root["id"]?.string ?? "")
                    jobs += 1
                }
                for answer in answers {
                    guard answer != Self.close else { return }
                    guard let frame = try? RawClient.frame(Array(answer.utf8)) else { return }
                    guard send(connection, frame, frame.count, Int32(MSG_NOSIGNAL)) == frame.count else { return }
                }
            }
            let count = read(connection, &buffer, buffer.count)
            guard count > 0 else { return }
            unread += buffer.prefix(count)
        }
    }

    private static func next(_ unread: inout [UInt8]) -> JSONText? {
        var decoder = FrameDecoder()
        guard case .frame(let payload)? = try? unread.withUnsafeBytes({ try FrameScanner.scan($0) }),
            let content = try? unread.withUnsafeBytes({
                try decoder.decode(UnsafeRawBufferPointer(rebasing: $0[payload]))
            })
        else { return nil }
        unread.removeFirst(payload.upperBound)
        return content
    }
}
