import BrokerCoordinator
import Glibc
import NIOCore
import Testing

@testable import BrokerServer

/// The users that a reload allows, and what they may send in a second.
@Suite(.timeLimit(.minutes(5))) struct UserRulesTests {
    private let user: UInt32 = 54_321
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

    private func rates(others: Int? = nil, own: [UInt32: Int] = [:]) -> JobRates {
        let rates = JobRates()
        var limit = UserLimit()
        (limit.others, limit.own) = (others, own)
        rates.use(limit)
        return rates
    }

    @Test func `a user has its own limit or that of all others, and root and the server's own user have none`() {
        var limit = UserLimit()
        #expect(limit.of(user) == nil)
        (limit.others, limit.own) = (3, [user: 8, 0: 1])
        #expect([user, user + 1].map(limit.of) == [8, 3])
        #expect([0, geteuid()].map(limit.of) == [nil, nil])
    }

    @Test func `a user may send the jobs of a second at once, and is then not read until the next is due`() {
        let rates = rates(others: 10)
        for _ in 0..<10 {
            #expect(rates.pause(of: user, at: start) == nil)
            rates.note(user, at: start)
        }
        rates.note(user, at: start)
        #expect(rates.pause(of: user, at: start) == .milliseconds(100))
        #expect(rates.pause(of: user + 1, at: start) == nil, "another user has a rate of its own")
        #expect(rates.pause(of: user, at: start + .milliseconds(100)) == nil)
        for _ in 0..<5 { rates.note(user, at: start + .milliseconds(100)) }
        #expect(rates.pause(of: user, at: start + .milliseconds(100)) == .milliseconds(500))
    }

    @Test func `a time without jobs saves no more than those of a second, and another limit begins anew`() {
        let rates = rates(own: [user: 2])
        rates.note(user, at: start)
        let later = start + .hours(1)
        for _ in 0..<3 { rates.note(user, at: later) }
        #expect(rates.pause(of: user, at: later) == .milliseconds(500))
        rates.note(user + 1, at: later)
        #expect(rates.pause(of: user + 1, at: later) == nil, "it has no limit")
        rates.use(UserLimit())
        #expect(rates.pause(of: user, at: later) == nil)
    }

    @Test func `a user that may not connect any more gets the error at once, and its connection ends`() async throws {
        try await RunningServer.run { running in
            let client = try running.connect()
            #expect(try client.ask(#"{"type": "subscribe"}"#).type == "subscribed")
            #expect(try client.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
            let job = #"{"id": "a", "entity": "Department", "json": {"id": 1}, "notify": ["accepted"]}"#
            #expect(try client.ask(job).type == "accepted")
            var users = UserRules()
            users.allowedUsers = [user: .write]
            running.server.use(users)
            let refusal = try client.next()
            #expect(refusal.type == "error" && refusal.code == "unauthorized", "\(refusal.text)")
            #expect(try client.receive() == nil)
            #expect(try running.connect().next().code == "unauthorized")
            running.server.use(UserRules())
            // Whoever connects before that is in effect is still refused.
            var again = try running.connect()
            while (try? again.ask(#"{"type": "ping"}"#).type) != "pong" { again = try running.connect() }
            #expect(try again.ask(#"{"type": "admin", "action": "resume"}"#).type == "done")
            #expect(try again.ask(#"{"type": "await", "id": "a"}"#).type == "completed", "the job takes effect")
        }
    }

    @Test func `another role counts from the next message of an open connection on`() async throws {
        try await RunningServer.run { running in
            let client = try running.connect()
            func job(_ id: String) throws -> String {
                try client.ask(#"{"id": "\#(id)", "entity": "Department", "json": {"id": 1}}"#).type
            }
            #expect(try job("a") == "completed")
            var users = UserRules()
            users.allowedUsers = [geteuid(): .read]
            running.server.use(users)
            // The change is made after what the loop has read.
            while try client.ask(#"{"type": "hello"}"#)["role"] != "read" {}
            #expect(try job("b") == "error")
            running.server.use(UserRules())
            while try client.ask(#"{"type": "hello"}"#)["role"] != "write" {}
            #expect(try job("c") == "completed")
        }
    }
}
