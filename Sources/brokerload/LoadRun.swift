import BrokerCommandLine
import BrokerWire
import CGlibc
import Glibc

/// When the sending ends.
enum Extent: Sendable, Equatable {
    case jobs(Int)
    case seconds(Double)
}

/// When jobs are to be sent: a pure value. Times are nanoseconds from the start.
struct Schedule: Sendable {
    /// Jobs a second, whatever the server does; nil sends each as soon as another has ended.
    let rate: Double?
    let extent: Extent
    /// Jobs given so far.
    private var given = 0

    init(rate: Double? = nil, _ extent: Extent) {
        self.rate = rate
        self.extent = extent
    }

    /// The number of all jobs; nil when only the time limits the run.
    var jobs: Int? {
        switch extent {
        case .jobs(let count): count
        case .seconds(let seconds): rate.map { Int((seconds * $0).rounded(.up)) }
        }
    }

    /// When the next job is to be sent, in an open loop; the n-th always at the same time, however late others were.
    var nextAt: UInt64? {
        guard let rate, !isOver(at: 0) else { return nil }
        return UInt64(Double(given) / rate * 1e9)
    }

    /// No job is to be sent any more.
    func isOver(at now: UInt64) -> Bool {
        if let jobs { return given >= jobs }
        if case .seconds(let seconds) = extent { return Double(now) >= seconds * 1e9 }
        return false
    }

    /// Takes the next job, if it is due.
    ///
    /// - Returns: when it ought to be sent; nil when there is none to send now.
    mutating func take(at now: UInt64) -> UInt64? {
        guard !isOver(at: now) else { return nil }
        let at = nextAt ?? now
        guard at <= now else { return nil }
        given += 1
        return at
    }
}

/// The sent jobs and their answers: a pure value, so that no job is counted twice or forgotten. Times are nanoseconds of one clock.
struct JobAccounts: Sendable {
    private var jobs: [(intendedAt: UInt64, hasEnded: Bool)] = []
    private(set) var ok = 0
    private(set) var failed = 0
    /// Failures by their code, with the first message.
    private(set) var failures: [String: (count: Int, message: String)] = [:]
    /// Answers to jobs that had ended, or to nothing that was asked.
    private(set) var unexpected = 0
    /// The first of these that was an error.
    private(set) var unexpectedMessage: String?

    var sent: Int { jobs.count }
    /// Jobs without an end.
    var lost: Int { sent - ok - failed }

    /// Notes a job as sent. Its number is 0, 1, 2 …
    ///
    /// - Parameter intendedAt: when it ought to have been sent; its latency begins then.
    mutating func send(intendedAt: UInt64) { jobs.append((intendedAt, false)) }

    /// When an `accepted` answers a job in flight; nil when it does not.
    func accepted(_ job: Int?) -> UInt64? {
        guard let job, jobs.indices.contains(job), !jobs[job].hasEnded else { return nil }
        return jobs[job].intendedAt
    }

    /// Notes an end.
    ///
    /// - Returns: when the job was intended to be sent; nil when the answer ends nothing.
    mutating func end(_ answer: LoadAnswer) -> UInt64? {
        guard let job = answer.job, let intendedAt = accepted(job) else {
            unexpected += 1
            if case .failed(_, let message) = answer.kind { unexpectedMessage = unexpectedMessage ?? message }
            return nil
        }
        jobs[job].hasEnded = true
        if case .failed(let code, let message) = answer.kind {
            failed += 1
            failures[code, default: (0, message)].count += 1
        } else {
            ok += 1
        }
        return intendedAt
    }
}

/// The frames of a run's jobs, in order. Some are made before the clock starts; the others when they are sent, in the time of the
/// harness.
final class FrameSupply {
    typealias Frame = (bytes: [UInt8], contentBytes: Int)

    private var source: JobSource
    /// Nil for no end.
    private let jobs: Int?
    private var made = 0
    private var encoder = FrameEncoder()
    private var prepared: [Frame] = []
    private var taken = 0

    init(_ options: JobOptions, jobs: Int?) {
        source = JobSource(options)
        self.jobs = jobs
    }

    /// Makes frames of about so many bytes, or all.
    func prepare(bytes: Int) throws(CommandFailure) {
        var total = 0
        while total < bytes, let frame = try make() {
            total += frame.bytes.count
            prepared.append(frame)
        }
    }

