import Broker
import BrokerClient
import Foundation
import Testing

/// A sequence that was sent to a client belongs to one job for ever: real processes, killed.
@Suite(.timeLimit(.minutes(5))) struct SequenceTests {
    private func job(_ number: Int) -> Job {
        .process(json: Array(#"{"id": \#(number)}"#.utf8), as: "Employee")
    }

    /// The sequences in the jobs' `accepted` messages.
    private func accepted(_ programs: Programs, _ jobs: [Job], areCompleted: Bool = true) async throws
        -> [Int64]
    {
        let broker = try await BrokerClient.connect(to: .unixSocket(programs.path("broker.sock")))
        var sequences: [Int64] = []
        for job in jobs {
            let ticket = try await broker.submit(job)
            sequences.append(ticket.sequence)
            if areCompleted { _ = try await ticket.completion }
        }
        broker.close()
        return sequences
    }

    private func end(_ server: Process, _ signal: Int32) {
        kill(server.processIdentifier, signal)
        server.waitUntilExit()
    }

    @Test func `an accepted job that was never committed retains its sequence, though the server is killed`()
        async throws
    {
        let programs = try Programs()
        let server = try programs.startServer()
        let lock = try StoreLocker(programs.path("store.sqlite"))
        let sequences = try await accepted(programs, [job(1), job(2)], areCompleted: false)
        #expect(sequences == [1, 2])
        end(server, SIGKILL)
        lock.unlock()
        _ = try programs.startServer()
        let database = try Database(programs.path("store.sqlite"))
        #expect(try database.rows("SELECT count(*) FROM Employee") == ["0"])
        let later = try await accepted(programs, [job(3)])
        #expect(later.allSatisfy { $0 > 2 }, "\(later)")
    }

    @Test func `a duplicate's number is not given again after a kill, and a clean stop leaves no gap`() async throws {
        let programs = try Programs()
        var server = try programs.startServer()
        var same = job(1)
        same.id = "same"
        #expect(try await accepted(programs, [same, same]) == [1, 2])
        end(server, SIGTERM)
        server = try programs.startServer()
        #expect(try await accepted(programs, [same]) == [3])
        end(server, SIGKILL)
        server = try programs.startServer()
        let later = try await accepted(programs, [job(2), job(3)])
        #expect(later[0] > 3)
        #expect(later[1] == later[0] + 1)
        end(server, SIGTERM)
        _ = try programs.startServer()
        #expect(try await accepted(programs, [job(4)]) == [later[1] + 1])
    }

    @Test func `a server that is stopped while the store is locked fails what waits, and ends`() async throws {
        let programs = try Programs()
        let server = try programs.startServer()
        let lock = try StoreLocker(programs.path("store.sqlite"))
        let broker = try await BrokerClient.connect(to: .unixSocket(programs.path("broker.sock")))
        var waiting = job(1)
        waiting.id = "waiting"
        let ticket = try await broker.submit(waiting)
        kill(server.processIdentifier, SIGTERM)
        await #expect(throws: BrokerError.self) { _ = try await ticket.completion }
        lock.unlock()
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
        broker.close()
        let database = try Database(programs.path("store.sqlite"))
        #expect(try database.rows("SELECT count(*) FROM Employee") == ["0"])
        _ = try programs.startServer()
        let again = try await accepted(programs, [waiting])
        #expect(again.allSatisfy { $0 > 1 }, "\(again)")
    }
}
