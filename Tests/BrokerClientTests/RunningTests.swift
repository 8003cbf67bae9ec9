import Broker
import Foundation
import InMemoryTracing
import ServiceLifecycle
import ServiceLifecycleTestKit
import Testing
import Tracing

@testable import BrokerClient

/// A client as a service: it is made without a connection, runs, and ends.
@Suite(.timeLimit(.minutes(5))) struct RunningTests {
    private let record = Array(#"{"id":1}"#.utf8)

    /// Returns when the client has taken that many jobs.
    private func wait(_ client: BrokerClient, forJobs count: Int) async throws {
        while client.unansweredJobCount < count {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    @Test func `it connects when it is run, and its states are published, the current one first`() async throws {
        var server = try await FakeServer()
        let client = BrokerClient(.unixSocket(server.path))
        var states = client.connectionStates.makeAsyncIterator()
        #expect(await states.next() == .idle)
        let running = Task { await client.run() }
        _ = try await server.greet()
        #expect(await states.next() == .connecting)
        #expect(await states.next() == .connected)
        var later = client.connectionStates.makeAsyncIterator()
        #expect(await later.next() == .connected)
        running.cancel()
        await running.value
        while let state = await states.next() { #expect(state == .closed) }
        await #expect(throws: BrokerError.closed) { try await client.ping() }
        try await server.stop()
    }

    @Test func `while it runs it waits for a server that starts later, and connects again after a loss`() async throws {
        let path = FakeServer.freePath()
        let client = BrokerClient(.unixSocket(path))
        let running = Task { await client.run() }
        var states = client.connectionStates.makeAsyncIterator()
        while await states.next() != .connecting {}
        var server = try await FakeServer(path: path)
        let connection = try await server.greet()
        #expect(await states.next() == .connected)
        try await connection.close()
        _ = try await server.greet()
        #expect(await states.next() == .connecting)
        #expect(await states.next() == .connected)
        running.cancel()
        await running.value
        try await server.stop()
    }

    @Test func `a graceful shutdown lets a fetch that has begun go on to its end`() async throws {
        var server = try await FakeServer()
        let client = BrokerClient(.unixSocket(server.path))
        let reading = Task {
            var count = 0
            for try await _ in client.results(of: Query("E")) { count += 1 }
            return count
        }
        // The iteration begins with a ping on the client's own connection.
        var own = try await server.greet()
        try await own.send(#"{"type":"pong","tag":\#(try await own.nextMembers().tag)}"#)
        let stream = try await server.hear().connection
        try await stream.send(#"{"type":"objects","objects":[],"more":true}"#)
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await client.run() }
                group.addTask {
                    trigger.triggerGracefulShutdown()
                    while !client.isDraining {
                        try Task.checkCancellation()
                        await Task.yield()
                    }
                    await #expect(throws: BrokerError.closed) { for try await _ in client.results(of: Query("E")) {} }
                    try await stream.send(#"{"type":"objects","objects":[],"more":false}"#)
                }
                try await group.waitForAll()
            }
        }
        #expect(try await reading.value == 2)
        try await server.stop()
    }

    @Test func `a graceful shutdown finishes what is unanswered, and takes nothing more`() async throws {
        var server = try await FakeServer()
        let client = BrokerClient(.unixSocket(server.path))
        let path = server.path
        let record = record
        let job = try await client.enqueue(.process(json: record, as: "E"))
        var connection = try await server.greet()
        _ = try await connection.nextMembers()
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await client.run() }
                group.addTask { [connection] in
                    trigger.triggerGracefulShutdown()
                    while !client.isDraining {
                        try Task.checkCancellation()
                        await Task.yield()
                    }
                    await #expect(throws: BrokerError.closed) { try await client.ping() }
                    try await connection.complete(job.id)
                }
                try await group.waitForAll()
            }
        }
        #expect(try await job.completion.sequence == 1)
        #expect(FileManager.default.fileExists(atPath: path))
        try await server.stop()
    }

    @Test func `a graceful shutdown ends when its time is over, and the outcome is unknown`() async throws {
        var server = try await FakeServer()
        var configuration = BrokerClientConfiguration()
        configuration.shutdownTimeout = .milliseconds(20)
        let client = BrokerClient(.unixSocket(server.path), configuration: configuration)
        let job = try await client.enqueue(.process(json: record, as: "E"))
        var connection = try await server.greet()
        _ = try await connection.nextMembers()
        await testGracefulShutdown { trigger in
            trigger.triggerGracefulShutdown()
            await client.run()
        }
        let error = await #expect(throws: BrokerError.self) { _ = try await job.completion }
        #expect(error?.isOutcomeUnknown == true)
        try await server.stop()
    }

    // MARK: - Observing

    @Test func `the span of a submitted job lasts until the job ends`() async throws {
        let tracer = InMemoryTracer()
        var server = try await FakeServer()
        let path = server.path
        let client = BrokerClient(
            .unixSocket(path), configuration: .init(), logger: .silent, beginning: .whenNeeded, tracer: tracer)
        async let submitting = client.submit(.process(json: record, as: "E", id: "a"))
        var connection = try await server.greet()
        _ = try await connection.next()
        try await connection.send(#"{"type":"accepted","id":"a","sequence":3}"#)
        let job = try await submitting
        #expect(tracer.finishedSpans.isEmpty && tracer.activeSpans.count == 1)
        try await connection.complete("a", sequence: 3)
        _ = try await job.completion
        #expect(tracer.finishedSpans.map { $0.attributes.get("broker.job.sequence") } == [.int64(3)])
        let refused = await #expect(throws: BrokerError.self) {
            _ = try await client.submit(.process(json: "{", as: "E"))
        }
        #expect(refused?.code == .invalidJSON)
        #expect(tracer.finishedSpans.map(\.errors.count) == [0, 1] && tracer.activeSpans.isEmpty)
        client.close()
        try await server.stop()
    }

    private struct W3CInstrument: Instrument {
        func extract<Carrier, Extract: Extractor>(
            _ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract
        ) where Extract.Carrier == Carrier {}

        func inject<Carrier, Inject: Injector>(
            _ context: ServiceContext, into carrier: inout Carrier, using injector: Inject
        ) where Inject.Carrier == Carrier {
            injector.inject("00-aa-bb-01", forKey: "traceparent", into: &carrier)
        }
    }

    @Test func `a job is a span with its id and its sequence, and its error is the span's`() async throws {
        let tracer = InMemoryTracer()
        let observation = JobObservation(.client, name: "tests", tracer: tracer)
        let job = Job(.process(json: "{}", as: "E"), id: "a")
        _ = try await observation.observing(job) { _ in Completion(id: "a", sequence: 7) }
        await #expect(throws: BrokerError.closed) {
            try await observation.observing(job) { _ in throw BrokerError.closed }
        }
        let spans = tracer.finishedSpans
        #expect(spans.map(\.operationName) == ["broker job", "broker job"])
        #expect(spans.allSatisfy { $0.kind == .client && $0.attributes.get("broker.job.id") == .string("a") })
        #expect(spans[0].attributes.get("broker.job.sequence") == .int64(7))
        #expect(spans[1].errors.count == 1)
        #expect(JobObservation.traceparent(of: .topLevel, by: W3CInstrument()) == "00-aa-bb-01")
        #expect(JobObservation.traceparent(of: .topLevel, by: tracer) == nil)
    }
}