    var isEmpty: Bool { taken == jobs }

    func next() throws(CommandFailure) -> Frame? {
        guard !isEmpty else { return nil }
        taken += 1
        return taken <= prepared.count ? prepared[taken - 1] : try make()
    }

    private func make() throws(CommandFailure) -> Frame? {
        guard made != jobs else { return nil }
        let content = source.next()
        made += 1
        do throws(WireError) {
            return (try encoder.encode(content), content.count)
        } catch {
            throw CommandFailure(.usage, "Job \(made - 1) fits no frame: \(error.message) Lower --records.")
        }
    }
}

struct RunOptions: Sendable {
    var socketPath: String
    var connections = 1
    /// The maximum number of jobs without an end on each connection. In an open loop, too: jobs beyond it are sent
    /// late, which their latency includes.
    var inFlight = 64
    var schedule: Schedule
    /// Seconds at the beginning that are not measured.
    var warmUpSeconds = 0.0
    var intervalSeconds = 0.5
    /// Seconds without any answer after which what is in flight is lost.
    var patienceSeconds = 60.0
    /// Bytes of frames that are made before the clock starts.
    var preparedBytes = 256 << 20
}

/// One run: one thread that sends what is due, reads what comes, and notes when.
///
/// Invariants:
/// 1. A job's latency begins when it was intended to be sent, however late it is; in a closed loop that is when there was
///    room for it.
/// 2. The clock is asked once for all that one read brought.
final class LoadRun {
    private let options: RunOptions
    private let jobs: JobOptions
    private let supply: FrameSupply
    private let connections: [LoadConnection]
    private let watch: ServerWatch

    private var schedule: Schedule
    private var result = RunResult()
    private var nextConnection = 0
    /// Connections that have something to read.
    private var readable: [LoadConnection] = []

    // Nanoseconds of the monotonic clock.
    private var start: UInt64 = 0
    private var measuredFrom: UInt64 = 0
    private var isMeasuring = false
    private var lastEndAt: UInt64 = 0
    private var lastHeardAt: UInt64 = 0
    private var usageBefore = (sender: 0.0, harness: 0.0)

    /// Connects.
    init(_ options: RunOptions, _ jobs: JobOptions) throws {
        self.options = options
        self.jobs = jobs
        supply = FrameSupply(jobs, jobs: options.schedule.jobs)
        schedule = options.schedule
        watch = try ServerWatch(options.socketPath)
        connections = try (0..<options.connections).map { _ in try LoadConnection(to: options.socketPath) }
    }

    /// Runs to the end of the schedule and of the last answer.
    func run() throws -> RunResult {
        try supply.prepare(bytes: options.preparedBytes)
        Self.wakePunctually()
        start = monotonicNanoseconds()
        lastHeardAt = start
        measuredFrom = start + UInt64(options.warmUpSeconds * 1e9)
        if options.warmUpSeconds == 0 { beginMeasuring(at: start) }
        let interval = UInt64(options.intervalSeconds * 1e9)
        var nextTick = start + interval
        while true {
            let now = monotonicNanoseconds()
            if !isMeasuring, now >= measuredFrom {
                beginMeasuring(at: now)
                nextTick = now + interval
            }
            if now >= nextTick {
                if isMeasuring { result.recorder.closeInterval(at: Double(now - measuredFrom) / 1e9) }
                nextTick = max(nextTick + interval, now)
            }
            try sendDue(at: now)
            if isOver(at: now) { return try finish() }
            waitForSockets(until: nextTick)
            try receive(at: monotonicNanoseconds())
        }
    }

    /// When the measured time ends; nil when that is with the last answer.
    private var measuredUntil: UInt64? {
        if case .seconds(let seconds) = schedule.extent { start + UInt64(seconds * 1e9) } else { nil }
    }

    private func isOver(at now: UInt64) -> Bool {
        if connections.allSatisfy(\.isClosed) { return true }
        if now > lastHeardAt, Double(now - lastHeardAt) > options.patienceSeconds * 1e9, result.accounts.lost > 0 {
            return true
        }
        guard schedule.isOver(at: now - start) else { return false }
        return result.accounts.lost == 0 && measuredUntil.map { now >= $0 } ?? true
    }

    // MARK: - Measuring

