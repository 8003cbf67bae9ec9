import BrokerWire
import Foundation
import Testing

import Broker
@testable import BrokerClient

@Suite(.timeLimit(.minutes(5))) struct FetchTests {
    private struct Employee: Codable, Equatable {
        var id: Int
        var hiredAt: Date?
    }

    private func text(_ fetch: Query) throws -> String {
        String(decoding: ClientMessageWriter.fetch(members: try fetch.members()), as: UTF8.self)
    }

    @Test func `a fetch says what it asks for, and texts among its arguments stay texts`() throws {
        var fetch = Query("Employee", where: try .init("a == %@ AND b == %@", "12", 12))
        #expect(
            try text(fetch) == """
                {"type":"fetch","entity":"Employee","where":"a == %@ AND b == %@","arguments":["12",12],"dates":"iso8601"}
                """)
        fetch.dates = .model
        #expect(!(try text(fetch)).contains("dates"))
        fetch = Query("E")
        fetch.object = try RawJSON(value: ["row": 1])
        fetch.sort = ["-a"]
        fetch.include = ["b.c"]
        fetch.limit = 0
        fetch.offset = 2
        fetch.names = .local
        fetch.form = .dictionary
        #expect(
            try text(fetch) == """
                {"type":"fetch","entity":"E","object":{"row":1},"sort":["-a"],"include":["b.c"],"limit":0,"offset":2,\
                "names":"local","result":"dictionary"}
                """)
    }

    @Test func `a streamed fetch has a connection of its own, and its parts come as they are wanted`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let reading = Task {
            try await client.fetch(Employee.self, from: "Employee", where: "id > \(0)", names: .local).collect()
        }
        var stream = try await server.hear().connection
        #expect(
            try await stream.next()
                == #"{"type":"fetch","entity":"Employee","where":"id > %@","arguments":[0],"names":"local","stream":true}"#
        )
        try await stream.send(
            #"{"type":"objects","objects":[{"id":1,"hiredAt":"2011-12-22T02:24:51.500Z"}],"more":true,"last":1}"#,
            #"{"type":"objects","objects":[{"id":2,"hiredAt":null}],"more":false,"last":2}"#)
        let date = Date(timeIntervalSince1970: 1_324_520_691.5)
        #expect(try await reading.value == [Employee(id: 1, hiredAt: date), Employee(id: 2, hiredAt: nil)])
        await stream.closed()
        client.close()
        try await server.stop()
    }

    @Test func `an iteration that is left closes its connection, and one that is cancelled ends`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let reading = Task {
            for try await result in client.results(of: Query("E")) { return result.hasMore }
            return false
        }
        var stream = try await server.hear().connection
        _ = try await stream.next()
        try await stream.send(#"{"type":"objects","objects":[],"more":true}"#)
        #expect(try await reading.value)
        await stream.closed()
        let waiting = Task { for try await _ in client.results(of: Query("E")) {} }
        stream = try await server.hear().connection
        _ = try await stream.next()
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        await stream.closed()
        client.close()
        try await server.stop()
    }

    @Test func `a stream that the server ends, or that loses its connection, throws`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        for isLost in [false, true] {
            let reading = Task { for try await _ in client.results(of: Query("E")) {} }
            var stream = try await server.hear().connection
            _ = try await stream.next()
            try await stream.send(#"{"type":"objects","objects":[],"more":true}"#)
            if isLost {
                try await stream.close()
            } else {
                try await stream.send(#"{"type":"error","error":{"code":"snapshotExpired","message":"m"}}"#)
            }
            let error = await #expect(throws: BrokerError.self) { try await reading.value }
            #expect(error?.code == (isLost ? .connectionLost : .snapshotExpired))
        }
        client.close()
        try await server.stop()
    }

    @Test func `after the client is closed no fetch begins, and one that has begun ends`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let reading = Task { for try await _ in client.results(of: Query("E")) {} }
        var stream = try await server.hear().connection
        _ = try await stream.next()
        client.close()
        await #expect(throws: BrokerError.closed) { try await reading.value }
        await stream.closed()
        await #expect(throws: BrokerError.closed) { for try await _ in client.results(of: Query("E")) {} }
        try await server.stop()
    }

    @Test func `a fetch of which the server sends nothing ends when the time for answers is over`() async throws {
        var server = try await FakeServer()
        var options = BrokerClientConfiguration(name: "tests")
        options.answerTimeout = .milliseconds(50)
        let (client, _) = try await server.connect(options: options)
        let reading = Task { for try await _ in client.results(of: Query("E")) {} }
        var stream = try await server.hear().connection
        try await stream.welcome()
        let error = await #expect(throws: BrokerError.self) { try await reading.value }
        #expect(error?.code == .connectionLost)
        await stream.closed()
        client.close()
        try await server.stop()
    }

    @Test func `a missing object is nil, and a refusal has its code`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        async let none = client.fetchObject(Employee.self, from: "Employee", key: 7)
        let first = try await connection.nextMembers().tag
        try await connection.send(#"{"type":"objects","objects":null,"tag":\#(first)}"#)
        #expect(try await none == nil)
        async let refused = client.fetchDictionary(Employee.self, from: "Employe")
        let second = try await connection.nextMembers().tag
        try await connection.send(
            #"{"type":"error","error":{"code":"unknownEntity","message":"x","path":"/entity"},"tag":\#(second)}"#)
        do {
            _ = try await refused
            Issue.record("it was refused")
        } catch let error as BrokerError {
            #expect(error.code == .unknownEntity)
            #expect(error.fault?.path == "/entity")
        }
        client.close()
    }
}
