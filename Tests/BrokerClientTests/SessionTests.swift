import Broker
import BrokerJSON
import BrokerWire
import NIOCore
import Testing

@testable import BrokerClient

@Suite(.timeLimit(.minutes(5))) struct SessionTests {
    private func session(count: Int = 64, patience: TimeAmount = .seconds(1)) -> Session {
        Session(count: count, reconnecting: patience)
    }

    private func welcome(
        _ session: inout Session, on connection: Int = 1, at now: NIODeadline? = nil
    ) throws -> Session.Effects {
        try receive(welcomeMessage, in: &session, on: connection, at: now)
    }

    private func receive(
        _ json: String, in session: inout Session, on connection: Int = 1, at now: NIODeadline? = nil
    ) throws -> Session.Effects {
        try session.receive(json, on: connection, at: now ?? start)
    }

    /// Adds a job whose frame contains its id.
    private func add(
        _ id: String, to session: inout Session, json: String = "{}"
    ) throws -> (waiter: JobWaiter, effects: Session.Effects) {
        let waiter = JobWaiter(completion: Answer(), accepted: Answer())
        let bytes = try frame(id, json)
        return (waiter, try session.add(id: JobID(id), frame: bytes, waiter: waiter, at: start).effects)
    }

    @Test func `messages before the end of a connection count, and no frame for it is left`() throws {
        var session = session(count: 1)
        _ = try welcome(&session)
        #expect(try add("a", to: &session).effects.write == [frame("a")])
        #expect(try add("b", to: &session).effects.write == [])
        let completed = try ["a", "b"].map { id in
            let json = #"{"type":"completed","id":"\#(id)","sequence":1}"#
            return Arrival.message(try ServerEnvelope.decode(parsing: JSONText(copying: Array(json.utf8))))
        }
        let effects = session.received(
            [completed[0], .unreadable(WireError(.malformedLZ4, "damaged")), completed[1]], on: 1, at: start)
        #expect(said(effects) == ["completed a"])
        #expect(effects.close == 1)
        #expect(effects.connect?.connection == 2)
        #expect(effects.write == [])
        #expect(session.jobs.allInFlight.map(\.id.text) == ["b"])
    }

    @Test func `a first connection that cannot be made is tried again until its time is over`() throws {
        var session = Session(
            path: "/s", window: PendingJobs(maximumCount: 1, maximumBytes: 1),
            patience: .init(reconnecting: .seconds(9), welcome: .seconds(1), first: .seconds(1)))
        #expect(session.begin(at: start) == .init(connection: 1, delay: .zero, deadline: start + .seconds(1)))
        var now = start
        var attempts = 1
        while true {
            let effects = session.lost(attempts, reason: "no listener", at: now)
            guard let connect = effects.connect else {
                #expect(said(effects) == ["not welcomed: Cannot connect to /s: no listener."])
                break
            }
            attempts += 1
            #expect(connect.connection == attempts && connect.deadline == start + .seconds(1) && said(effects) == [])
            now = now + connect.delay
        }
        #expect(attempts > 3 && now + .milliseconds(250) >= start + .seconds(1))
        #expect(session.link == .closed)
    }

    @Test func `a first connection that was made late is lost like any other`() throws {
        var session = Session(
            path: "/s", window: PendingJobs(maximumCount: 1, maximumBytes: 1),
            patience: .init(reconnecting: .seconds(9), welcome: .seconds(1), first: .seconds(1)))
        _ = session.begin(at: start)
        _ = session.lost(1, reason: "no listener", at: start)
        #expect(said(try welcome(&session, on: 2)) == ["welcomed"])
        #expect(session.reconnection == nil)
        _ = try add("a", to: &session)
        #expect(session.lost(2, reason: "gone", at: start + .seconds(5)).connect?.connection == 3)
    }

    @Test func `messages of an older connection are ignored`() throws {
        var session = session()
        _ = try welcome(&session)
        _ = try add("a", to: &session)
        _ = session.lost(1, reason: "gone", at: start)
        #expect(said(try receive(#"{"type":"completed","id":"a","sequence":1}"#, in: &session)) == [])
        #expect(session.lost(1, reason: "gone", at: start).connect == nil)
        #expect(session.link == .connecting(connection: 2))
    }

    @Test func `attempts come ever more seldom, until the deadline`() throws {
        var session = session(patience: .seconds(8))
        _ = try welcome(&session)
        _ = try add("a", to: &session)
        var delays: [Int64] = []
        var now = start
        var effects = session.lost(1, reason: "gone", at: now)
        while let connect = effects.connect {
            delays.append(connect.delay.nanoseconds / 1_000_000)
            now = now + connect.delay
            effects = session.lost(connect.connection, reason: "no listener", at: now)
        }
        #expect(delays == [50, 100, 200] + Array(repeating: 250, count: 30))
        #expect(said(effects).count == 1)
        #expect(said(effects).first?.contains("The connection was lost: no listener") == true)
        #expect(session.link == .disconnected)
    }

    @Test func `the first answer restarts the time limit for reconnecting, and the welcome does not`() throws {
        var session = session()
        _ = try welcome(&session)
        _ = try add("a", to: &session)
        _ = try add("b", to: &session)
        _ = session.lost(1, reason: "gone", at: start)
        _ = session.lost(2, reason: "gone", at: start)
        _ = try welcome(&session, on: 3)
        let later = start + .seconds(60)
        #expect(session.lost(3, reason: "gone", at: later).connect?.delay == .milliseconds(200))
        _ = try welcome(&session, on: 4, at: later)
        _ = try receive(#"{"type":"completed","id":"a","sequence":1}"#, in: &session, on: 4)
        let lost = session.lost(4, reason: "gone", at: later)
        #expect(lost.connect == .init(connection: 5, delay: .milliseconds(50), deadline: later + .seconds(1)))
    }

    @Test func `a server that welcomes and closes is given up`() throws {
        var session = session(patience: .seconds(8))
        _ = try welcome(&session)
        _ = try add("a", to: &session)
        var attempts = 0
        var now = start
        var effects = session.lost(1, reason: "gone", at: now)
        while let connect = effects.connect, attempts < 1000 {
            attempts += 1
            now = now + connect.delay
            _ = try welcome(&session, on: connect.connection, at: now)
            // It stays for a while, as a job may take its time; only the time without a connection counts.
            now = now + .seconds(5)
            effects = session.lost(connect.connection, reason: "it closed", at: now)
        }
        #expect(attempts == 33)
        #expect(said(effects).count == 1)
        #expect(said(effects).first?.contains("The connection was lost: it closed") == true)
    }

    @Test func `each attempt has its own time for the welcome, within the limit for reconnecting`() throws {
        var session = session(patience: .seconds(25))
        _ = try welcome(&session)
        _ = try add("a", to: &session)
        var effects = session.lost(1, reason: "gone", at: start)
        var deadlines: [NIODeadline] = []
        while let connect = effects.connect {
            deadlines.append(connect.deadline)
            effects = session.deadlinePassed(connect.connection, at: connect.deadline)
        }
        #expect(
            deadlines == [
                start + .milliseconds(10_050), start + .milliseconds(20_150), start + .seconds(25),
            ])
        #expect(said(effects).first?.contains("did not answer the greeting in time") == true)
    }

    @Test func `with nothing unanswered it stays disconnected until there is something`() throws {
        var session = session()
        _ = try welcome(&session)
        #expect(session.lost(1, reason: "gone", at: start).connect == nil)
        #expect(session.link == .disconnected)
        let effects = try add("a", to: &session).effects
        #expect(effects.connect == .init(connection: 2, delay: .zero, deadline: start + .seconds(1)))
        #expect(effects.write == [])
        #expect(try welcome(&session, on: 2).write == [frame("a")])
    }

    @Test func `a server that is full when the client reconnects is tried again`() throws {
        var session = session()
        _ = try welcome(&session)
        _ = try add("a", to: &session)
        _ = session.lost(1, reason: "gone", at: start)
        let busy = #"{"type":"error","error":{"code":"busy","message":"full"}}"#
        let effects = try receive(busy, in: &session, on: 2)
        #expect(said(effects) == [])
        #expect(effects.close == 2)
        #expect(effects.connect?.connection == 3)
    }

    @Test(arguments: [
        #"{"type":"completed","id":"other","sequence":1}"#,
        #"{"type":"failed","id":"other","error":{"code":"invalidValue","message":"m"}}"#,
        #"{"type":"error","id":"other","error":{"code":"unsupportedMessage","message":"m"}}"#,
        #"{"type":"error","error":{"code":"malformedJSON","message":"m"},"frame":2}"#,
    ])
    func `a call whose answer came under another id is asked for again, and ends by an error about its frame`(
        answer: String
    ) throws {
        var session = session(count: 1)
        _ = try welcome(&session)
        for id in ["a", "b"] { _ = try add(id, to: &session) }
        let effects = try receive(answer, in: &session)
        let ends = answer.contains("frame")
        #expect(said(effects).map { $0.prefix(6) } == (ends ? ["failed"] : []))
        #expect(effects.close == 1 && effects.write == [])
        let next = ends ? "b" : "a"
        #expect(try welcome(&session, on: 2).write == [frame(next)])
        let completed = #"{"type":"completed","id":"\#(next)","sequence":2}"#
        #expect(said(try receive(completed, in: &session, on: 2)).first == "completed \(next)")
    }

    @Test func `requests are answered by their tag and sent again`() throws {
        var session = session()
        _ = try welcome(&session)
        #expect(try session.add(request: 1, frame: [1], waiter: Answer(), at: start).write == [[1]])
        #expect(try session.add(request: 2, frame: [2], waiter: Answer(), at: start).write == [[2]])
        #expect(said(try receive(#"{"type":"pong","tag":2}"#, in: &session)) == ["answered"])
        _ = session.lost(1, reason: "gone", at: start)
        #expect(try welcome(&session, on: 2).write == [[1]])
        let error = #"{"type":"error","tag":1,"error":{"code":"unknownJob","message":"m"}}"#
        #expect(said(try receive(error, in: &session, on: 2)) == ["answered"])
    }
}