    private func beginMeasuring(at now: UInt64) {
        isMeasuring = true
        measuredFrom = now
        // All that was counted so far was warm-up.
        result.recorder = RunRecorder()
        watch.begin()
        usageBefore = (ProcessUsage.ofThisThread, ProcessUsage.ofThisProcess)
    }

    private func finish() throws -> RunResult {
        let end = max(measuredFrom + 1, measuredUntil ?? lastEndAt)
        result.senderSeconds = ProcessUsage.ofThisThread - usageBefore.sender
        result.harnessSeconds = ProcessUsage.ofThisProcess - usageBefore.harness
        result.recorder.closeInterval(at: Double(max(end, lastEndAt) - measuredFrom) / 1e9)
        try watch.end()
        result.seconds = Double(end - measuredFrom) / 1e9
        result.server = watch.observations
        return result
    }

    // MARK: - Sending

    private func sendDue(at now: UInt64) throws {
        var skipped = 0
        while skipped < connections.count, !supply.isEmpty {
            let connection = connections[nextConnection]
            nextConnection = nextConnection + 1 == connections.count ? 0 : nextConnection + 1
            guard connection.canSend, connection.inFlight < options.inFlight else {
                skipped += 1
                continue
            }
            guard let at = schedule.take(at: now - start), let frame = try supply.next() else { break }
            skipped = 0
            result.accounts.send(intendedAt: start + at)
            connection.enqueue(frame.bytes)
            connection.inFlight += 1
            result.recorder.sent(
                late: now - start - at, contentBytes: frame.contentBytes, frameBytes: frame.bytes.count)
        }
        for connection in connections where connection.wantsToSend { connection.flush() }
    }

    // MARK: - Waiting and receiving

    private func waitForSockets(until tick: UInt64) {
        var polls = connections.map { connection in
            pollfd(
                fd: connection.isClosed ? -1 : connection.descriptor,
                events: Int16(POLLIN | (connection.wantsToSend ? POLLOUT : 0)), revents: 0)
        }
        var until = isMeasuring ? tick : min(tick, measuredFrom)
        if let at = schedule.nextAt, connections.contains(where: { $0.canSend && $0.inFlight < options.inFlight }) {
            until = min(until, start + at)
        }
        let now = monotonicNanoseconds()
        if let measuredUntil, measuredUntil > now { until = min(until, measuredUntil) }
        let wait = until > now ? until - now : 0
        var time = timespec(tv_sec: Int(wait / 1_000_000_000), tv_nsec: Int(wait % 1_000_000_000))
        _ = broker_poll(&polls, UInt(polls.count), &time)
        readable = polls.indices.filter { polls[$0].revents != 0 }.map { connections[$0] }
    }

    private func receive(at now: UInt64) throws {
        for connection in readable {
            do {
                try connection.receive { content in
                    note(try LoadAnswer(content, idPrefix: jobs.idPrefix), on: connection, at: now)
                }
            } catch {
                throw CommandFailure("The server's answer cannot be read: \(error)")
            }
        }
    }

    private func note(_ answer: LoadAnswer, on connection: LoadConnection, at now: UInt64) {
        lastHeardAt = now
        if answer.kind == .accepted {
            if let at = result.accounts.accepted(answer.job), at >= measuredFrom {
                result.recorder.accepted(latency: now - at)
            }
            return
        }
        guard let intendedAt = result.accounts.end(answer) else { return }
        connection.inFlight -= 1
        lastEndAt = now
        guard isMeasuring else { return }
        let latency = intendedAt >= measuredFrom ? now - intendedAt : nil
        if now <= measuredUntil ?? .max {
            result.recorder.ended(records: answer.kind == .completed ? jobs.recordsOfJob : 0, latency: latency)
        } else if let latency {
            result.recorder.endedLate(latency: latency)
        }
    }

    /// The kernel lets a thread sleep up to 50 µs longer than requested, unless its timer slack is set (proc(5),
    /// timerslack_ns).
    private static func wakePunctually() {
        // The link names the thread: `1234/task/1240`.
        var link = [UInt8](repeating: 0, count: 256)
        let count = link.withUnsafeMutableBytes { readlink("/proc/thread-self", $0.baseAddress!, $0.count) }
        let name = String(decoding: link.prefix(max(0, count)), as: UTF8.self)
        guard let thread = name.split(separator: "/").last, let file = fopen("/proc/\(thread)/timerslack_ns", "w")
        else { return }
        fputs("1", file)
        fclose(file)
    }
}
