import Foundation
import Testing

import Broker
@testable import BrokerClient

@Suite(.timeLimit(.minutes(5))) struct CompletionObjectsTests {
    private struct Employee: Codable, Equatable {
        var id: Int
        var hiredAt: Date?
    }

    private struct Tag: Codable, Equatable { var word: String }

    @Test func `objects are asked for, and come as values, operation by operation`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        var job = Job(
            [
                try .process([Employee(id: 1), Employee(id: 2)], as: "Employee"),
                .process(json: Array("[]".utf8), as: "Tag"),
                .process(json: Array(#"{"word": "w"}"#.utf8), as: "Tag"),
            ], id: "j")
        job.reply = .objects
        async let ended = client.process(job)
        #expect(try await connection.next().contains(#""reply":"objects""#))
        try await connection.send(
            #"""
            {"type":"completed","id":"j","sequence":1,"duplicate":false,"changes":{},"rejected":[],"warnings":[],
             "objects":[[{"id":1,"hiredAt":"2011-12-22T02:24:51.500Z"},null],[],[{"word":"w"}]]}
            """#)
        let completion = try await ended
        #expect(completion.objects?.description.hasPrefix("[[{") == true)
        let date = Date(timeIntervalSince1970: 1_324_520_691.5)
        #expect(try completion.objects(as: Employee.self) == [Employee(id: 1, hiredAt: date), nil])
        #expect(try completion.objects(ofOperation: 1, as: Tag.self) == [])
        let tags: [Tag?] = try completion.objects(ofOperation: 2)
        #expect(tags == [Tag(word: "w")])
        #expect(throws: DecodingError.self) { try completion.objects(ofOperation: 3, as: Tag.self) }
        #expect(throws: DecodingError.self) { try completion.objects(ofOperation: 2, as: Employee.self) }
        client.close()
        try await server.stop()
    }

    @Test func `without objects in the answer there are none`() throws {
        let duplicate = Completion(id: "j", sequence: 1, isDuplicate: true)
        #expect(duplicate.objects == nil)
        #expect(try duplicate.objects(as: Tag.self) == [])
    }
}
