import Broker
import BrokerJSON
@testable import LoadTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5)))
struct AnswerTests {
    private func read(_ text: String) throws -> LoadAnswer {
        try LoadAnswer(JSONText(copying: Array(text.utf8)), idPrefix: "run-")
    }

    private let members = #"""
        "changes":{"Employee":{"inserted":1,"updated":2,"unchanged":3,"deleted":4,"rejected":0},"D":{"inserted":10,"updated":0,"unchanged":0,"deleted":0,"rejected":0}},"rejected":[],"warnings":[],"timing":{"queued":12,"staged":340,"waited":5,"merged":95,"committed":180}
        """#

    @Test func `a completion as the server writes it has the job's changes`() throws {
        let content = completedMessage(
            id: "run-123", sequence: 42, isDuplicate: false, members: Array(members.utf8))
        let answer = try read(String(decoding: content, as: UTF8.self))
        #expect(answer.job == 123)
        #expect(answer.kind == .completed)
        #expect(answer.objects == Completion.Changes(inserted: 11, updated: 2, unchanged: 3, deleted: 4))
    }

    @Test func `duplicates, rejects and warnings are seen`() throws {
        let duplicate = completedMessage(
            id: "run-1", sequence: 1, isDuplicate: true, members: Array(members.utf8))
        #expect(try read(String(decoding: duplicate, as: UTF8.self)).isDuplicate)
        let rejected = try read(
            #"""
            {"type":"completed","id":"run-7","sequence":3,"duplicate":false,"changes":{"E":{"inserted":0,"updated":0,"unchanged":0,"deleted":0,"rejected":1}},"rejected":[{"code":"invalidValue","message":"no"}],"warnings":[{"code":"unknownKey","count":1}],"timing":{"queued":1,"staged":1,"merged":1,"committed":1}}
            """#)
        #expect(rejected.job == 7)
        #expect(rejected.objects.rejected == 1)
        #expect(try read(#"{"type":"completed","id":"run-8","sequence":3}"#).job == 8)
    }

    @Test func `failures have their code, and ids of others are no jobs of the run`() throws {
        let failed = try read(
            #"{"type":"failed","id":"run-9","error":{"code":"busy","message":"Later.","retryAfterMilliseconds":5}}"#)
        #expect(failed.job == 9)
        #expect(failed.kind == .failed(code: "busy", message: "busy: Later."))
        #expect(try read(#"{"type":"accepted","id":"run-4","sequence":4}"#).kind == .accepted)
        #expect(try read(#"{"type":"accepted","id":"other-4","sequence":4}"#).job == nil)
        let error = try read(#"{"type":"error","error":{"code":"malformedJSON","message":"No."}}"#)
        #expect(error.job == nil)
        #expect(try read(#"{"type":"pong","tag":[5]}"#).job == nil)
    }

    @Test func `text that is no message is an error and no answer`() {
        #expect(throws: LoadError.self) { try read("{}") }
        #expect(throws: JSONError.self) { try read(#"{"type":"completed","id":"run-"#) }
    }
}
