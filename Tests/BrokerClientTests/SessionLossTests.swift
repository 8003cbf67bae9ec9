import BrokerJSON
import BrokerRequests
import BrokerWire
import NIOCore
import Testing

import Broker
@testable import BrokerClient

/// Notes and attempts of a session without a connection.
@Suite(.timeLimit(.minutes(5))) struct SessionLossTests {
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

    private func session() -> Session {
        Session(
            path: "/s", window: PendingJobs(maximumCount: 64, maximumBytes: 1 << 20),
            patience: .init(reconnecting: .seconds(10), welcome: .seconds(2)), beginning: .whenNeeded)
    }

    private func add(_ id: JobID, to session: inout Session, at now: NIODeadline) throws -> Session.Effects {
        try session.add(id: id, frame: [], waiter: JobWaiter(completion: Answer()), at: now).effects
    }

    private func welcome(_ session: inout Session, on connection: Int, at now: NIODeadline) throws -> Session.Effects {
        let json = Array(#"{"type":"welcome","version":1}"#.utf8)
        return session.received(
            [.message(try ServerEnvelope.decode(parsing: JSONText(copying: json)))], on: connection, at: now)
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
