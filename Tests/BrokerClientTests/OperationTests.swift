import Foundation
import Testing

// Not @testable: what is used here is what users have.
import Broker
import BrokerClient

/// The messages of operations.
@Suite(.timeLimit(.minutes(5))) struct OperationTests {
    private struct Seat: Codable {
        var hall: String
        var number: Int
    }

    private struct Department: Codable {
        var id: Int
        var name: String
    }

    /// The message that a client sends for a call, which is answered as done.
    private func message(
        of body: @escaping @Sendable (BrokerClient) async throws -> Completion
    ) async throws -> String {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        async let completion = body(client)
        let message = try await connection.next()
        try await connection.complete("a")
        #expect(try await completion.id == "a")
        client.close()
        try await server.stop()
        return message
    }

    @Test func `a record for one object bears that object's key`() async throws {
        #expect(
            try await message { try await $0.process(json: #"{"name":"n"}"#, as: "E", object: 3, id: "a") }
                == #"{"id":"a","entity":"E","object":3,"json":{"name":"n"}}"#)
        #expect(
            try await message {
                try await $0.process(json: "{}", as: "S", object: Seat(hall: "A", number: 7), id: "a", onInvalid: .skip)
            } == #"{"id":"a","onInvalid":"skip","entity":"S","object":{"hall":"A","number":7},"json":{}}"#)
    }

    @Test func `relate takes values, JSON, keys and nothing`() async throws {
        let head = #"{"id":"a","op":"relate","entity":"E","object":"x","relationship":"r","json":"#
        #expect(
            try await message { try await $0.relate("E", "x", "r", to: Department(id: 7, name: "R&D"), id: "a") }
                == head.replacing(#""op""#, with: #""unknown":"fail","op""#) + #"{"id":7,"name":"R&D"}}"#)
        #expect(
            try await message { try await $0.relate("E", "x", "r", to: RawJSON("[1,2]"), id: "a") } == head + "[1,2]}")
        #expect(try await message { try await $0.relate("E", "x", "r", to: "7", id: "a") } == head + #""7"}"#)
        #expect(
            try await message { try await $0.relate("E", "x", "r", to: ["a", "b"], id: "a") }
                == head + #"["a","b"]}"#)
        #expect(
            try await message { try await $0.relate("E", "x", "r", to: Int?.none, id: "a") } == head + "null}")
    }

    @Test func `map bears its payload, and what reads it`() async throws {
        #expect(
            try await message { try await $0.map(json: #"{"a":1}"#, by: .path("/articles/5?x"), id: "a") }
                == #"{"id":"a","op":"map","path":"/articles/5?x","json":{"a":1}}"#)
        #expect(
            try await message { try await $0.map([Department(id: 1, name: "n")], by: .mapping("m"), id: "a") }
                == #"{"id":"a","unknown":"fail","op":"map","mapping":"m","json":[{"id":1,"name":"n"}]}"#)
        #expect(try await message { try await $0.map(json: "[]", id: "a") } == #"{"id":"a","op":"map","json":[]}"#)
    }

    @Test func `sync bears its predicate, its arguments and a subset of its actions`() async throws {
        #expect(
            try await message { try await $0.sync(json: "[]", as: "E", id: "a") }
                == #"{"id":"a","op":"sync","entity":"E","json":[]}"#)
        #expect(
            try await message {
                try await $0.sync(
                    [Department(id: 7, name: "x")], as: "D",
                    where: "name == \("R&D \"") OR id IN \([1, 2]) OR boss == \(Int?.none)",
                    actions: [.update, .insert], id: "a", reply: .keys)
            }
                == #"{"id":"a","unknown":"fail","reply":"keys","op":"sync","entity":"D","where":"name == %@ OR id IN %@ OR boss == %@","#
                + #""arguments":["R&D \"",[1,2],null],"actions":["insert","update"],"json":[{"id":7,"name":"x"}]}"#)
    }

    @Test func `delete bears keys or a predicate`() async throws {
        let head = #"{"id":"a","op":"delete","entity":"E","#
        #expect(try await message { try await $0.delete("E", keys: [1, 2], id: "a") } == head + #""objects":[1,2]}"#)
        #expect(try await message { try await $0.delete("E", keys: ["1"], id: "a") } == head + #""objects":["1"]}"#)
        #expect(
            try await message { try await $0.delete("E", keys: [Seat(hall: "A", number: 1)], id: "a") }
                == head + #""objects":[{"hall":"A","number":1}]}"#)
        #expect(
            try await message {
                try await $0.delete("E", where: "at < \(Date(timeIntervalSince1970: 1.5))", id: "a")
            } == head + #""where":"at < %@","arguments":[1.5]}"#)
        #expect(
            try await message { try await $0.delete("E", where: "TRUEPREDICATE", id: "a") }
                == head + #""where":"TRUEPREDICATE"}"#)
    }

    @Test func `a job of several operations keeps their order`() async throws {
        let keys = try Job.Operation.delete("E", keys: [1])
        let job = Job(
            [
                keys, .process(json: Array("{}".utf8), as: "E"), .delete("D", where: .all),
                .sync(json: "[]", as: "D", where: "\(key: "id") > 1", actions: []),
                .sync(json: "[{}]", as: "D", part: .init(id: "p", isLast: false)),
            ], id: "a")
        #expect(
            try await message { try await $0.process(job) }
                == #"{"id":"a","operations":[{"op":"delete","entity":"E","objects":[1]},{"entity":"E","json":{}},"#
                + #"{"op":"delete","entity":"D","where":"TRUEPREDICATE"},"#
                + #"{"op":"sync","entity":"D","where":"%K > 1","arguments":["id"],"actions":[],"json":[]},"#
                + #"{"op":"sync","entity":"D","part":{"id":"p","last":false},"json":[{}]}]}"#)
    }

    @Test func `a value that cannot be written as JSON fails before anything is sent`() async throws {
        #expect(throws: BrokerError.self) { try Job.Operation.delete("E", keys: [Double.nan]) }
        #expect(throws: BrokerError.self) { try BrokerPredicate("a == %@", Double.infinity) }
        #expect(throws: BrokerError.self) {
            try Job.Operation.relate("E", Double.nan, "r", toKey: 1)
        }
    }
}
