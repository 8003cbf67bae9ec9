import BrokerCoordinator
import BrokerStore
import Testing

@testable import brokerd

/// The notifications to a service manager, without a clock and a socket.
@Suite(.timeLimit(.minutes(5))) struct ServiceNoticesTests {
    private let second: Int64 = 1_000_000

    private func serving(_ jobs: Int = 0, waiting cause: String? = nil, isPaused: Bool = false) -> ServiceStatus {
        var condition = CoordinatorCondition()
        (condition.jobs, condition.waitingCause, condition.isPaused) = (jobs, cause, isPaused)
        return ServiceStatus(condition, connections: 1, refusal: nil)
    }

    @Test func `the watchdog is fed at half its time while the writer makes progress, and not when it is stuck`() {
        var notices = ServiceNotices(watchdogMicroseconds: 20 * second)
        _ = notices.ready(serving(), at: 0)
        var fed: [Int64] = []
        for time in 1...100 as ClosedRange<Int64> {
            // From second 50 to 70 one step takes all the time; then the writer waits for jobs.
            let sample = WriterActivity.Sample(isWaiting: time > 70, steps: Int(min(time, 50)))
            if notices.tick(sample, serving(), at: time * second).contains("WATCHDOG=1") { fed.append(time) }
        }
        #expect(fed == [1, 11, 21, 31, 41, 51, 71, 81, 91])
        #expect(ServiceNotices(watchdogMicroseconds: 400_000).tickMicroseconds == 50_000)
    }

    @Test func `a start, a reload and a stop get more time while there is progress, and a running server none`() {
        var notices = ServiceNotices(watchdogMicroseconds: nil)
        func extends(_ from: Int64, _ through: Int64, progress: Bool) -> Int {
            (from...through).count { time in
                let sample = WriterActivity.Sample(steps: progress ? Int(time) : 0)
                return notices.tick(sample, .starting, at: time * second).contains("EXTEND_TIMEOUT_USEC=60000000")
            }
        }
        #expect(extends(1, 20, progress: true) == 4)
        #expect(extends(21, 100, progress: false) == 1)
        _ = notices.ready(serving(), at: 100 * second)
        #expect(extends(101, 120, progress: true) == 0)
        _ = notices.reloadBegan(at: 120 * second)
        #expect(extends(121, 140, progress: true) == 4)
        _ = notices.reloadEnded(serving(), at: 140 * second)
        #expect(extends(141, 160, progress: true) == 0)
        #expect(notices.stopping(serving(), at: 160 * second).first == "STOPPING=1")
        #expect(extends(161, 180, progress: true) == 4)
    }

    @Test func `a reload that is asked for during another is notified with its time, and both end together`() {
        var notices = ServiceNotices(watchdogMicroseconds: nil)
        _ = notices.ready(serving(), at: 0)
        #expect(notices.reloadBegan(at: 5).prefix(2) == ["RELOADING=1", "MONOTONIC_USEC=5"])
        #expect(notices.reloadBegan(at: 7).prefix(2) == ["RELOADING=1", "MONOTONIC_USEC=7"])
        #expect(notices.isReloading)
        #expect(notices.reloadEnded(serving(), at: 9).isEmpty)
        #expect(notices.reloadEnded(serving(), at: 11).first == "READY=1")
        #expect(!notices.isReloading)
    }

    @Test func `the status names the cause of a wait at once, and numbers are sent every ten seconds`() {
        var notices = ServiceNotices(watchdogMicroseconds: nil)
        #expect(notices.ready(serving(), at: 0) == ["READY=1", "STATUS=Serving: 1 connection, 0 jobs in flight."])
        let sample = WriterActivity.Sample()
        #expect(notices.tick(sample, serving(2), at: 2 * second).isEmpty)
        let waiting = serving(2, waiting: "The disk\nis full.")
        #expect(
            notices.tick(sample, waiting, at: 3 * second)
                == [#"STATUS=Waiting for the store: 1 connection, 2 jobs in flight. The disk\u{A}is full."#])
        #expect(notices.tick(sample, waiting, at: 30 * second).isEmpty)
        #expect(
            notices.tick(sample, serving(1, isPaused: true), at: 31 * second).first?.hasPrefix("STATUS=Paused") == true)
        #expect(notices.tick(sample, serving(2, isPaused: true), at: 40 * second).isEmpty)
        #expect(notices.tick(sample, serving(2, isPaused: true), at: 41 * second).count == 1)
    }

    @Test func `what the manager addressed to another process is ignored`() {
        let variables = [
            "NOTIFY_SOCKET": "@a", "WATCHDOG_USEC": "5", "WATCHDOG_PID": "7", "LISTEN_FDS": "1", "LISTEN_PID": "7",
        ]
        let own = ServiceEnvironment(variables, process: 7)
        #expect((own.notifySocket, own.watchdogMicroseconds, own.descriptorCount) == ("@a", 5, 1))
        let other = ServiceEnvironment(variables, process: 8)
        #expect((other.notifySocket, other.watchdogMicroseconds, other.descriptorCount) == ("@a", nil, 0))
        #expect(ServiceEnvironment(["WATCHDOG_USEC": "5"], process: 8).watchdogMicroseconds == 5)
        #expect(ServiceEnvironment(["WATCHDOG_USEC": "-5", "LISTEN_FDS": "1"], process: 8) == .init([:], process: 8))
    }
}
