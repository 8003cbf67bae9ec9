import Broker
import BrokerWire
import NIOCore
import Testing

@testable import BrokerClient

@Suite(.timeLimit(.minutes(5))) struct CancellationTests {
    private let record = Array(#"{"id":1}"#.utf8)

    /// A server and a client that has room for one job, which is on its way.
    private func full() async throws -> (
        channel: any Channel, client: RemoteBroker, connection: FakeConnection, first: SubmittedJob
    ) {
        var options = RemoteBroker.Configuration()
        options.maximumJobsInFlight = 1
        var server = try await FakeServer()
        let (client, opened) = try await server.connect(options: options)
        var connection = opened
        let first = try await client.enqueue(Job(.process(json: record, as: "E")))
        _ = try await connection.next()
        return (server.channel, client, connection, first)
    }

    /// A job of that id whose task is cancelled when it is in flight, and the connection on which it was asked back.
    private func cancelled(
        _ id: JobID, submitting: Bool = false, _ client: RemoteBroker, _ connection: inout FakeConnection
    ) async throws -> Task<Completion?, any Error> {
        let waiting = Task { [record] in
            let job = Job(.process(json: record, as: "E"), id: id)
            if !submitting { return try await client.process(job) as Completion? }
            _ = try await client.submit(job)
            return nil
        }
        #expect(try await connection.nextMembers().id == id)
        waiting.cancel()
        let asked = try await connection.next()
        #expect(asked == #"{"type":"cancel","id":"\#(id)","tag":"cancel"}"#)
        return waiting
    }

    @Test func `a job in flight whose task is cancelled is cancelled at the server, and the call returns how it ended`()
        async throws
    {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        for submitting in [false, true] {
            let waiting = try await cancelled("back", submitting: submitting, client, &connection)
            try await connection.send(
                #"{"type":"cancelled","id":"back","tag":"cancel"}"#,
                #"{"type":"failed","id":"back","sequence":1,"error":{"code":"cancelled","message":"m"}}"#)
            await #expect(throws: CancellationError.self) { _ = try await waiting.value }
        }
        let late = try await cancelled("late", client, &connection)
        try await connection.send(
            #"{"type":"error","id":"late","tag":"cancel","error":{"code":"tooLate","message":"m"}}"#)
        try await connection.complete("late", sequence: 7)
        #expect(try await late.value?.sequence == 7)
        let wrong = try await cancelled("wrong", client, &connection)
        try await connection.send(#"{"type":"failed","id":"wrong","error":{"code":"missingValue","message":"m"}}"#)
        let failure = await #expect(throws: BrokerError.self) { _ = try await wrong.value }
        #expect(failure?.code == .missingValue)
        client.close()
        try await server.stop()
    }

    @Test func `a connection that is lost while a job is being cancelled leaves the job's outcome unknown`()
        async throws
    {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let other = try await client.enqueue(Job(.process(json: record, as: "E")))
        _ = try await connection.next()
        let waiting = try await cancelled("doubtful", client, &connection)
        try await connection.close()
        let error = await #expect(throws: BrokerError.self) { _ = try await waiting.value }
        #expect(error?.isOutcomeUnknown == true && error?.jobID == "doubtful")
        #expect((error?.cause as? BrokerError)?.code == .connectionLost)
        connection = try await server.greet()
        // It is not among what is sent again.
        #expect(try await connection.nextMembers().id == other.id)
        let next = try await client.enqueue(Job(.process(json: record, as: "E")))
        #expect(try await connection.nextMembers().id == next.id)
        client.close()
        try await server.stop()
    }

    @Test func `a task that waits for a ticket's completion stops waiting, and the job goes on`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        async let submitting = client.submit(Job(.process(json: record, as: "E")))
        let id = try await connection.nextMembers().id
        try await connection.send(#"{"type":"accepted","id":"\#(id)","sequence":3}"#)
        let ticket = try await submitting
        let waiting = Task { try await ticket.completion }
        waiting.cancel()
        await #expect(throws: BrokerError.waitCancelled(ticket.id)) {
            _ = try await waiting.value
        }
        // The ticket cancels it, and its waiter gets that.
        let cancelling = Task { try await client.cancel(ticket.id) }
        let asked = try await connection.nextMembers()
        #expect(asked.id == id)
        try await connection.send(
            #"{"type":"cancelled","id":"\#(id)","tag":\#(asked.tag)}"#,
            #"{"type":"failed","id":"\#(id)","sequence":3,"error":{"code":"cancelled","message":"m"}}"#)
        try await cancelling.value
        let error = await #expect(throws: BrokerError.self) { _ = try await ticket.completion }
        #expect(error?.code == .cancelled)
        client.close()
        try await server.stop()
    }

    @Test func `a submission that is accepted while it is cancelled returns, and its end is the cancellation`()
        async throws
    {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let submitting = Task { [record] in try await client.submit(Job(.process(json: record, as: "E"), id: "x")) }
        _ = try await connection.next()
        submitting.cancel()
        #expect(try await connection.next() == #"{"type":"cancel","id":"x","tag":"cancel"}"#)
        try await connection.send(
            #"{"type":"accepted","id":"x","sequence":3}"#,
            #"{"type":"failed","id":"x","sequence":3,"error":{"code":"cancelled","message":"m"}}"#)
        let job = try await submitting.value
        let error = await #expect(throws: BrokerError.self) { _ = try await job.completion }
        #expect(error?.code == .cancelled)
        client.close()
        try await server.stop()
    }

    @Test func `a copy has a connection of its own, and cancelling it closes that`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let copying = Task { try await client.backUp(to: "/copy", replacing: true) }
        var stream = try await server.hear().connection
        #expect(
            try await stream.next() == #"{"type":"admin","action":"backup","file":"/copy","replace":true,"tag":0}"#)
        copying.cancel()
        let error = await #expect(throws: BrokerError.self) { try await copying.value }
        #expect(error?.isOutcomeUnknown == true)
        await stream.closed()
        let made = Task { try await client.backUp(to: "/copy") }
        stream = try await server.greet()
        _ = try await stream.next()
        try await stream.send(#"{"type":"done","action":"backup","sequence":7,"bytes":4096,"tag":0}"#)
        #expect(try await made.value == Backup(sequence: 7, byteCount: 4_096))
        await stream.closed()
        client.close()
        try await server.stop()
    }

    @Test func `the answer to an action has what it did`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        for (action, members, result) in [
            (
                Broker.AdminAction.checkpoint, #""wal":{"bytes":8192,"uncheckpointedPages":2}"#,
                AdminResult(wal: .init(bytes: 8_192, uncheckpointedPages: 2))
            ),
            (Broker.AdminAction.reload, #""changes":["a","b"]"#, AdminResult(changes: ["a", "b"])),
            (Broker.AdminAction.pause, #""x":1"#, AdminResult()),
        ] {
            let asking = Task { try await client.administer(action) }
            let tag = try await connection.nextMembers().tag
            try await connection.send(#"{"type":"done","action":"\#(action.rawValue)",\#(members),"tag":\#(tag)}"#)
            #expect(try await asking.value == result)
        }
        client.close()
        try await server.stop()
    }

    @Test func `a migration is asked for as it is wanted, and returns its changes`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let asking = Task { try await client.migrate(removedParts: .drop, dryRun: true) }
        let sent = try await connection.next()
        let tag = try #require(sent.firstMatch(of: /"tag":(\d+)/)?.1)
        #expect(sent == #"{"type":"admin","action":"migrate","dryRun":true,"removedParts":"drop","tag":\#(tag)}"#)
        let change =
            #"{"change":"dropped","subject":"A.b","message":"m","loss":{"kind":"values","count":12,"examples":["1: 2"]}}"#
        let refused = #"{"change":"refused","subject":"A","message":"n","remedy":"r"}"#
        try await connection.send(
            #"{"type":"done","action":"migrate","dryRun":true,"changes":[\#(change),\#(refused)],"tag":\#(tag)}"#)
        let migration = try await asking.value
        #expect(
            migration.changes == [
                .init(
                    kind: .dropped, subject: "A.b", message: "m",
                    loss: .init(kind: .values, count: 12, examples: ["1: 2"])),
                .init(kind: .refused, subject: "A", message: "n", remedy: "r"),
            ])
        #expect(migration.isRefused)
        let unreadable = Task { try await client.migrate() }
        let other = try await connection.nextMembers().tag
        try await connection.send(
            #"{"type":"done","action":"migrate","changes":[{"change":"dropped"}],"tag":\#(other)}"#)
        let error = await #expect(throws: BrokerError.self) { try await unreadable.value }
        #expect(error?.code == .protocolViolation)
        client.close()
        try await server.stop()
    }

    @Test func `a job is cancelled by its id, or the call throws why not`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        await #expect(throws: BrokerError.invalidID("")) { try await client.cancel("") }
        for code in ["tooLate", "unknownJob"] {
            let cancelling = Task { try await client.cancel("x") }
            let tag = try await connection.nextMembers().tag
            try await connection.send(
                #"{"type":"error","id":"x","tag":\#(tag),"error":{"code":"\#(code)","message":"m"}}"#)
            let error = await #expect(throws: BrokerError.self) { try await cancelling.value }
            #expect(error?.code.rawValue == code)
        }
        let cancelling = Task { try await client.cancel("x") }
        _ = try await connection.next()
        try await connection.close()
        let error = await #expect(throws: BrokerError.self) { try await cancelling.value }
        #expect(error?.isOutcomeUnknown == true && error?.description.contains("\"x\"") == true)
        client.close()
        try await server.stop()
    }

    @Test func `a job that waits for room is not sent when its task is cancelled`() async throws {
        let full = try await full()
        let (client, first) = (full.client, full.first)
        var connection = full.connection
        let waiting = [
            Task { [record] in _ = try await client.process(json: record, as: "E") },
            Task { [record] in _ = try await client.submit(Job(.process(json: record, as: "E"))) },
            Task { [record] in _ = try await client.enqueue(Job(.process(json: record, as: "E"))) },
        ]
        while client.unansweredJobCount < 4 {
            try Task.checkCancellation()
            await Task.yield()
        }
        for task in waiting { task.cancel() }
        while client.unansweredJobCount > 1 {
            try Task.checkCancellation()
            await Task.yield()
        }
        for task in waiting { await #expect(throws: CancellationError.self) { try await task.value } }
        try await connection.complete(first.id)
        _ = try await first.completion
        let next = try await client.enqueue(Job(.process(json: record, as: "E")))
        #expect(try await connection.nextMembers().id == next.id)
        client.close()
        try await full.channel.close()
    }

    @Test func `a job that is cancelled at any time is sent, or is not sent and its task gets an error`() async throws {
        let full = try await full()
        let client = full.client
        var connection = full.connection
        var sent: [JobID] = [full.first.id]
        for _ in 0..<200 {
            let before = try #require(sent.last)
            let task = Task { [record] in try await client.enqueue(Job(.process(json: record, as: "E"))) }
            let room = Task { [connection] in try await connection.complete(before) }
            task.cancel()
            try await room.value
            do {
                sent.append(try await task.value.id)
                #expect(try await connection.nextMembers().id == sent.last)
            } catch is CancellationError {
                let job = try await client.enqueue(Job(.process(json: record, as: "E")))
                sent.append(job.id)
                // Not the cancelled one's: that was never sent.
                #expect(try await connection.nextMembers().id == job.id)
            }
        }
        client.close()
        try await full.channel.close()
    }

    @Test func `a task that is cancelled beforehand sends nothing`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let task = Task { [record] in
            withUnsafeCurrentTask { $0?.cancel() }
            _ = try await client.process(json: record, as: "E")
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        let next = try await client.enqueue(Job(.process(json: record, as: "E")))
        #expect(try await connection.nextMembers().id == next.id)
        client.close()
        try await server.stop()
    }

    @Test func `waiting for a server that does not welcome can be cancelled`() async throws {
        var server = try await FakeServer()
        let path = server.path
        let connecting = Task { try await RemoteBroker.connect(to: .unixSocket(path)) }
        var connection = try await server.accept()
        connecting.cancel()
        await #expect(throws: CancellationError.self) { _ = try await connecting.value }
        await connection.closed()
        try await server.stop()
    }
}

/// The time of each call, with a server that does not answer.
@Suite(.timeLimit(.minutes(5))) struct CallTimeoutTests {
    typealias Call = @Sendable (RemoteBroker, Duration) async throws -> Void

    /// Each call, and what its end means: no effect, or an outcome that is not known.
    static let calls: [(BrokerError.Code, Call)] = [
        (.outcomeUnknown, { _ = try await $0.completion(of: "a", timeout: $1) }),
        (.outcomeUnknown, { try await $0.cancel("a", timeout: $1) }),
        (.outcomeUnknown, { try await $0.administer(.pause, timeout: $1) }),
        (.outcomeUnknown, { _ = try await $0.backUp(to: "/tmp/copy", timeout: $1) }),
        (.timedOut, { _ = try await $0.fetch(Query("E"), timeout: $1) }),
        (.timedOut, { _ = try await $0.fetchFirst(Int.self, from: "E", timeout: $1) }),
        (.timedOut, { for try await _ in $0.results(of: Query("E"), timeout: $1) {} }),
        (.timedOut, { _ = try await $0.objects(Int.self, from: "E", timeout: $1).collect() }),
        (.timedOut, { _ = try await $0.statistics(timeout: $1) }),
        (.timedOut, { _ = try await $0.model(timeout: $1) }),
        (.timedOut, { try await $0.ping(timeout: $1) }),
    ]

    @Test(arguments: calls.indices)
    func `a call ends when its time is over, and says what that means`(index: Int) async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let (code, call) = Self.calls[index]
        let error = await #expect(throws: BrokerError.self) { try await call(client, .milliseconds(20)) }
        #expect(error?.code == code, "\(index): \(String(describing: error))")
        if code == .outcomeUnknown { #expect((error?.cause as? BrokerError)?.code == .timedOut) }
        client.close()
        try await server.stop()
    }

    @Test func `a job whose time is over is cancelled, and its submission is, too`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let job = Job(.process(json: "{}", as: "E"), id: "a")
        let calls: [Call] = [
            { try await $0.process(job, timeout: $1) }, { _ = try await $0.submit(job, timeout: $1) },
        ]
        for call in calls {
            let calling = Task { try await call(client, .milliseconds(20)) }
            #expect(try await connection.nextMembers().id == "a")
            #expect(try await connection.next().hasPrefix(#"{"type":"cancel""#))
            try await connection.send(#"{"type":"failed","id":"a","error":{"code":"cancelled","message":"m"}}"#)
            let error = await #expect(throws: BrokerError.self) { try await calling.value }
            #expect(error?.code == .timedOut, "\(String(describing: error))")
        }
        client.close()
        try await server.stop()
    }

    @Test func `waiting for the end of a submitted job has a time of its own, and the job goes on`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        async let submitting = client.submit(Job(.process(json: "{}", as: "E"), id: "a"), timeout: .seconds(60))
        _ = try await connection.next()
        try await connection.send(#"{"type":"accepted","id":"a","sequence":3}"#)
        let job = try await submitting
        let error = await #expect(throws: BrokerError.self) { _ = try await job.completion(timeout: .milliseconds(20)) }
        #expect(error?.isOutcomeUnknown == true && error?.jobID == "a")
        #expect((error?.cause as? BrokerError)?.code == .timedOut)
        try await connection.complete("a", sequence: 3)
        #expect(try await job.completion(timeout: .seconds(60)).sequence == 3)
        client.close()
        try await server.stop()
    }

    @Test func `the time of a sequence is that of each answer`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let reading = Task {
            var count = 0
            do {
                for try await _ in client.results(of: Query("E"), timeout: .milliseconds(500)) { count += 1 }
            } catch let error as BrokerError { return (count, error.code as BrokerError.Code?) }
            return (count, nil)
        }
        var stream = try await server.hear().connection
        _ = try await stream.next()
        for _ in 0..<2 { try await stream.send(#"{"type":"objects","objects":[],"more":true}"#) }
        let (count, code) = try await reading.value
        #expect(count == 2 && code == .timedOut)
        await stream.closed()
        client.close()
        try await server.stop()
    }
}

/// A client with a server that makes it wait.
@Suite(.timeLimit(.minutes(5))) struct PatienceTests {
    private let record = Array(#"{"id":1}"#.utf8)

    /// Serves one job on whichever connection lasts: on a slow machine some are given up before they are greeted.
    private func serve(_ job: SubmittedJob, _ server: inout FakeServer) async throws {
        for _ in 0..<100 {
            do {
                var connection = try await server.greet()
                #expect(try await connection.nextMembers().id == job.id)
                try await connection.complete(job.id)
                _ = try await job.completion
                return
            } catch let error as BrokerError {
                throw error
            } catch {
                continue
            }
        }
        throw FakeFault("the job was not served")
    }

    /// Connects a client of little patience: on a slow machine it may give up before it is greeted.
    private func connect(
        _ server: inout FakeServer, _ options: RemoteBroker.Configuration
    ) async throws -> (RemoteBroker, FakeConnection) {
        for _ in 0..<100 {
            do {
                return try await server.connect(options: options)
            } catch {
                continue
            }
        }
        throw FakeFault("no client had the patience to be greeted")
    }

    @Test func `a server that welcomes and closes is given up, and not hurried`() async throws {
        var server = try await FakeServer()
        var options = RemoteBroker.Configuration()
        options.reconnectDeadline = .milliseconds(300)
        let (client, opened) = try await server.connect(options: options)
        let job = try await client.enqueue(Job(.process(json: record, as: "E")))
        try await opened.close()
        let path = server.path
        let outcome = Task {
            do {
                _ = try await job.completion
                return "completed"
            } catch {
                // The loop below ends.
                let probe = try await RemoteBroker.connect(to: .unixSocket(path), configuration: .init(name: "probe"))
                probe.close()
                return "\(error)"
            }
        }
        var attempts = 0
        while attempts < 100 {
            var connection = try await server.accept()
            attempts += 1
            do {
                let hello = try await connection.next()
                try await connection.welcome()
                if hello.contains("probe") { break }
                try await connection.close()
            } catch {
                // The client's time was up before it was greeted.
                continue
            }
        }
        // Each waits twice as long as the one before.
        #expect((2...13).contains(attempts))
        if attempts == 100 { client.close() }
        #expect(try await outcome.value.contains("The connection was lost"))
        client.close()
        try await server.stop()
    }

    @Test func `a server that does not answer the greeting is reported`() async throws {
        var server = try await FakeServer()
        var options = RemoteBroker.Configuration()
        options.connectTimeout = .milliseconds(50)
        let path = server.path
        let client = Task { [options] in try await RemoteBroker.connect(to: .unixSocket(path), configuration: options) }
        var connection = try await server.accept()
        await #expect(
            throws: BrokerError.cannotConnect(path: path, reason: "the server did not answer the greeting in time")
        ) { _ = try await client.value }
        await connection.closed()
        try await server.stop()
    }

    @Test func `a lost connection is restored though one attempt is never answered`() async throws {
        var server = try await FakeServer()
        var options = RemoteBroker.Configuration()
        options.connectTimeout = .seconds(5)
        let (client, opened) = try await connect(&server, options)
        let job = try await client.enqueue(Job(.process(json: record, as: "E")))
        try await opened.close()
        var silent = try await server.accept()
        await silent.closed()
        try await serve(job, &server)
        client.close()
        try await server.stop()
    }

    @Test func `a frame that never ends ends the connection, also one that trickles`() async throws {
        var server = try await FakeServer()
        var options = RemoteBroker.Configuration()
        options.frameTimeout = .milliseconds(100)
        let (client, opened) = try await server.connect(options: options)
        var connection = opened
        let job = try await client.enqueue(Job(.process(json: record, as: "E")))
        _ = try await connection.next()
        try await connection.send(bytes: [0, 0, 1, 0])
        let trickle = Task { [connection] in
            while true { try await connection.send(bytes: [4]) }
        }
        await connection.closed()
        await #expect(throws: (any Error).self) { try await trickle.value }
        try await serve(job, &server)
        client.close()
        try await server.stop()
    }
}
