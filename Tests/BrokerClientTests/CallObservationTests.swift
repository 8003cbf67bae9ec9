import Broker
import InMemoryLogging
import InMemoryTracing
import Logging
import MetricsTestKit
import Synchronization
import Testing
import Tracing

@testable import BrokerClient

/// Metrics, spans and log messages of fetches and feeds.
@Suite(.timeLimit(.minutes(5))) struct CallObservationTests {
    private let tracer = InMemoryTracer()
    private let metrics = TestMetrics()
    private let observation: CallObservation

    init() { observation = CallObservation(.client, name: "tests", tracer: tracer, metrics: metrics) }

    private func count(_ calls: String, _ outcome: String) throws -> Int64 {
        try metrics.expectCounter("broker_client_\(calls)_total", [("client", "tests"), ("outcome", outcome)])
            .totalValue
    }

    private func inProgress(_ calls: String) throws -> Double? {
        try metrics.expectMeter("broker_client_\(calls)_in_progress", [("client", "tests")]).lastValue
    }

    private static let answer = QueryResult(objects: RawJSON("[]"))

    @Test func `a fetch is a span with its entity, counted by its outcome`() async throws {
        let query = Query("Employee")
        _ = try await observation.observing(query) { Self.answer }
        await #expect(throws: BrokerError.closed) {
            try await observation.observing(query) { throw BrokerError.closed }
        }
        await #expect(throws: CancellationError.self) {
            try await observation.observing(query) { throw CancellationError() }
        }
        let spans = tracer.finishedSpans
        #expect(spans.map(\.operationName) == ["broker fetch", "broker fetch", "broker fetch"])
        #expect(spans.allSatisfy { $0.kind == .client })
        #expect(spans.allSatisfy { $0.attributes.get("db.collection.name") == .string("Employee") })
        #expect(spans.map(\.errors.count) == [0, 1, 1])
        for outcome in ["completed", "failed", "cancelled"] { #expect(try count("fetches", outcome) == 1) }
        #expect(try inProgress("fetches") == 0)
        #expect(try metrics.expectTimer("broker_client_fetch_duration", [("client", "tests")]).values.count == 3)
    }

    /// Answers, then nil, or an error.
    private func results(_ count: Int, then error: BrokerError? = nil) -> QueryResults {
        observation.results(of: Query("Employee")) {
            let left = Mutex(count)
            return {
                let isAnswer = left.withLock { left in
                    left -= 1
                    return left >= 0
                }
                if !isAnswer, let error { throw error }
                return isAnswer ? Self.answer : nil
            }
        }
    }

    @Test func `an iteration over answers is one fetch, until its end, its error, or the end of its iterator`()
        async throws
    {
        for try await _ in results(3) {
            #expect(tracer.activeSpans.count == 1)
            #expect(try inProgress("fetches") == 1)
        }
        #expect(tracer.finishedSpans.map(\.errors.count) == [0])
        await #expect(throws: BrokerError.closed) { for try await _ in results(1, then: .closed) {} }
        #expect(tracer.finishedSpans.map(\.errors.count) == [0, 1])
        for try await _ in results(3) { break }
        #expect(tracer.finishedSpans.count == 3 && tracer.activeSpans.isEmpty)
        #expect(try count("fetches", "completed") == 2)
        #expect(try count("fetches", "failed") == 1)
        #expect(try inProgress("fetches") == 0)
    }

    @Test func `a client's fetch, iteration over objects and feed are observed`() async throws {
        var server = try await FakeServer()
        let client = RemoteBroker(
            .unixSocket(server.path), configuration: .init(), logger: .silent, beginning: .whenNeeded, tracer: tracer)
        let reading = Task {
            _ = try await client.fetchCount(of: "Employee")
            _ = try await client.objects(RawJSON.self, from: "Employee").collect()
            for try await _ in client.commits(of: ["Employee"]) { break }
        }
        var connection = try await server.greet()
        try await connection.send(#"{"type":"objects","objects":1,"tag":\#(try await connection.nextMembers().tag)}"#)
        var stream = try await server.hear().connection
        _ = try await stream.next()
        try await stream.send(#"{"type":"objects","objects":[],"more":false}"#)
        try await connection.send(#"{"type":"pong","tag":\#(try await connection.nextMembers().tag)}"#)
        var feed = try await server.hear().connection
        _ = try await feed.next()
        try await feed.send(#"{"type":"subscribed","after":7,"oldest":0}"#)
        try await reading.value
        #expect(tracer.finishedSpans.map(\.operationName) == ["broker fetch", "broker fetch", "broker commit"])
        #expect(tracer.activeSpans.isEmpty)
        client.close()
        try await server.stop()
    }

    @Test func `each commit of a feed is a span, and a subscription is one feed`() async throws {
        let commits = observation.commits(CommitQuery(of: ["Employee"])) {
            let last = Mutex<Int64>(0)
            return {
                let sequence = last.withLock { last in
                    last += 1
                    return last
                }
                guard sequence < 3 else { throw BrokerError.closed }
                return Commit(sequence: sequence)
            }
        }
        await #expect(throws: BrokerError.closed) {
            for try await commit in commits {
                let spans = tracer.finishedSpans
                #expect(spans.last?.attributes.get("broker.job.sequence") == .int64(commit.sequence))
                #expect(spans.count == Int(commit.sequence) && tracer.activeSpans.isEmpty)
                #expect(try inProgress("feeds") == 1)
            }
        }
        #expect(tracer.finishedSpans.map(\.operationName) == ["broker commit", "broker commit", "broker commit"])
        #expect(tracer.finishedSpans.map(\.errors.count) == [0, 0, 1])
        #expect(try metrics.expectCounter("broker_client_commits_total", [("client", "tests")]).totalValue == 2)
        #expect(try count("feeds", "failed") == 1)
        #expect(try inProgress("feeds") == 0)
    }

    @Test func `the end of a call is logged to the logger of the task that made it`() async throws {
        let log = InMemoryLogHandler()
        var logger = Logger(label: "request") { _ in log }
        logger.logLevel = .debug
        logger[metadataKey: "request"] = "7"
        var job = Job(.process(json: "{}", as: "E"), id: "a")
        let end = withLogger(logger) { _ in observation.begin(&job) }
        // Ended where the logger is another one.
        end(.failure(BrokerError(.outcomeUnknown, "No answer.", jobID: "a")))
        try await withLogger(logger) { _ in _ = try await observation.observing(Query("Employee")) { Self.answer } }
        let entries = log.entries
        try #require(entries.count == 2)
        #expect(entries.map(\.message) == ["A job has ended.", "A fetch has ended."])
        #expect(entries.allSatisfy { $0.metadata["request"] == "7" && $0.metadata["duration"] != nil })
        #expect(entries[0].metadata["broker.job.id"] == "a" && entries[0].metadata["outcome"] == "unknown")
        #expect((entries[0].error as? BrokerError)?.code == .outcomeUnknown)
        #expect(entries[1].metadata["db.collection.name"] == "Employee")
        #expect(entries[1].metadata["outcome"] == "completed" && entries[1].error == nil)
        logger.logLevel = .info
        try await withLogger(logger) { _ in _ = try await observation.observing(Query("Employee")) { Self.answer } }
        #expect(log.entries.count == 2)
    }
}
