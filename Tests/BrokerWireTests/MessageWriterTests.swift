import Broker
import BrokerJSON
import BrokerWire
import TestSupport
import Testing

/// Messages that one side writes and the other reads.
@Suite(.timeLimit(.minutes(5))) struct MessageWriterTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    private func server(_ content: [UInt8]) throws -> ServerEnvelope {
        try ServerEnvelope.decode(parsing: JSONText(copying: content))
    }

    @Test func `every other client message is read as it was meant`() throws {
        guard case .hello(client: "me") = try message(text(MessageWriter.hello(client: "me"))).message
        else { throw TestFault("no hello") }
        #expect(text(MessageWriter.message("ping", tag: utf8("2")) { _ in }) == #"{"type":"ping","tag":2}"#)
    }

    @Test func `a pong bears the fields of its ping`() throws {
        let ping = try message(#"{"n": {"a": 1}, "type":"ping","tag":"t","say \"hi\"":"\n"}"#)
        #expect(
            text(MessageWriter.pong(to: ping.document))
                == #"{"type":"pong","n":{"a": 1},"tag":"t","say \"hi\"":"\n"}"#)
    }

    @Test func `a server that violates the protocol is distinguished from one that follows it`() {
        for (json, path) in [
            (#"{"id":"a"}"#, "/type"), (#"{"type":"completed","sequence":1}"#, "/id"),
            (#"{"type":"completed","id":"a","sequence":"1"}"#, "/sequence"), (#"{"type":"failed"}"#, "/error"),
        ] {
            let error = refusal { () throws(WireError) in
                _ = try ServerEnvelope.decode(parsing: JSONText(copying: utf8(json)))
            }
            #expect(error?.code == .unsupportedMessage)
            #expect(error?.path == path)
        }
    }

    @Test func `a completed is read with its whole outcome`() throws {
        let members = #"""
            "changes":{"Employee":{"inserted":2,"updated":1,"unchanged":7,"deleted":0,"rejected":3}},
            "rejected":[{"code":"invalidValue","message":"m","path":"/json/3/hired_at","entity":"Employee","attribute":"hiredAt"}],
            "warnings":[{"code":"unknownKey","entity":"Employee","key":"bunk","count":10}],
            "timing":{"queued":12,"staged":340,"merged":95,"committed":180},"keys":{"Employee":{"inserted":[1,2]}},"new":1
            """#
        let content = completedMessage(
            id: "emp-1", sequence: 42, isDuplicate: true, members: utf8(members), tag: utf8("9"))
        let envelope = try server(content)
        guard case .completed(let completed) = envelope.message else { throw TestFault("no completed") }
        #expect(envelope.tag == utf8("9"))
        #expect(completed.id == "emp-1")
        #expect(completed.sequence == 42)
        #expect(completed.isDuplicate)
        #expect(completed.changes == ["Employee": .init(inserted: 2, updated: 1, unchanged: 7, rejected: 3)])
        #expect(completed.rejections.map(\.description) == ["invalidValue at /json/3/hired_at: m"])
        #expect(completed.rejections.first?.attribute == "hiredAt")
        #expect(completed.warnings.first?.key == "bunk")
        #expect(completed.warnings.first?.count == 10)
        #expect(completed.timing?.merged == .microseconds(95))
        #expect(completed.keys?.bytes == utf8(#"{"Employee":{"inserted":[1,2]}}"#))
    }

    @Test func `with reply none a completed is id and sequence alone`() throws {
        let content = completedMessage(
            id: "a", sequence: 1, isDuplicate: true, members: [UInt8](), tag: utf8("9"))
        #expect(text(content) == #"{"type":"completed","id":"a","sequence":1,"tag":9}"#)
        guard case .completed(let completed) = try server(content).message else { throw TestFault("no completed") }
        #expect(completed == Completion(id: "a", sequence: 1))
    }

    @Test func `the other answers are read as they were meant`() throws {
        guard
            case .accepted(id: "a", sequence: 7) = try server(utf8(#"{"type":"accepted","id":"a","sequence":7}"#))
                .message
        else { throw TestFault("no accepted") }
        let failed = #"{"type":"failed","error":{"code":"busy","message":"later","retryAfterMilliseconds":50}}"#
        guard case .failed(let failure) = try server(utf8(failed)).message else { throw TestFault("no failed") }
        #expect(failure.jobID == nil && failure.sequence == nil && failure.retryAfter == .milliseconds(50))
        let welcome = #"""
            {"type":"welcome","version":1,"server":"broker","journal":true,"durability":"disk","replica":"r1",
             "features":["dryRun","maximumDeletions","bookmark"],"role":"read","limits":{"maximumDepth":4,"new":1},
             "entities":["A","B"]}
            """#
        guard case .welcome(let greeting) = try server(utf8(welcome)).message else { throw TestFault("no welcome") }
        #expect(greeting.protocolVersion == 1 && greeting.name == "broker" && greeting.entities == ["A", "B"])
        #expect(greeting.hasJournal == true && greeting.durability == "disk" && greeting.replica == "r1")
        #expect(greeting.role == "read" && greeting.features == ["dryRun", "maximumDeletions", "bookmark"])
        #expect(greeting.limits.maximumDepth == 4 && greeting.limits.jobMemory == nil)
        guard case .model(let json) = try server(utf8(#"{"type":"model","model":{"entities":{}}}"#)).message
        else { throw TestFault("no model") }
        #expect(json == utf8(#"{"entities":{}}"#))
        guard case .other("moved") = try server(utf8(#"{"type":"moved"}"#)).message else {
            throw TestFault("an unknown type was read as something else")
        }
    }

    @Test func `an error has code, position, id and tag`() throws {
        var error = WireError(
            .malformedJSON, "m", path: "/a", position: JSONPosition(offset: 3, in: JSONText(copying: utf8("\n\n\n\n"))))
        error.id = "a"
        error.tag = utf8("null")
        #expect(
            text(error.encoded())
                == #"{"type":"error","error":{"code":"malformedJSON","message":"m","path":"/a","line":4,"column":1,"#
                + #""offset":3},"id":"a","tag":null}"#)
        guard case .error(let read) = try server(error.encoded()).message else { throw TestFault("no error") }
        #expect(read.jobID == "a" && read.code == .malformedJSON && read.fault?.line == 4)
    }
}
