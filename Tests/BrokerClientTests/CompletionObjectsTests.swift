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
        #expect(try await connection.next().contains(#""reply":"objects","dates":"iso8601""#))
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

    @Test func `an answer without objects or keys says so, and why`() throws {
        let duplicate = Completion(id: "j", sequence: 1, isDuplicate: true)
        let shortened = Completion(
            id: "j", sequence: 1,
            warnings: [.init(code: .answerShortened, key: "objects"), .init(code: .answerShortened, key: "keys")])
        for (completion, reason) in [
            (duplicate, "had been applied before"), (shortened, "too large"),
            (Completion(id: "j", sequence: 1), "not asked for"),
        ] {
            let calls: [(Completion) throws -> Void] = [
                { _ = try $0.objects(as: Tag.self) }, { _ = try $0.keys(of: "Tag", as: String.self) },
            ]
            for call in calls {
                let error = #expect(throws: BrokerError.self) { try call(completion) }
                #expect(error?.code == .notReturned && error?.jobID == "j")
                #expect(error?.message.contains(reason) == true, "\(String(describing: error))")
            }
        }
    }
}
