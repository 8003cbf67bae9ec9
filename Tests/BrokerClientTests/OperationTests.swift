import Broker
import BrokerJSON
import BrokerWire
import Foundation
import InMemoryTracing
import ServiceLifecycle
import ServiceLifecycleTestKit
import Testing
import Tracing

@testable import BrokerClient

/// The messages of operations.
@Suite(.timeLimit(.minutes(5))) struct OperationTests {
    @Test func `a value that cannot be written as JSON fails before anything is sent`() async throws {
        #expect(throws: BrokerError.self) { try Job.Operation.delete("E", keys: [Double.nan]) }
        #expect(throws: BrokerError.self) { try BrokerPredicate("a == %@", Double.infinity) }
        #expect(throws: BrokerError.self) {
            try Job.Operation.set("r", of: "E", key: Double.nan, to: 1)
        }
    }
}

/// JSON text of the caller that is not exactly one value.
@Suite(.timeLimit(.minutes(5))) struct InjectionTests {
    /// Texts that would add members to the message, leave it, or not be JSON.
    static let texts = [
        #"[],"op":"delete","where":"TRUEPREDICATE""#, #"[],"type":"admin","action":"drain""#,
        #"[],"type":"admin","action":"backup","file":"/tmp/copy","replace":true"#, #"[],"id":"other""#,
        #"[],"type":"ping""#, #"[],"tag":1"#, #"[],"reply":"none""#, #"[]}"#, #"[]},{"op":"delete""#, "1,2", "[1],[2]",
        "[] []",
        "[]\n[]", "", " ", "[", "{\"id\":1", "nul", "[1,]", "1,", "\u{FEFF}[]", "\"\u{0}\"", "NaN", "'a'", "/**/[]",
    ]

    typealias Call = @Sendable (RemoteBroker, RawJSON) async throws -> Void

    /// Each way by which a text comes into a message, and the place that its error names.
    static let calls: [(path: String, call: Call)] = [
        ("/json", { _ = try await $0.process(json: $1.bytes, as: "E") }),
        ("/json", { _ = try await $0.process(json: $1, as: "E") }),
        ("/json", { _ = try await $0.process(json: $1.description, as: "E") }),
        ("/json", { _ = try await $0.update("E", key: 1, json: $1) }),
        ("/json", { _ = try await $0.submit(Job(.process(json: $1, as: "E"))) }),
        ("/json", { _ = try await $0.enqueue(Job(.process(json: $1, as: "E"))) }),
        ("/json", { _ = try await $0.sync(json: $1, as: "E", id: "a") }),
        ("/json", { _ = try await $0.set("r", of: "E", key: 1, to: $1) }),
        ("/json", { _ = try await $0.processPayload(json: $1) }),
        ("/json", { _ = try await $0.processPayload(json: $1, by: .path("/x")) }),
        ("/object", { _ = try await $0.update("E", key: $1, json: "{}") }),
        ("/object", { _ = try await $0.set("r", of: "E", key: $1, to: nil) }),
        ("/arguments/0", { _ = try await $0.delete("E", where: .init("a == %@", arguments: [$1])) }),
        (
            "/arguments/1",
            {
                let predicate = BrokerPredicate("a == %@ OR b == %@", arguments: [RawJSON("1"), $1])
                _ = try await $0.sync(json: "[]", as: "E", where: predicate)
            }
        ),
        (
            "/operations/1/json",
            { _ = try await $0.process(.init([.delete("E", where: .all), .process(json: $1, as: "E")])) }
        ),
        ("/object", { _ = try await $0.fetch(.keyed($1)) }),
        ("/arguments/0", { _ = try await $0.fetch(.init("E", where: .init("a == %@", arguments: [$1]))) }),
    ]

    @Test(arguments: texts)
    func `a text that is not exactly one value is an error at its place, and nothing is sent`(text: String) async throws
    {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        for (path, call) in Self.calls {
            do {
                try await call(client, RawJSON(text))
                Issue.record("\(path): \(text) was sent")
            } catch let error as BrokerError {
                guard error.code == .invalidJSON, let fault = error.fault else { throw error }
                #expect(fault.code == .malformedJSON)
                #expect(fault.path == path)
                #expect(fault.line != nil && fault.column != nil && fault.offset != nil)
                #expect(fault.message.contains("Nothing was sent"))
            }
        }
        #expect(client.unansweredJobCount == 0)
        async let pong: Void = client.ping()
        let first = try await connection.next()
        #expect(first.hasPrefix(#"{"type":"ping""#))
        try await connection.send(#"{"type":"pong","tag":\#(try tag(first))}"#)
        try await pong
        client.close()
        try await server.stop()
    }

    private func tag(_ message: String) throws -> String {
        let document = try JSONDocument(parsing: JSONText(copying: Array(message.utf8)))
        return try withExtendedLifetime(document) {
            String(decoding: try #require(document.root["tag"]).bytes, as: UTF8.self)
        }
    }

    @Test func `strings as keys and arguments are values, whatever they hold`() throws {
        for text in Self.texts {
            let operations: [Job.Operation] = [
                try .set("r", of: "E", key: text, to: text),
                try .delete("E", keys: [text]), try .delete("E", where: .init("a == %@", text)),
                try .update("E\(text)", key: text, with: [text: text]), try .processPayload([text], by: .path(text)),
                try .sync(
                    [text], as: "E\(text)", where: .init("a == %@", text), part: .init(id: "p\(text)", isLast: true)),
            ]
            let content = try Job(operations).content(id: JobID(text), wantsAcceptance: true)
            let document = try JSONDocument(parsing: JSONText(copying: content))
            try withExtendedLifetime(document) {
                let written = Array(try #require(document.root["operations"]).elements)
                #expect(written.count == operations.count)
                for place in [written[0]["object"], written[0]["json"], document.root["id"]] {
                    #expect(place?.string == text)
                }
                #expect(written[1]["objects"]?.elements.map(\.string) == [text])
                #expect(written[2]["arguments"]?.elements.map(\.string) == [text])
                #expect(written[3]["json"]?[text]?.string == text)
            }
        }
    }

    @Test(arguments: ["[]", Data("[]".utf8), Array("[]".utf8)] as [any Encodable & Sendable])
    func `a text or bytes in the place of records are an error that names the label of JSON text`(
        text: any Encodable & Sendable
    ) {
        let calls: [(any Encodable) throws -> Job.Operation] = [
            { try .process($0, as: "E") }, { try .update("E", key: 1, with: $0) }, { try .sync($0, as: "E") },
            { try .processPayload($0) }, { try .processPayload($0, by: .path("/a")) },
        ]
        for call in calls {
            let error = #expect(throws: BrokerError.self) { try call(text) }
            #expect(error?.description.contains("`json:`") == true)
        }
    }

    @Test func `a lenient job takes commas before closing brackets, and nothing else`() throws {
        for (text, isTaken) in [
            ("[1,]", true), (#"{"a":[1,],}"#, true), ("[1,,]", false), ("[,]", false), ("1,", false), ("[1],", false),
            (#"[1,],"op":"delete""#, false), (#"[1,],"op":"delete","x":[1,]"#, false),
        ] {
            var job = Job(.process(json: text, as: "E"))
            #expect(throws: BrokerError.self) { try job.content(id: "a", wantsAcceptance: false) }
            job.allowsTrailingCommas = true
            let content = try? job.content(id: "a", wantsAcceptance: false)
            #expect((content != nil) == isTaken, "\(text)")
        }
    }

    @Test(arguments: [1, 2]) func `nesting up to the limit of a message is sent, and deeper nesting is not`(
        operations: Int
    ) throws {
        func job(_ depth: Int) -> Job {
            let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            return .init((0..<operations).map { _ in .process(json: text, as: "E") })
        }
        let deepest = operations == 1 ? 511 : 509
        let content = try job(deepest).content(id: "a", wantsAcceptance: false)
        _ = try ClientEnvelope.decode(parsing: JSONText(copying: content))
        #expect(throws: BrokerError.self) { try job(deepest + 1).content(id: "a", wantsAcceptance: false) }
    }
}

extension Query {
    fileprivate static func keyed(_ key: RawJSON) -> Self {
        var fetch = Self("E")
        fetch.key = key
        return fetch
    }
}

/// A client as a service: it is made without a connection, runs, and ends.
@Suite(.timeLimit(.minutes(5))) struct RunningTests {
    private let record = Array(#"{"id":1}"#.utf8)

    /// Returns when the client has taken that many jobs.
    private func wait(_ client: RemoteBroker, forJobs count: Int) async throws {
        while client.unansweredJobCount < count {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    @Test func `it connects when it is run, and its states are published, the current one first`() async throws {
        var server = try await FakeServer()
        let client = RemoteBroker(.unixSocket(server.path))
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
        let client = RemoteBroker(.unixSocket(path))
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
        let client = RemoteBroker(.unixSocket(server.path))
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
        let client = RemoteBroker(.unixSocket(server.path))
        let path = server.path
        let record = record
        let job = try await client.enqueue(Job(.process(json: record, as: "E")))
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
        var configuration = RemoteBroker.Configuration()
        configuration.shutdownTimeout = .milliseconds(20)
        let client = RemoteBroker(.unixSocket(server.path), configuration: configuration)
        let job = try await client.enqueue(Job(.process(json: record, as: "E")))
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
        let client = RemoteBroker(
            .unixSocket(path), configuration: .init(), logger: .silent, beginning: .whenNeeded, tracer: tracer)
        async let submitting = client.submit(Job(.process(json: record, as: "E"), id: "a"))
        var connection = try await server.greet()
        _ = try await connection.next()
        try await connection.send(#"{"type":"accepted","id":"a","sequence":3}"#)
        let job = try await submitting
        #expect(tracer.finishedSpans.isEmpty && tracer.activeSpans.count == 1)
        try await connection.complete("a", sequence: 3)
        _ = try await job.completion
        #expect(tracer.finishedSpans.map { $0.attributes.get("broker.job.sequence") } == [.int64(3)])
        let refused = await #expect(throws: BrokerError.self) {
            _ = try await client.submit(Job(.process(json: "{", as: "E")))
        }
        #expect(refused?.code == .invalidJSON)
        #expect(tracer.finishedSpans.map(\.errors.count) == [0, 1] && tracer.activeSpans.isEmpty)
        client.close()
        try await server.stop()
    }

    @Test func `a client that never reached a server says where it looked, and why there is none`() async {
        var configuration = RemoteBroker.Configuration()
        configuration.reconnectDeadline = .milliseconds(500)
        let client = RemoteBroker(.unixSocket("/nowhere/broker.sock"), configuration: configuration)
        let calls: [(RemoteBroker) async throws -> Void] = [
            { _ = try await $0.statistics() }, { try await $0.process(json: "{}", as: "E") },
        ]
        for call in calls {
            let error = await #expect(throws: BrokerError.self) { try await call(client) }
            #expect(error?.code == .cannotConnect)
            #expect(
                error?.message.contains("/nowhere/broker.sock: there is no such socket") == true,
                "\(String(describing: error))")
        }
        client.close()
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
        let observation = CallObservation(.client, name: "tests", tracer: tracer)
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
        #expect(CallObservation.traceparent(of: .topLevel, by: W3CInstrument()) == "00-aa-bb-01")
        #expect(CallObservation.traceparent(of: .topLevel, by: tracer) == nil)
    }
}
