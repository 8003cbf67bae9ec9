package import Broker
import BrokerClient
import BrokerJSON
import BrokerModel
import BrokerWire

/// The state of a server at the newest sample, and the numbers of the last hour: one request for any number of pages.
actor Watcher {
    static let interval = Duration.seconds(5)
    /// Of an hour.
    static let capacity = 720

    /// The numbers of the charts at one sample; nil while the server did not answer, and of rates after its start.
    struct Point {
        var jobs: Double?
        var records: Double?
        var inFlight: Double?
        var p99: Double?
        var wal: Double?
        var memory: Double?
    }

    /// What a page shows.
    struct Reading: Sendable {
        var health: Health
        /// The newest that the server has sent, perhaps before it was lost.
        var statistics: Statistics?
        /// Of the `jobs` message.
        var running: [ModelValue] = []
    }

    private let client: RemoteBroker
    private(set) var reading = Reading(health: Health(.unreachable, "The server has not answered yet."))
    private(set) var points: [Point] = []
    private var before: (statistics: Statistics, at: ContinuousClock.Instant)?

    init(_ client: RemoteBroker) { self.client = client }

    /// Asks the server once.
    func sample() async {
        var point = Point()
        do {
            let statistics = try await client.statistics()
            let now = ContinuousClock.now
            point = Point(statistics)
            if let before, let started = statistics.uptimeMilliseconds,
                let earlier = before.statistics.uptimeMilliseconds,
                started >= earlier
            {
                let seconds = max(0.001, (before.at.duration(to: now)) / .seconds(1))
                point.jobs = Double(statistics.jobs.completed - before.statistics.jobs.completed) / seconds
                point.records = Double(statistics.objects.sum - before.statistics.objects.sum) / seconds
            }
            before = (statistics, now)
            reading = Reading(health: Health(statistics), statistics: statistics)
            let jobs = try? await client.jobs(JobsMessage(lists: [.running], limit: 10))
            reading.running = jobs.flatMap { try? ModelValue($0) }?["running"]?.elements ?? []
        } catch {
            reading.health = Health(withoutAnswer: error)
            before = nil
        }
        points.append(point)
        if points.count > Self.capacity { points.removeFirst(points.count - Self.capacity) }
    }
}

extension Watcher.Point {
    fileprivate init(_ statistics: Statistics) {
        inFlight = Double(statistics.jobs.inFlight)
        // No job takes no time.
        p99 = statistics.lastMinute.flatMap {
            $0.latencies.total.max == .zero ? nil : $0.latencies.total.p99 / .microseconds(1)
        }
        wal = Double(statistics.wal.bytes)
        memory = statistics.memory.map { Double($0.residentBytes) }
    }
}

extension Statistics {
    /// The stages of jobs, in their order.
    package static let stages: [(name: String, of: @Sendable (Stages<DurationPercentiles>) -> DurationPercentiles?)] = [
        ("queued", \.queued), ("staged", \.staged), ("journal", \.journalSynced), ("waited", \.waited),
        ("merged", \.merged), ("committed", \.committed), ("total", \.total),
    ]
}

extension Statistics.Objects {
    /// Of all that happened to records; deletions of a rule count, too.
    var sum: Int { inserted + updated + unchanged + deleted + rejected }
}

/// The newest commits, from a subscription of this console.
actor FeedLog {
    static let capacity = 200

    struct Entry: Sendable {
        let commit: Commit
        /// Nil for one from before the console began.
        let seconds: Int?
    }

    private let client: RemoteBroker
    /// The newest first.
    private(set) var entries: [Entry] = []
    /// Why there is no subscription now.
    private(set) var fault: String?
    /// Rises with each change.
    private(set) var version = 0

    init(_ client: RemoteBroker) { self.client = client }

    /// Follows the store until the task is cancelled. It begins with the last commits that the server has.
    func run(now: @Sendable () -> Int) async {
        var after: Int64?
        /// Of the newest commit when this began.
        var begin: Int64?
        while !Task.isCancelled {
            do {
                var query = CommitQuery()
                query.reply = .summary
                query.after = after
                for try await commit in client.commits(for: query) {
                    fault = nil
                    guard let begin else {
                        // The first one says where the feed is.
                        begin = commit.sequence
                        after = max(0, commit.sequence - Int64(Self.capacity))
                        break
                    }
                    after = commit.sequence
                    add(commit, commit.sequence > begin ? now() : nil)
                }
            } catch let error as BrokerError where error.code == .gone {
                // Older commits are forgotten.
                after = nil
            } catch {
                fail("\(error)")
                try? await Task.sleep(for: Watcher.interval)
            }
        }
    }

    private func fail(_ message: String) {
        if fault != message { version += 1 }
        fault = message
    }

    private func add(_ commit: Commit, _ seconds: Int?) {
        guard !commit.changes.isEmpty else { return }
        entries.insert(Entry(commit: commit, seconds: seconds), at: 0)
        if entries.count > Self.capacity { entries.removeLast() }
        version += 1
    }
}

/// Live pages, by what they show: each event is made once, and goes to all of them.
actor Broadcast {
    enum Topic: String {
        case now, jobs, clients, feed
    }

    private typealias Continuation = AsyncThrowingStream<[UInt8], any Error>.Continuation

    private var listeners: [Topic: [Int: Continuation]] = [:]
    private var number = 0

    func hasListeners(_ topic: Topic) -> Bool { listeners[topic]?.isEmpty == false }

    /// A slow reader misses events, and gets the newest.
    func listen(_ topic: Topic, first: HTML) -> AsyncThrowingStream<[UInt8], any Error> {
        number += 1
        let number = number
        let (stream, continuation) = AsyncThrowingStream.makeStream(
            of: [UInt8].self, bufferingPolicy: .bufferingNewest(1))
        continuation.onTermination = { [weak self] _ in Task { await self?.remove(number, topic) } }
        listeners[topic, default: [:]][number] = continuation
        continuation.yield(Self.event(first))
        return stream
    }

    private func remove(_ number: Int, _ topic: Topic) { listeners[topic]?[number] = nil }

    func send(_ html: HTML, to topic: Topic) {
        let event = Self.event(html)
        for listener in (listeners[topic] ?? [:]).values { listener.yield(event) }
    }

    private static func event(_ html: HTML) -> [UInt8] {
        let lines = html.text.split(separator: "\n", omittingEmptySubsequences: false)
        return Array((lines.map { "data: \($0)\n" }.joined() + "\n").utf8)
    }
}
