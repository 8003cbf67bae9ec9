import Broker
import InMemoryTracing
import Logging
import TestSupport
import Testing

import BrokerRequests
@testable import BrokerEmbedded

@Suite(.timeLimit(.minutes(5))) struct ObservationTests {
    private let store = TestStore()

    /// A broker whose jobs are traced.
    private func open(_ tracer: InMemoryTracer) async throws -> EmbeddedBroker {
        try await EmbeddedBroker.open(
            .file(store.path), .json(TestStore.model), [], .init(), .init(),
            Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() },
            observation: JobObservation(.embedded, tracer: tracer))
    }

    @Test func `the span of a submitted job lasts until the job ends`() async throws {
        let tracer = InMemoryTracer()
        let broker = try await open(tracer)
        try await broker.administer(.pause)
        let job = try await broker.submit(.process(json: #"{"id": 1}"#, as: "Employee", id: "a"))
        #expect(tracer.finishedSpans.isEmpty && tracer.activeSpans.count == 1)
        try await broker.administer(.resume)
        _ = try await job.completion
        let span = try #require(tracer.finishedSpans.first)
        #expect(span.operationName == "broker job" && span.kind == .internal)
        #expect(span.attributes.get("broker.job.id") == .string("a"))
        #expect(span.attributes.get("broker.job.sequence") == .int64(1))
        await broker.stop()
    }

    @Test func `a job that fails, and one that is refused, end their spans with the error`() async throws {
        let tracer = InMemoryTracer()
        let broker = try await open(tracer)
        let failed = try await broker.submit(.process(json: #"{"id": "x"}"#, as: "Employee"))
        await #expect(throws: BrokerError.self) { _ = try await failed.completion }
        await #expect(throws: BrokerError.self) { try await broker.process(json: "{}", as: "Nothing") }
        await #expect(throws: BrokerError.self) { _ = try await broker.submit(.process(json: "{", as: "Employee")) }
        #expect(tracer.finishedSpans.map(\.errors.count) == [1, 1, 1] && tracer.activeSpans.isEmpty)
        await broker.stop()
    }
}
