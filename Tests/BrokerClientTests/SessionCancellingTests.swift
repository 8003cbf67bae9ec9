import BrokerJSON
import BrokerWire
import NIOCore
import Testing

import Broker
@testable import BrokerClient
import BrokerRequests

/// A session with cancelled jobs, and with messages that must be sent once.
@Suite(.timeLimit(.minutes(5))) struct SessionCancellingTests {
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000)
    private let cancel: [UInt8] = [99]

    private func connected(count: Int = 64) throws -> Session {
        var session = Session(
            path: "/s", window: PendingJobs(maximumCount: count, maximumBytes: 1 << 20),
            patience: .init(reconnecting: .seconds(1), welcome: .seconds(10)))
        _ = try receive(#"{"type":"welcome","version":1}"#, in: &session)
        return session
    }

    private func receive(
        _ json: String, in session: inout Session, on connection: Int = 1
    ) throws -> Session.Effects {
        session.received(
            [.message(try ServerEnvelope.decode(parsing: JSONText(copying: Array(json.utf8))))], on: connection,
            at: start)
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

    @Test func `a sent job is cancelled once, and the answer cancelled withdraws it`() throws {
        var session = try connected(count: 1)
        let place = try add("a", to: &session)
        _ = try add("b", to: &session)
        #expect(session.cancel(place, frame: cancel).write == [cancel])
        #expect(session.cancel(place, frame: cancel).write == [])
        let answered = try receive(#"{"type":"cancelled","id":"a","tag":"cancel"}"#, in: &session)
        #expect(said(answered) == [])
        let ended = try receive(
            #"{"type":"failed","id":"a","sequence":1,"error":{"code":"cancelled","message":"m"}}"#, in: &session)
        #expect(said(ended) == ["withdrawn"])
        // Its room is the next one's.
        #expect(ended.write == [Array("b".utf8)])
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

    @Test func `a job that another client has cancelled fails`() throws {
        var session = try connected()
        _ = try add("a", to: &session)
        let ended = try receive(
            #"{"type":"failed","id":"a","sequence":1,"error":{"code":"cancelled","message":"m"}}"#, in: &session)
        #expect(said(ended) == ["failed: cancelled: m"])
    }

    @Test func `a lost connection leaves the outcome of a cancelled job unknown, and sends the others again`() throws {
        var session = try connected()
        let place = try add("a", to: &session)
        _ = try add("b", to: &session)
        _ = session.cancel(place, frame: cancel)
        let lost = session.lost(1, reason: "gone", at: start)
        #expect(said(lost) == ["unknown a"])
        let again = try receive(#"{"type":"welcome","version":1}"#, in: &session, on: 2)
        #expect(again.write == [Array("b".utf8)])
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

    @Test func `while jobs are sent one by one to attribute an error, only the job that is sent can be cancelled`()
        throws
    {
        var session = try connected()
        let places = try ["a", "b", "c"].map { try add($0, to: &session) }
        _ = session.cancel(places[2], frame: cancel)
        let trouble = try receive(#"{"type":"error","error":{"code":"internal","message":"m"}}"#, in: &session)
        #expect(said(trouble) == ["unknown c"])
        #expect(try receive(#"{"type":"welcome","version":1}"#, in: &session, on: 2).write == [Array("a".utf8)])
        #expect(said(session.cancel(places[1], frame: cancel)) == ["unknown b"])
        #expect(session.cancel(places[0], frame: cancel).write == [cancel])
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
