import BrokerJSON
import BrokerWire
import NIOCore
import Testing

import Broker
@testable import BrokerClient
import BrokerRequests

/// Sessions with a limit for servers that send no answers.
@Suite(.timeLimit(.minutes(5))) struct SessionSilenceTests {
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

    private func session(answer: TimeAmount?) throws -> Session {
        var session = Session(
            path: "/s", window: PendingJobs(maximumCount: 64, maximumBytes: 1 << 20),
            patience: .init(reconnecting: .seconds(30), welcome: .seconds(10), answer: answer))
        _ = try receive(#"{"type":"welcome","version":1}"#, in: &session, at: start)
        return session
    }

    private func receive(_ json: String, in session: inout Session, at now: NIODeadline) throws -> Session.Effects {
        session.received(
            [.message(try ServerEnvelope.decode(parsing: JSONText(copying: Array(json.utf8))))],
            on: session.currentConnection ?? 0, at: now)
    }

    private func add(_ id: String, to session: inout Session, at now: NIODeadline) throws {
        var encoder = FrameEncoder()
        let frame = try encoder.encode(
            JobMessageWriter(id: id, operations: [.init(entity: "E", json: ProvenJSON(proving: Array("{}".utf8)))])
                .content())
        _ = try session.add(id: JobID(id), frame: frame, waiter: JobWaiter(completion: Answer()), at: now)
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