/// A session with cancelled jobs, and with messages that must be sent once.
@Suite(.timeLimit(.minutes(5))) struct SessionCancellingTests {
    private let cancel: [UInt8] = [99]

    private func connected(count: Int = 64) throws -> Session {
        var session = Session(count: count)
        _ = try session.receive(welcomeMessage)
        return session
    }

    private func receive(_ json: String, in session: inout Session, on connection: Int = 1) throws -> Session.Effects {
        try session.receive(json, on: connection)
    }

    private func add(_ id: String, to session: inout Session) throws -> Session.Jobs.Place {
        try session.add(
            id: JobID(id), frame: Array(id.utf8), waiter: JobWaiter(completion: Answer(), accepted: Answer()), at: start
        ).place
    }

    /// How each job or request ended, in words.
    private func said(_ effects: Session.Effects) -> [String] {
        effects.deliveries.compactMap { delivery in
            switch delivery {
            case .finished(_, .success(let completed)): "completed \(completed.id)"
            case .finished(_, .failure(let error)) where error.isOutcomeUnknown: "unknown \(error.jobID ?? "")"
            case .finished(_, .failure(let error)): "failed: \(error)"
            case .withdrawn: "withdrawn"
            case .answered(_, .success): "answered"
            case .answered(_, .failure(let error)): "not answered: \(error)"
            case .welcomed, .accepted, .admitted: nil
            }
        }
    }

    @Test func `a cancellation that comes too late has no effect on the job`() throws {
        for refusal in ["tooLate", "unknownJob", "unsupportedMessage"] {
            var session = try connected()
            for id in ["a", "b"] { _ = session.cancel(try add(id, to: &session), frame: cancel) }
            let refused = try receive(
                #"{"type":"error","id":"a","tag":"cancel","error":{"code":"\#(refusal)","message":"m"}}"#, in: &session)
            #expect(said(refused) == [] && refused.close == nil)
            #expect(said(try receive(#"{"type":"completed","id":"a","sequence":1}"#, in: &session)) == ["completed a"])
            let failed = try receive(
                #"{"type":"failed","id":"b","sequence":2,"error":{"code":"missingValue","message":"m"}}"#, in: &session)
            #expect(said(failed) == ["failed: missingValue: m"])
        }
    }

    @Test func `cancelled without a connection, a job that was sent is unknown and another is dropped`() throws {
        var session = try connected()
        let sent = try add("sent", to: &session)
        _ = session.lost(1, reason: "gone", at: start)
        let new = try add("new", to: &session)
        #expect(said(session.cancel(new, frame: cancel)) == ["withdrawn"])
        #expect(said(session.cancel(sent, frame: cancel)) == ["unknown sent"])
        #expect(try receive(#"{"type":"welcome","version":1}"#, in: &session, on: 2).write == [])
        #expect(session.jobs.isEmpty)
    }

    @Test func `at the limit for reconnecting, a sent job's outcome is unknown, and an unsent job's is not`() throws {
        var session = try connected(count: 1)
        for id in ["a", "b"] { _ = try add(id, to: &session) }
        _ = session.lost(1, reason: "gone", at: start)
        let given = session.lost(2, reason: "no listener", at: start + .seconds(2))
        #expect(
            said(given) == [
                "unknown a", "failed: The connection was lost: no listener. Ask again when the server is back.",
            ])
        guard case .finished(_, .failure(let error))? = given.deliveries.first else { return }
        #expect(error.isOutcomeUnknown)
        #expect(error.description.contains("`await`") && error.description.contains("\"a\""), "\(error)")
    }

    @Test func `a request that changes something is not sent again`() throws {
        var session = try connected()
        for number in 1...2 {
            _ = try session.add(
                request: number, frame: [UInt8(number)], waiter: Answer(), isSentOnce: number == 1, at: start)
        }
        let lost = session.lost(1, reason: "gone", at: start)
        #expect(said(lost).count == 1 && said(lost)[0].hasPrefix("not answered: The connection was lost: gone"))
        // This one was not written yet.
        _ = try session.add(request: 3, frame: [3], waiter: Answer(), isSentOnce: true, at: start)
        #expect(said(session.lost(2, reason: "no listener", at: start)) == [])
        #expect(try receive(#"{"type":"welcome","version":1}"#, in: &session, on: 3).write == [[2], [3]])
        #expect(said(session.lost(3, reason: "gone", at: start)).count == 1)
        #expect(session.requests.count == 1)
    }
}

/// Notes and attempts of a session without a connection.
@Suite(.timeLimit(.minutes(5))) struct SessionLossTests {
    private func session() -> Session {
        Session(reconnecting: .seconds(10), welcome: .seconds(2), beginning: .whenNeeded)
    }

    private func add(_ id: JobID, to session: inout Session, at now: NIODeadline) throws -> Session.Effects {
        try session.add(id: id, frame: [], waiter: JobWaiter(completion: Answer()), at: now).effects
    }

    private func welcome(_ session: inout Session, on connection: Int, at now: NIODeadline) throws -> Session.Effects {
        try session.receive(welcomeMessage, on: connection, at: now)
    }

    private func losses(_ effects: [Session.Effects]) -> Int {
        effects.flatMap(\.notes).count { if case .lost = $0 { true } else { false } }
    }

    @Test func `of the attempts that fail one after the other the first alone is noted`() throws {
        var session = session()
        var effects = [try add("a", to: &session, at: start)]
        var now = start
        for _ in 0..<20 {
            now = now + .milliseconds(250)
            let connection = try #require(effects.last?.connect?.connection)
            effects.append(session.lost(connection, reason: "nobody listens", at: now))
        }
        #expect(losses(effects) == 1)
        #expect(!effects.contains { $0.notes.contains(.idle) })
        let connection = try #require(effects.last?.connect?.connection)
        #expect(try welcome(&session, on: connection, at: now).notes == [.connected(resent: 0)])
        effects.append(session.lost(connection, reason: "gone", at: now))
        #expect(losses(effects) == 2)
    }

    @Test func `a session that stays connected tries without end, and a later job has its whole time`() throws {
        var session = session()
        var effects = [session.stayConnected(at: start)]
        var now = start
        func fail() throws {
            now = now + .milliseconds(250)
            let connection = try #require(effects.last?.connect?.connection)
            effects.append(session.lost(connection, reason: "nobody listens", at: now))
        }
        for _ in 0..<1_000 { try fail() }
        #expect(losses(effects) == 1)
        #expect(effects.allSatisfy { $0.deliveries.isEmpty })
        let begin = now
        #expect(try add("a", to: &session, at: now).connect == nil)
        while effects.last?.deliveries.isEmpty ?? false { try fail() }
        #expect(now - begin >= .milliseconds(9_500) && now - begin <= .milliseconds(10_250))
        // The job has failed; the session goes on.
        try fail()
        let connection = try #require(effects.last?.connect?.connection)
        _ = try welcome(&session, on: connection, at: now)
        #expect(session.link == .connected(connection: connection))
        effects.append(session.lost(connection, reason: "gone", at: now))
        #expect(effects.last?.connect != nil)
        session.drain()
        effects.append(session.lost(connection + 1, reason: "nobody listens", at: now))
        #expect(effects.last?.connect == nil && session.link == .disconnected)
    }
}

/// Sessions with a limit for servers that send no answers.
@Suite(.timeLimit(.minutes(5))) struct SessionSilenceTests {
    private func session(answer: TimeAmount?) throws -> Session {
        var session = Session(reconnecting: .seconds(30), answer: answer)
        _ = try receive(welcomeMessage, in: &session, at: start)
        return session
    }

    private func receive(_ json: String, in session: inout Session, at now: NIODeadline) throws -> Session.Effects {
        try session.receive(json, on: session.currentConnection ?? 0, at: now)
    }

    private func add(_ id: String, to session: inout Session, at now: NIODeadline) throws {
        _ = try session.add(id: JobID(id), frame: try frame(id), waiter: JobWaiter(completion: Answer()), at: now)
    }

    private func failures(_ effects: Session.Effects) -> [BrokerError] {
        effects.deliveries.compactMap { delivery in
            switch delivery {
            case .finished(_, .failure(let error)), .answered(_, .failure(let error)): error
            default: nil
            }
        }
    }

    @Test func `unanswered jobs fail after the limit, and the connection is closed`() throws {
        var session = try session(answer: .seconds(2))
        try add("a", to: &session, at: start + .seconds(100))
        #expect(session.nextSilenceCheck(at: start) == start + .seconds(102))
        #expect(session.checkSilence(at: start + .milliseconds(101_999)).deliveries.isEmpty)
        let effects = session.checkSilence(at: start + .seconds(102))
        #expect(
            failures(effects) == [
                BrokerError.connectionLost("the server has sent no answer for 2 s").doubting("a")
            ])
        #expect(effects.close == 1 && session.isIdle)
    }

    @Test func `an answer restarts the time limit, and a welcome does not`() throws {
        var session = try session(answer: .seconds(2))
        try add("a", to: &session, at: start)
        try add("b", to: &session, at: start + .seconds(1))
        _ = try receive(
            #"{"type":"failed","id":"a","error":{"code":"internal","message":"m"}}"#, in: &session,
            at: start + .seconds(1))
        #expect(session.checkSilence(at: start + .milliseconds(2_999)).deliveries.isEmpty)
        _ = session.lost(1, reason: "gone", at: start + .milliseconds(2_500))
        _ = try receive(#"{"type":"welcome","version":1}"#, in: &session, at: start + .milliseconds(2_900))
        #expect(failures(session.checkSilence(at: start + .seconds(3))).count == 1)
    }

    @Test func `no time counts while nothing is unanswered`() throws {
        var session = try session(answer: .seconds(2))
        #expect(session.checkSilence(at: start + .seconds(50)).close == nil)
        #expect(session.nextSilenceCheck(at: start + .seconds(50)) == start + .seconds(52))
        try add("a", to: &session, at: start + .seconds(60))
        #expect(session.checkSilence(at: start + .seconds(61)).deliveries.isEmpty)
        _ = session.close()
        #expect(session.nextSilenceCheck(at: start) == nil)
    }

    @Test func `without a limit a server may take any time`() throws {
        var session = try session(answer: nil)
        try add("a", to: &session, at: start)
        #expect(session.nextSilenceCheck(at: start) == nil)
        #expect(session.checkSilence(at: start + .hours(1_000)).deliveries.isEmpty)
    }
}

// MARK: - Sessions of these tests

private let start = NIODeadline.uptimeNanoseconds(1_000_000_000)
private let welcomeMessage = #"{"type":"welcome","version":1}"#

extension Session {
    fileprivate init(
        count: Int = 64, reconnecting: TimeAmount = .seconds(1), welcome: TimeAmount = .seconds(10),
        answer: TimeAmount? = nil, beginning: Beginning = .atOnce
    ) {
        self.init(
            path: "/s", window: PendingJobs(maximumCount: count, maximumBytes: 1 << 20),
            patience: .init(reconnecting: reconnecting, welcome: welcome, answer: answer), beginning: beginning)
    }

    fileprivate mutating func receive(
        _ json: String, on connection: Int = 1, at now: NIODeadline = start
    ) throws -> Effects {
        let envelope = try ServerEnvelope.decode(parsing: JSONText(copying: Array(json.utf8)))
        return received([.message(envelope)], on: connection, at: now)
    }
}

private func frame(_ id: String, _ json: String = "{}") throws -> [UInt8] {
    var encoder = FrameEncoder()
    return try encoder.encode(Job(.process(json: json, as: "E")).content(id: JobID(id), wantsAcceptance: false))
}

/// The deliveries in words.
private func said(_ effects: Session.Effects) -> [String] {
    effects.deliveries.map { delivery in
        switch delivery {
        case .welcomed(.success): "welcomed"
        case .welcomed(.failure(let error)): "not welcomed: \(error)"
        case .accepted(_, let sequence): "accepted \(sequence)"
        case .admitted: "admitted"
        case .finished(_, .success(let completed)): "completed \(completed.id)"
        case .finished(_, .failure(let error)): "failed: \(error)"
        case .withdrawn: "withdrawn"
        case .answered(_, .success): "answered"
        case .answered(_, .failure(let error)): "not answered: \(error)"
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct PendingJobsTests {
    private func window(count: Int = 2, bytes: Int = 100) -> PendingJobs<String> {
        PendingJobs(maximumCount: count, maximumBytes: bytes)
    }

    private func add(_ id: String, bytes: Int = 1, to jobs: inout PendingJobs<String>) -> Bool {
        place(id, bytes: bytes, in: &jobs) != nil
    }

    private func place(
        _ id: String, bytes: Int = 1, in jobs: inout PendingJobs<String>
    ) -> PendingJobs<String>.Place? {
        jobs.add(
            id: JobID(id), frame: [UInt8](repeating: 0, count: bytes), waiter: "waiter of \(id)", sentAs: nil)?.place
    }

    private func admitted(_ jobs: inout PendingJobs<String>) -> [String] {
        var ids: [String] = []
        while let job = jobs.admit(sentAs: nil) { ids.append(job.id.text) }
        return ids
    }

    @Test func `the window is bounded by bytes too, but takes one job of any size`() {
        var jobs = window(count: 10)
        for (id, bytes) in [("a", 60), ("b", 41), ("e", 59), ("c", 500), ("d", 1)] {
            #expect(add(id, bytes: bytes, to: &jobs))
        }
        #expect(jobs.allInFlight.map(\.id.text) == ["a"] && admitted(&jobs) == [])
        #expect(jobs.remove(JobID("a")) != nil)
        #expect(admitted(&jobs) == ["b", "e"])
        #expect(jobs.remove(JobID("b")) != nil)
        #expect(admitted(&jobs) == [])
        #expect(jobs.remove(JobID("e")) != nil)
        #expect(admitted(&jobs) == ["c"])
        #expect(jobs.remove(JobID("c")) != nil)
        #expect(admitted(&jobs) == ["d"])
    }

    @Test func `a job enters the window at once when there is room, and never before one that waits`() {
        var jobs = window(count: 2, bytes: 100)
        func enters(_ id: String, bytes: Int) -> Bool? {
            jobs.add(
                id: JobID(id), frame: [UInt8](repeating: 0, count: bytes), waiter: id, sentAs: 2)?
                .hasEntered
        }
        #expect(enters("a", bytes: 60) == true)
        #expect(enters("a", bytes: 1) == nil)
        #expect(enters("b", bytes: 41) == false)
        #expect(enters("c", bytes: 1) == false)
        #expect(jobs.allInFlight.map(\.id.text) == ["a"])
        #expect(jobs.remove(JobID("a")) == "a")
        #expect(enters("d", bytes: 1) == false)
        #expect(admitted(&jobs) == ["b", "c"])
        #expect(jobs.remove(JobID("b")) == "b")
        #expect(admitted(&jobs) == ["d"])
    }

    @Test func `a cancelled job leaves no state`() throws {
        var jobs = window(count: 1)
        #expect(add("a", to: &jobs))
        for number in 0..<10_000 {
            let place = try #require(place("\(number)", in: &jobs))
            #expect(jobs.withdraw(place) != nil)
        }
        #expect(jobs.waiting.count < 100)
    }
}

/// Errors that have no `id`, and answers that cannot be read.
@Suite(.timeLimit(.minutes(5))) struct ErrorAttributionTests {
    private let record = Array(#"{"id":1}"#.utf8)

    private func job(_ id: JobID) -> Job {
        Job(.process(json: record, as: "E"), id: id)
    }

    /// A client with jobs on their way, and its connection, which has read them.
    private func jobs(
        _ ids: [JobID], _ server: inout FakeServer
    ) async throws -> (RemoteBroker, FakeConnection, [JobID: SubmittedJob]) {
        let (client, opened) = try await server.connect()
        var connection = opened
        var sent: [JobID: SubmittedJob] = [:]
        for id in ids { sent[id] = try await client.enqueue(job(id)) }
        for id in ids { #expect(try await connection.nextMembers().id == id) }
        return (client, connection, sent)
    }

    private func outcome(_ job: SubmittedJob?) async throws -> String {
        do {
            return "completed \(try await #require(job).completion.sequence)"
        } catch let error as BrokerError {
            if error.isOutcomeUnknown { return "unknown" }
            // A refused job has no sequence.
            return error.sequence == nil && error.message == "m" && error.fault?.code != .invalidValue
                ? "refused \(error.fault?.code ?? error.code)" : "\(error)"
        }
    }

    @Test func `a job that needs too much is too large, and only a part of a sync is worth a retry`()
        async throws
    {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        for (path, code, retry) in [
            ("", BrokerError.Code.tooLarge, Duration?.none), (#""path":"/where","#, .tooLarge, nil),
            (#""path":"/operations/0/part","#, .busy, .milliseconds(1_000)),
        ] {
            let job = try await client.enqueue(Job(.process(json: #"{"id":1}"#, as: "E"), id: "a"))
            _ = try await connection.nextMembers()
            try await connection.send(
                #"{"type":"failed","id":"a","error":{"code":"busy","message":"m",\#(path)"retryAfterMilliseconds":1000}}"#
            )
            let error = await #expect(throws: BrokerError.self) { try await job.completion }
            #expect(error?.code == code && error?.retryAfter == retry && error?.fault?.code == .busy)
        }
        client.close()
        try await server.stop()
    }

    @Test
    func `an error without an id fails the job or request of the frame that it names, and the rest is sent again`()
        async throws
    {
        var server = try await FakeServer()
        let (client, opened, sent) = try await jobs(["a", "b", "c"], &server)
        var connection = opened
        let stats = Task { try await client.statistics() }
        _ = try await connection.next()
        try await connection.complete("a", sequence: 1)
        // The greeting was the first frame, and `a` the second.
        try await connection.send(#"{"type":"error","error":{"code":"contentTooLarge","message":"m"},"frame":3}"#)
        connection = try await server.greet()
        #expect(try await connection.nextMembers().id == "c")
        #expect(try await connection.next().contains("stats"))
        try await connection.send(#"{"type":"error","error":{"code":"internal","message":"m"},"frame":3}"#)
        await #expect(throws: BrokerError.reported(.init(code: .internal, message: "m"))) { _ = try await stats.value }
        connection = try await server.greet()
        #expect(try await connection.nextMembers().id == "c")
        try await connection.send(#"{"type":"error","error":{"code":"internal","message":"m"},"frame":2}"#)
        #expect(try await outcome(sent["a"]) == "completed 1")
        #expect(try await outcome(sent["b"]) == "refused contentTooLarge")
        #expect(try await outcome(sent["c"]) == "unknown")
        client.close()
        try await server.stop()
    }

    @Test(
        arguments: [
            "garbage", #"{"type":"completed","id":"z","sequence":1,"duplicate":false,"changes":{}}"#,
            #"{"type":"completed","id":"a"}"#, #"{"type":"failed","error":{"code":"internal","message":"m"}}"#,
            #"{"type":"error","error":{"code":"internal","message":"m"}}"#,
            #"{"type":"error","error":{"code":"internal","message":"m"},"frame":9}"#,
        ])
    func `after bytes that cannot be read, an answer to nothing, or an error about the connection, all is sent again`(
        answer: String
    ) async throws {
        var server = try await FakeServer()
        let (client, opened, sent) = try await jobs(["a", "b"], &server)
        if answer == "garbage" {
            try await opened.send(bytes: Array(answer.utf8))
        } else {
            try await opened.send(answer)
        }
        var connection = try await server.greet()
        for id in ["a", "b"] as [JobID] {
            #expect(try await connection.nextMembers().id == id)
            try await connection.complete(id, sequence: 4)
            #expect(try await outcome(sent[id]) == "completed 4")
        }
        client.close()
        try await server.stop()
    }

    @Test func `an error of the server's own about a job does not prove that nothing was done`() async throws {
        var server = try await FakeServer()
        let (client, connection, sent) = try await jobs(["a", "b"], &server)
        try await connection.send(
            #"{"type":"error","id":"a","error":{"code":"internal","message":"m"}}"#,
            #"{"type":"error","id":"b","error":{"code":"unsupportedMessage","message":"m"}}"#)
        #expect(try await outcome(sent["a"]) == "unknown")
        #expect(try await outcome(sent["b"]) == "refused unsupportedMessage")
        client.close()
        try await server.stop()
    }

    @Test func `a server that refuses to be connected again leaves the outcomes unknown`() async throws {
        var server = try await FakeServer()
        let (client, opened, sent) = try await jobs(["a"], &server)
        try await opened.close()
        let connection = try await server.hear().connection
        try await connection.send(#"{"type":"error","error":{"code":"unauthorized","message":"not you"}}"#)
        do {
            _ = try await sent["a"]?.completion
            Issue.record("it completed")
        } catch let error as BrokerError {
            #expect(error.isOutcomeUnknown)
            #expect(error.description.contains("not you"))
        }
        client.close()
        try await server.stop()
    }
}
