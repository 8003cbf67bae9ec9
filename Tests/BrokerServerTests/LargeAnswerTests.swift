import BrokerCoordinator
import BrokerModel
@testable import BrokerServer
import BrokerWire
import TestSupport
import Testing

/// Answers that fit no frame; the frames are made small for that.
@Suite(.timeLimit(.minutes(5))) struct LargeAnswerTests {
    private let adjust: (inout ServerOptions) -> Void = { $0.answerLimits = FrameLimits(maximumPayloadCount: 150_000) }

    /// Records whose keys do not compress to much.
    private func records(_ count: Int, _ more: String = "") -> String {
        var generator = SeededGenerator(seed: 4)
        return (0..<count).map { _ in #"{"id": \#(Int64.random(in: 1...Int64.max, using: &generator))\#(more)}"# }
            .joined(separator: ",")
    }

    @Test func `a completion that exceeds a frame is sent without its keys`() async throws {
        try await RunningServer.run(adjust) { running in
            let client = try running.connect()
            let job = #"{"id": "a", "tag": 5, "reply": "keys", "entity": "Department", "json": [\#(records(20_000))]}"#
            for message in [job, job, #"{"type": "await", "id": "a", "tag": 5}"#] {
                let completed = try client.ask(message)
                #expect(completed.type == "completed")
                #expect(completed["id"] == "a")
                #expect(completed.sequence == 1)
                #expect(completed["tag"] == "5")
                #expect(completed["duplicate"] != nil)
                #expect(completed["changes.Department.inserted"] == "20000")
                #expect(completed["keys"] == nil)
                #expect(completed["warnings.0.code"] == "answerShortened")
                #expect(completed["warnings.0.key"] == "keys")
                #expect(completed["warnings.0.count"] == "20000")
            }
        }
    }

    @Test func `only the objects that exceed a frame are omitted`() async throws {
        try await RunningServer.run(adjust) { running in
            let client = try running.connect()
            let answer = try client.ask(
                #"{"tag": 5, "reply": "objects", "onInvalid": "skip", "entity": "Department", "json": [{},\#(records(20_000))]}"#
            )
            #expect(answer.type == "completed")
            #expect(answer["tag"] == "5")
            #expect(answer["changes.Department.inserted"] == "20000")
            #expect(answer["rejected.0.code"] == "missingIdentity")
            #expect(answer["objects"] == nil)
            #expect(answer["warnings.0.code"] == "answerShortened")
            #expect(answer["warnings.0.key"] == "objects")
            #expect(answer["warnings.0.count"] == "20001")
            #expect(answer["warnings.1.code"] == nil)
            #expect(answer["timing.merged"] != nil)
        }
    }

    @Test func `of rejections that exceed a frame, the first are sent, and the number of the others`() {
        var generator = SeededGenerator(seed: 5)
        var outcome = Outcome()
        outcome.changes = [("A", ChangeCounts(rejected: 3_000))]
        outcome.rejected = (0..<3_000).map { number in
            Fault(.invalidValue, SeededGenerator(seed: generator.next()).text(count: 100), path: "/json/\(number)")
        }
        outcome.warnings = [Warning(.unknownKey, entity: "A", key: "k", count: 1)]
        let ending = JobCompletion(
            id: "a", owner: nil, sequence: 7, result: .completed(members: outcome.members, isDuplicate: true))
        let shortened = ending.shortened()
        guard case .completed(let members, true) = shortened.result else {
            Issue.record("it is still completed, and a duplicate")
            return
        }
        #expect(shortened.id == "a")
        #expect(shortened.sequence == 7)
        #expect(members.count < 100_000)
        let text = String(decoding: members, as: UTF8.self)
        #expect(
            text.hasPrefix(#""changes":{"A":{"inserted":0,"updated":0,"unchanged":0,"deleted":0,"rejected":3000}}"#))
        #expect(text.contains(#""path":"/json/0""#))
        #expect(text.contains(#"{"code":"unknownKey","entity":"A","key":"k","count":1}"#))
        #expect(text.contains(#""code":"answerShortened","entity":"","key":"rejected""#))
    }

    @Test func `a failure that fits no frame is still that failure`() {
        let fault = Fault(
            .unknownEntity, String(repeating: "m", count: 30_000), path: String(repeating: "p", count: 30_000),
            entity: "E")
        let shortened = JobCompletion.failed(fault, id: "a", owner: nil, sequence: 3).shortened()
        guard case .failed(let error) = shortened.result else {
            Issue.record("it has failed")
            return
        }
        #expect(shortened.sequence == 3)
        #expect(error.count < 2_000)
        let text = String(decoding: error, as: UTF8.self)
        #expect(text.hasPrefix(#"{"code":"unknownEntity","message":"mmm"#))
        #expect(text.hasSuffix(#"…","entity":"E"}"#))
    }

    @Test func `an answer that fits no frame is an error about the frame of its message`() async throws {
        let adjust: (inout ServerOptions) -> Void = { $0.answerLimits = FrameLimits(maximumPayloadCount: 10_000) }
        try await RunningServer.run(adjust) { running in
            let client = try running.connect()
            let padding = SeededGenerator(seed: 6).text(count: 60_000)
            let error = try client.ask(#"{"type": "ping", "tag": "t", "id": "i", "padding": "\#(padding)"}"#)
            #expect(error.code == "internal")
            #expect(error["tag"] == "t")
            #expect(error["id"] == "i")
            #expect(error["frame"] == "1")
            #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
        }
    }
}
