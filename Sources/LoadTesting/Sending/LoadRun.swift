internal import BrokerJSON
internal import BrokerWire
internal import CGlibc
internal import Glibc

/// One run: one thread that sends what is due, reads what comes, and notes when.
///
/// Invariants:
/// 1. A job's latency begins when it was intended to be sent, however late it is; in a closed loop that is when there was
///    room for it.
/// 2. Frames are made by another thread, as far as possible before the clock starts.
/// 3. The clock is asked once for all that one read brought.
package final class LoadRun {
    private let options: RunOptions
    private let supply: FrameSupply
    private let reader: AnswerReader
    private let connections: [LoadConnection]
    private let watch: ServerWatch

    private var schedule: Schedule
    private var result = RunResult()
    private var chunk = PreparedFrames()
    private var placeInChunk = 0
    private var nextConnection = 0
    private var isExhausted = false

    // Nanoseconds of the monotonic clock.
    private var start: UInt64 = 0
    private var measuredFrom: UInt64 = 0
    private var isMeasuring = false
    private var lastEndAt: UInt64 = 0
    private var lastHeardAt: UInt64 = 0
    private var usageBefore = (sender: 0.0, harness: 0.0)

    /// Connects.
    ///
    /// - Parameter idPrefix: what the ids of the jobs begin with.
    /// - Throws: `cannotConnect`.
    package init(_ options: RunOptions, supply: FrameSupply, idPrefix: String) throws(LoadError) {
        self.options = options
        self.supply = supply
        schedule = options.schedule
        reader = AnswerReader(idPrefix: idPrefix)
        watch = try ServerWatch(options.socketPath)
        var connections: [LoadConnection] = []
        for _ in 0..<options.connections {
            connections.append(try LoadConnection(to: options.socketPath))
        }
        self.connections = connections
    }

    /// Runs to the end of the schedule and of the last answer.
    package func run() throws(LoadError) -> RunResult {
        try supply.prepare()
        Self.wakePunctually()
        start = monotonicNanoseconds()
        lastHeardAt = start
        measuredFrom = start + UInt64(options.warmUpSeconds * 1e9)
        if options.warmUpSeconds == 0 { beginMeasuring(at: start) }
        var nextTick = start + interval
        while true {
            var now = monotonicNanoseconds()
            if !isMeasuring, now >= measuredFrom {
                beginMeasuring(at: now)
                nextTick = now + interval
            }
            if now >= nextTick {
                if isMeasuring { result.recorder.closeInterval(at: Double(now - measuredFrom) / 1e9) }
                nextTick = max(nextTick + interval, now)
            }
            try sendDue(at: now)
            if isOver(at: now) { break }
            waitForSockets(until: nextTick)
            now = monotonicNanoseconds()
            try receive(at: now)
        }
        supply.stop()
        return try finish()
    }

    private var interval: UInt64 { UInt64(options.intervalSeconds * 1e9) }

    /// When the measured time ends; nil when that is with the last answer.
    private var measuredUntil: UInt64? {
        if case .seconds(let seconds) = schedule.extent { start + UInt64(seconds * 1e9) } else { nil }
    }

    private func isOver(at now: UInt64) -> Bool {
        if connections.allSatisfy(\.isClosed) { return true }
        if now > lastHeardAt, Double(now - lastHeardAt) > options.patienceSeconds * 1e9, result.accounts.lost > 0 {
            return true
        }
        guard isExhausted || schedule.isOver(at: now - start) else { return false }
        return result.accounts.lost == 0 && measuredUntil.map { now >= $0 } ?? true
    }

    // MARK: - Measuring

    private func beginMeasuring(at now: UInt64) {
        isMeasuring = true
        measuredFrom = now
        result.recorder.begin()
        watch.begin()
        usageBefore = (ProcessUsage.ofThisThread, ProcessUsage.ofThisProcess)
    }

    private func finish() throws(LoadError) -> RunResult {
        let end = max(measuredFrom + 1, measuredUntil ?? lastEndAt)
        result.senderSeconds = ProcessUsage.ofThisThread - usageBefore.sender
        result.harnessSeconds = ProcessUsage.ofThisProcess - usageBefore.harness
        result.recorder.closeInterval(at: Double(max(end, lastEndAt) - measuredFrom) / 1e9)
        try watch.end()
        result.seconds = Double(end - measuredFrom) / 1e9
        result.server = watch.observations
        result.frameWaits = supply.waits
        return result
    }

    // MARK: - Sending

    private func sendDue(at now: UInt64) throws(LoadError) {
        var skipped = 0
        while skipped < connections.count, !isExhausted {
            let connection = connections[nextConnection]
            nextConnection = nextConnection + 1 == connections.count ? 0 : nextConnection + 1
            guard connection.canSend, connection.inFlight < options.inFlight else {
                skipped += 1
                continue
            }
            guard try nextFrames() else {
                isExhausted = true
                break
            }
            guard let intended = schedule.take(at: now - start) else { break }
            skipped = 0
            send(on: connection, intendedAt: start + intended, at: now)
        }
        for connection in connections where connection.wantsToSend { connection.flush() }
    }

    /// Ensures that there is a frame to send; false after the last.
    private func nextFrames() throws(LoadError) -> Bool {
        while placeInChunk == chunk.jobs.count {
            guard let next = try supply.next() else { return false }
            chunk = next
            placeInChunk = 0
        }
        return true
    }

    private func send(on connection: LoadConnection, intendedAt: UInt64, at now: UInt64) {
        let job = chunk.jobs[placeInChunk]
        placeInChunk += 1
        _ = result.accounts.send(intendedAt: intendedAt, records: job.records)
        connection.enqueue(chunk.bytes[job.place])
        connection.inFlight += 1
        result.recorder.sent(late: now - intendedAt, contentBytes: job.contentBytes, frameBytes: job.place.count)
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

    /// Connections that have something to read.
    private var readable: [LoadConnection] = []

    private func receive(at now: UInt64) throws(LoadError) {
        for connection in readable {
            do throws(WireError) {
                try connection.receive { content throws(WireError) in
                    note(try reader.read(content), on: connection, at: now)
                }
            } catch {
                throw LoadError(.failed, "The server's answer cannot be read: \(error.message)")
            }
        }
    }

    private func note(_ answer: Answer, on connection: LoadConnection, at now: UInt64) {
        lastHeardAt = now
        if case .accepted = answer.kind {
            if let at = result.accounts.accepted(answer.job), at >= measuredFrom {
                result.recorder.accepted(latency: now - at)
            }
            return
        }
        guard let ended = result.accounts.end(answer.job, answer) else {
            if case .failed(_, let message) = answer.kind { result.strangeMessage = result.strangeMessage ?? message }
            return
        }
        connection.inFlight -= 1
        lastEndAt = now
        guard isMeasuring else { return }
        let latency = ended.intendedAt >= measuredFrom ? now - ended.intendedAt : nil
        if now <= measuredUntil ?? .max {
            let isCommitted = if case .failed = answer.kind { false } else { true }
            result.recorder.ended(
                records: isCommitted ? result.accounts.records(of: ended.job) : 0, latency: latency,
                stages: answer.stages)
        } else if let latency {
            result.recorder.endedLate(latency: latency)
        }
    }

    /// The kernel lets a thread sleep up to 50 µs longer than requested, unless its timer slack is set (proc(5),
    /// timerslack_ns).
    private static func wakePunctually() {
        var link = [CChar](repeating: 0, count: 256)
        let count = readlink("/proc/thread-self", &link, link.count - 1)
        guard count > 0 else { return }
        let name = String(decoding: link.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
        guard let thread = name.split(separator: "/").last, let file = fopen("/proc/\(thread)/timerslack_ns", "w")
        else {
            return
        }
        fputs("1", file)
        fclose(file)
    }
}

/// The sending and the measurements of a run.
package struct RunOptions: Sendable {
    package var socketPath: String
    package var connections = 1
    /// The maximum number of jobs without an end on each connection. In an open loop, too: jobs beyond it are sent
    /// late, which their latency includes.
    package var inFlight = 64
    package var schedule: Schedule
    /// Seconds at the beginning that are not measured.
    package var warmUpSeconds = 0.0
    package var intervalSeconds = 0.5
    /// Seconds without any answer after which what is in flight is lost.
    package var patienceSeconds = 60.0

    package init(socketPath: String, schedule: Schedule) {
        self.socketPath = socketPath
        self.schedule = schedule
    }
}

/// The result of a run.
package struct RunResult: Sendable {
    /// Seconds that were measured.
    package var seconds = 0.0
    /// Of the whole run, the warm-up with it.
    package var accounts = JobAccounts()
    /// Of the measured time only.
    var recorder = RunRecorder()
    /// The first answer that answered nothing, if it was an error.
    package var strangeMessage: String?

    package var server = ServerObservations()
    /// Processor seconds of the thread that sends and receives, and of the whole harness.
    package var senderSeconds = 0.0
    package var harnessSeconds = 0.0
    /// How often the sender had to wait for frames.
    package var frameWaits = 0

    var jobsPerSecond: Double { seconds > 0 ? Double(recorder.jobs) / seconds : 0 }
    var recordsPerSecond: Double { seconds > 0 ? Double(recorder.records) / seconds : 0 }
}

/// When jobs are to be sent: a pure value. Times are nanoseconds from the start.
package enum SendingMode: Sendable, Equatable {
    /// As soon as another has ended.
    case closed
    /// So many a second, whatever the server does.
    case open(jobsPerSecond: Double)
}

/// When the sending ends.
package enum Extent: Sendable, Equatable {
    case jobs(Int)
    case seconds(Double)
}

package struct Schedule: Sendable {
    package let mode: SendingMode
    package let extent: Extent
    /// Jobs given so far.
    package private(set) var given = 0

    package init(_ mode: SendingMode, _ extent: Extent) {
        self.mode = mode
        self.extent = extent
    }

    /// The number of all jobs; nil when only the time limits the run.
    package var jobs: Int? {
        switch (extent, mode) {
        case (.jobs(let count), _): count
        case (.seconds(let seconds), .open(let rate)): Int((seconds * rate).rounded(.up))
        case (.seconds, .closed): nil
        }
    }

    /// When the next job is to be sent, in an open loop; the n-th always at the same time, however late others were.
    package var nextAt: UInt64? {
        guard case .open(let rate) = mode, !isOver(at: 0) else { return nil }
        return UInt64(Double(given) / rate * 1e9)
    }

    /// No job is to be sent any more.
    package func isOver(at now: UInt64) -> Bool {
        if let jobs { return given >= jobs }
        if case .seconds(let seconds) = extent { return Double(now) >= seconds * 1e9 }
        return false
    }

    /// Takes the next job, if it is due.
    ///
    /// - Returns: when it ought to be sent; nil when there is none to send now.
    package mutating func take(at now: UInt64) -> UInt64? {
        guard !isOver(at: now) else { return nil }
        guard let at = nextAt else {
            given += 1
            return now
        }
        guard at <= now else { return nil }
        given += 1
        return at
    }
}
