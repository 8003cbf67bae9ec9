import BrokerJSON
import BrokerWire
import Testing

/// Messages that one side writes and the other reads.
@Suite(.timeLimit(.minutes(5))) struct MessageWriterTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    private func raw(_ json: String) throws -> ProvenJSON { try ProvenJSON(proving: utf8(json)) }

    private func server(_ content: [UInt8]) throws -> ServerEnvelope {
        try ServerEnvelope.decode(parsing: JSONText(copying: content))
    }

    @Test func `a job of one operation is the shorthand`() throws {
        let writer = try JobMessageWriter(id: "a", operations: [.init(entity: "Employee", json: raw("[{}]"))])
        #expect(text(writer.content()) == #"{"id":"a","entity":"Employee","json":[{}]}"#)
    }

    @Test func `a job with every option is read as it was meant`() throws {
        var writer = try JobMessageWriter(
            id: "a\"b", operations: [.init(entity: "A", json: raw("[1]")), .init(entity: "B", json: raw("{}"))])
        writer.onInvalid = .skip
        writer.reply = .none
        writer.notify = [.accepted, .completed]
        writer.isLenient = true
        writer.isDryRun = true
        writer.maximumDeletions = .percent(thousandths: 12_050)
        writer.bookmark = JobMessage.Bookmark(name: "n\"", value: "\u{1}")
        writer.tag = try raw("[7]")
        let envelope = try message(text(writer.content()))
        guard case .job(let job) = envelope.message else { throw TestFault("no job") }
        #expect(envelope.tag == utf8("[7]"))
        #expect(job.id == "a\"b")
        #expect(job.onInvalid == .skip)
        #expect(job.reply == .none)
        #expect(job.notify == [.accepted, .completed])
        #expect(job.isLenient && job.isDryRun)
        #expect(job.maximumDeletions == .percent(thousandths: 12_050))
        #expect(job.bookmark == writer.bookmark)
        #expect(job.operations.map(\.entity) == ["A", "B"])
        #expect(job.operations.map { text(Array($0.json.bytes)) } == ["[1]", "{}"])
    }

    @Test func `every operation is read as it was meant`() throws {
        let writer = try JobMessageWriter(
            id: nil,
            operations: [
                .init(entity: "A", .process(raw("{}"), object: raw("1"))),
                .init(entity: "B", .relate(raw("null"), object: raw("\"k\""), relationship: "r\"s")),
                .init(entity: "C", .sync(raw("[]"), .init("a == %@", arguments: raw("[1]")), [.insert, .delete])),
                .init(entity: "D", .sync(raw("[]"), nil, .all, part: .init(id: "p", isLast: true))),
                .init(entity: "E", .delete(raw("[1,2]"))),
                .init(entity: "F", .deleteMatching(.init("TRUEPREDICATE"))),
                .init(entity: "", .map(raw("{}"), mapping: "m", path: nil)),
                .init(entity: "", .map(raw("[]"), mapping: nil, path: "/x?y")),
                .init(entity: "", .map(raw("[1]"), mapping: nil, path: nil)),
            ])
        let envelope = try message(text(writer.content()))
        guard case .job(let job) = envelope.message else { throw TestFault("no job") }
        #expect(job.operations.map(\.entity) == ["A", "B", "C", "D", "E", "F", "", "", ""])
        func json(_ value: JSONValue?) -> String? { value.map { text($0.jsonText) } }
        let said = job.operations.map { operation in
            switch operation.action {
            case .process(let object): "process \(json(object) ?? "")"
            case .relate(let object, let name): "relate \(json(object) ?? "") \(json(name) ?? "")"
            case .sync(let selection, let actions, let part):
                "sync \(selection.predicate ?? "all") \(json(selection.arguments) ?? "") \(actions.rawValue)"
                    + (part.map { " \($0.id) \($0.isLast)" } ?? "")
            case .map(let mapping, let path):
                "map \(json(operation.json)!) \(json(mapping) ?? "-") \(json(path) ?? "-")"
            case .delete: "delete \(json(operation.json) ?? "")"
            case .deleteMatching(let selection): "delete where \(selection.predicate ?? "")"
            }
        }
        #expect(
            said == [
                "process 1", #"relate "k" "r\"s""#, "sync a == %@ [1] 5", "sync all  7 p true", "delete [1,2]",
                "delete where TRUEPREDICATE", #"map {} "m" -"#, #"map [] - "/x?y""#, "map [1] - -",
            ])
    }

    @Test func `every other client message is read as it was meant`() throws {
        guard case .hello(version: 1, client: "me") = try message(text(ClientMessageWriter.hello(client: "me"))).message
        else { throw TestFault("no hello") }
        guard case .await(id: "x", after: nil) = try message(text(ClientMessageWriter.await(id: "x"))).message else {
            throw TestFault("no await")
        }
        #expect(
            try text(ClientMessageWriter.ping(members: [("n", raw("1"))], tag: raw("2")))
                == #"{"type":"ping","n":1,"tag":2}"#)
        #expect(try text(ClientMessageWriter.stats(tag: raw("3"))) == #"{"type":"stats","tag":3}"#)
        #expect(text(ClientMessageWriter.model()) == #"{"type":"model"}"#)
    }

    @Test func `a pong bears the fields of its ping`() throws {
        let ping = try message(#"{"n": {"a": 1}, "type":"ping","tag":"t","say \"hi\"":"\n"}"#)
        #expect(
            text(ServerMessageWriter.pong(to: ping.document))
                == #"{"type":"pong","n":{"a": 1},"tag":"t","say \"hi\"":"\n"}"#)
    }

    @Test func `a completed is read with its whole outcome`() throws {
        let members = #"""
            "changes":{"Employee":{"inserted":2,"updated":1,"unchanged":7,"deleted":0,"rejected":3}},
            "rejected":[{"code":"invalidValue","message":"m","path":"/json/3/hired_at","entity":"Employee","attribute":"hiredAt"}],
            "warnings":[{"code":"unknownKey","entity":"Employee","key":"bunk","count":10}],
            "timing":{"queued":12,"staged":340,"merged":95,"committed":180},"keys":{"Employee":{"inserted":[1,2]}},"new":1
            """#
        let content = ServerMessageWriter.completed(
            id: "emp-1", sequence: 42, duplicate: true, members: utf8(members), tag: utf8("9"))
        let envelope = try server(content)
        guard case .completed(let completed) = envelope.message else { throw TestFault("no completed") }
        #expect(envelope.tag == utf8("9"))
        #expect(completed.id == "emp-1")
        #expect(completed.sequence == 42)
        #expect(completed.duplicate)
        #expect(completed.changes == ["Employee": EntityChanges(inserted: 2, updated: 1, unchanged: 7, rejected: 3)])
        #expect(completed.rejected.map(\.description) == ["invalidValue at /json/3/hired_at: m"])
        #expect(completed.rejected.first?.attribute == "hiredAt")
        #expect(completed.warnings.first?.key == "bunk")
        #expect(completed.warnings.first?.count == 10)
        #expect(completed.timing?.merged == 95)
        #expect(completed.keys == utf8(#"{"Employee":{"inserted":[1,2]}}"#))
    }

    @Test func `with reply none a completed is id and sequence alone`() throws {
        let content = ServerMessageWriter.completed(
            id: "a", sequence: 1, duplicate: true, members: [UInt8](), tag: utf8("9"))
        #expect(text(content) == #"{"type":"completed","id":"a","sequence":1,"tag":9}"#)
        guard case .completed(let completed) = try server(content).message else { throw TestFault("no completed") }
        #expect(completed == CompletedMessage(id: "a", sequence: 1))
    }

    @Test func `the other answers are read as they were meant`() throws {
        guard
            case .accepted(id: "a", sequence: 7) = try server(
                ServerMessageWriter.accepted(id: "a", sequence: 7, tag: nil)
            ).message
        else { throw TestFault("no accepted") }
        let failed = ServerMessageWriter.failed(
            id: nil, sequence: nil, error: utf8(#"{"code":"busy","message":"later","retryAfterMilliseconds":50}"#),
            tag: nil)
        #expect(text(failed).hasPrefix(#"{"type":"failed","error":{"#))
        guard case .failed(let failure) = try server(failed).message else { throw TestFault("no failed") }
        #expect(failure.id == nil && failure.sequence == nil && failure.error.retryAfterMilliseconds == 50)
        let welcome = ServerMessageWriter.welcome(
            server: "broker", keepsJournal: true, durability: "disk", replica: "r1",
            limits: utf8(#""connections":4"#), role: "read", entities: ["A", "B"],
            tag: nil)
        guard case .welcome(let greeting) = try server(welcome).message else { throw TestFault("no welcome") }
        #expect(greeting.version == 1 && greeting.server == "broker" && greeting.entities == ["A", "B"])
        #expect(greeting.hasJournal == true && greeting.durability == "disk" && greeting.replica == "r1")
        #expect(greeting.role == "read" && greeting.features == ["dryRun", "maximumDeletions", "bookmark"])
        #expect(greeting.limits == utf8(#"{"connections":4}"#))
        #expect(text(ServerMessageWriter.stats(members: utf8(#""jobs":1"#), tag: nil)) == #"{"type":"stats","jobs":1}"#)
        guard case .model(let json) = try server(ServerMessageWriter.model(utf8(#"{"entities":{}}"#), tag: nil)).message
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
        #expect(read.id == "a" && read.error.code == "malformedJSON" && read.error.line == 4)
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
}
