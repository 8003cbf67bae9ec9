import Broker
@testable import LoadTesting
import Testing

@Suite(.timeLimit(.minutes(5)))
struct AccountTests {
    private let completed = LoadAnswer(kind: .completed)

    @Test func `latency is counted from the intended time`() {
        var schedule = Schedule(.open(jobsPerSecond: 1_000), .jobs(10))
        var accounts = JobAccounts()
        // The sender slept for five milliseconds: five jobs are overdue.
        while let at = schedule.take(at: 5_000_000) { accounts.send(intendedAt: at) }
        #expect(accounts.totals.sent == 6)
        let latencies = (0..<6).compactMap { accounts.end($0, completed).map { 6_000_000 - $0 } }
        #expect(latencies == [6_000_000, 5_000_000, 4_000_000, 3_000_000, 2_000_000, 1_000_000])
    }

    @Test func `a schedule does not move when a job is late`() {
        var schedule = Schedule(.open(jobsPerSecond: 3), .jobs(4))
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
        #expect(Schedule(.open(jobsPerSecond: 1_000), .seconds(2.5)).jobs == 2_500)
        #expect(Schedule(.open(jobsPerSecond: 0.5), .seconds(3)).jobs == 2)
        #expect(Schedule(.closed, .seconds(3)).jobs == nil)
    }

    @Test func `a closed loop gives jobs until the time is over`() {
        var schedule = Schedule(.closed, .seconds(1))
        #expect(schedule.take(at: 999_999_999) == 999_999_999)
        #expect(schedule.take(at: 1_000_000_000) == nil)
        #expect(schedule.isOver(at: 1_000_000_000))
        #expect(schedule.nextAt == nil)
    }

    @Test func `an unanswered job is lost, and one with two answers is reported`() {
        var accounts = JobAccounts()
        for at in 0..<4 { accounts.send(intendedAt: UInt64(at)) }
        #expect(accounts.end(0, completed) == 0)
        #expect(accounts.end(0, completed) == nil)
        #expect(accounts.end(2, LoadAnswer(kind: .failed(code: "invalidValue", message: "no number"))) != nil)
        #expect(accounts.end(2, completed) == nil)
        #expect(accounts.end(4, completed) == nil)
        #expect(accounts.end(nil, completed) == nil)
        #expect(accounts.lost == 2)
        #expect(
            accounts.totals
                == JobAccounts.Totals(sent: 4, ok: 1, failed: 1, repeatedAnswers: 2, strangeAnswers: 2))
        #expect(accounts.failures["invalidValue"]?.message == "no number")
    }

    @Test func `busy, duplicate and rejected are counted beside failed and ok`() {
        var accounts = JobAccounts()
        for _ in 0..<4 { accounts.send(intendedAt: 0) }
        _ = accounts.end(0, LoadAnswer(kind: .failed(code: "busy", message: "")))
        _ = accounts.end(1, LoadAnswer(kind: .completed, isDuplicate: true, objects: Completion.Changes(inserted: 3)))
        _ = accounts.end(2, LoadAnswer(kind: .completed, objects: Completion.Changes(inserted: 1, rejected: 2)))
        #expect(
            accounts.totals
                == JobAccounts.Totals(sent: 4, ok: 2, withRejects: 1, failed: 1, busy: 1, duplicate: 1))
        #expect(accounts.objects == Completion.Changes(inserted: 4, rejected: 2))
        #expect(accounts.lost == 1)
    }

    @Test func `only a job in flight can be accepted`() {
        var accounts = JobAccounts()
        accounts.send(intendedAt: 17)
        #expect(accounts.accepted(0) == 17)
        #expect(accounts.accepted(1) == nil)
        _ = accounts.end(0, completed)
        #expect(accounts.accepted(0) == nil)
    }
}
