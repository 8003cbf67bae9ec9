import Broker
import BrokerJSON
import Foundation
import TestSupport
import Testing

@testable import BrokerWire

@Suite(.timeLimit(.minutes(5))) struct ClientMessageTests {
    private func refused(_ json: String, at location: SourceLocation = #_sourceLocation) -> WireError? {
        refusal(
            { () throws(WireError) in _ = try ClientEnvelope.decode(parsing: JSONText(copying: utf8(json))) },
            at: location)
    }

    private func expect(
        _ json: String, _ code: BrokerError.Code, at path: String?, _ fact: String,
        source: SourceLocation = #_sourceLocation
    ) {
        let error = refused(json, at: source)
        #expect(error?.code == code, sourceLocation: source)
        #expect(error?.path == path, sourceLocation: source)
        #expect(error?.message.contains(fact) == true, "\(error?.message ?? "-")", sourceLocation: source)
        #expect(error?.endsConnection == false, sourceLocation: source)
    }

    @Test func `messages without fields are read`() throws {
        for (json, wanted) in [
            (#"{"type":"ping"}"#, "ping"), (#"{"type":"stats"}"#, "stats"), (#"{"type":"model","x":[]}"#, "model"),
        ] {
            #expect("\(try message(json).message)" == wanted)
        }
    }

    @Test func `a hello may say version and client`() throws {
        let said = try message(#"{"type":"hello","version":1,"client":"tests"}"#)
        guard case .hello(client: "tests") = said.message else { throw TestFault("\(said.message)") }
        guard case .hello(client: nil) = try message(#"{"type":"hello"}"#).message else {
            throw TestFault("a bare hello was read otherwise")
        }
    }

    @Test func `an await names its job`() throws {
        guard case .await(id: "a", after: nil) = try message(#"{"type":"await","id":"a"}"#).message else {
            throw TestFault("no await")
        }
        expect(#"{"type":"await"}"#, .unsupportedMessage, at: "/id", "needs the `id`")
        expect(#"{"type":"await","id":7}"#, .unsupportedMessage, at: "/id", "must be a string")
    }

    @Test func `a migrate refuses what it does not understand, since it would change a store`() throws {
        for (fields, wanted) in [
            ("", MigrateMessage(isDryRun: false, removedParts: .refuse)),
            (#","dryRun":true,"removedParts":"drop""#, MigrateMessage(isDryRun: true, removedParts: .drop)),
            (#","dryRun":false,"removedParts":"keep""#, MigrateMessage(isDryRun: false, removedParts: .keep)),
            (
                #","keep":["A"],"drop":["B.c","D"]"#,
                MigrateMessage(isDryRun: false, removedParts: .refuse, kept: ["A"], dropped: ["B.c", "D"])
            ),
        ] {
            guard case .migrate(let read) = try message(#"{"type":"admin","action":"migrate"\#(fields)}"#).message
            else {
                throw TestFault("no migrate")
            }
            #expect(read == wanted)
            let written = String(decoding: MessageWriter.message("admin") { wanted.write(to: &$0) }, as: UTF8.self)
            guard case .migrate(wanted) = try message(written).message else { throw TestFault(written) }
        }
        for (fields, path, fact) in [
            (#""dryRun":"true""#, "/dryRun", "must be true or false"),
            (#""dryRun":null"#, "/dryRun", "must be true or false"),
            (#""removedParts":"lose""#, "/removedParts", "`refuse`, `keep` and `drop`"),
            (#""removedParts":true"#, "/removedParts", "must be a string"),
            (#""removedParts":"drop","keep":["A"]"#, "/removedParts", "send one of both"),
            (#""keep":["A","B"],"drop":["B"]"#, "/drop", "both name B"),
            (#""keep":"A""#, "/keep", "an array of names of parts"), (#""drop":[1]"#, "/drop/0", "names of parts"),
        ] {
            expect(#"{"type":"admin","action":"migrate",\#(fields)}"#, .unsupportedMessage, at: path, fact)
        }
        expect(#"{"type":"admin","action":"move"}"#, .unsupportedMessage, at: "/action", "`backup` and `migrate`")
    }

    @Test func `a tag comes back as JSON, whatever it is`() throws {
        for tag in ["7", "null", #""a\"b""#, #"{"a":[1,2]}"#, "[1.50]", "true"] {
            #expect(try message(#"{"type":"ping","tag":\#(tag)}"#).tag == utf8(tag))
        }
        #expect(try message(#"{"type":"ping"}"#).tag == nil)
    }

    @Test func `the last of duplicate keys wins`() throws {
        guard
            case .await(id: "b", after: nil) = try message(#"{"type":"ping","type":"await","id":"a","id":"b"}"#).message
        else {
            throw TestFault("an earlier key won")
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct EnvelopeScanTests {
    private func scan(_ text: String, inPiecesOf count: Int = 7) -> EnvelopeScan {
        var scan = EnvelopeScan()
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: count) {
            Array(bytes[start..<min(start + count, bytes.count)]).withUnsafeBytes { scan.scan($0) }
        }
        return scan
    }

    private func described(_ scan: EnvelopeScan) -> String {
        let type = scan.hasType ? scan.type ?? "?" : "-"
        return "\(type) \(scan.id ?? "-") \(scan.tag.map { String(decoding: $0, as: UTF8.self) } ?? "-")"
    }

    @Test(arguments: [
        (#"{"id":"a","tag":[1, {"id":"x"}],"type":"job"}"#, #"job a [1, {"id":"x"}]"#),
        (#"  { "\u0069\u0064" : "\u0061\"b" , "t\u0061g" : 1.50 }  "#, #"- a"b 1.50"#),
        (#"{"json":[{"id":"x","tag":1}],"s":"\"id\":\"y\"\\","id":"a"}"#, "- a -"),
        (#"{"id":"a","id":"b","tag":1,"tag":null,"type":1}"#, "? b null"),
        (#"{"id":"a","id":7}"#, "- - -"),
        (#"{"id":"","tag":""}"#, #"- - """#),
        (#"{"id":"a","x":}"#, "- a -"), (#"{"id":"a""#, "- a -"), (#"{"id":"a"#, "- - -"), (#"{"id":7"#, "- - -"),
        (#"[{"id":"a"}]"#, "- - -"), (#"{"a":1]"id":"b"}"#, "- - -"), (#"{"a":{},"id":"b"}"#, "- b -"), ("{}", "- - -"),
        (#"{"a" "id":"b"}"#, "- - -"), (#"{"id":"a"}{"id":"b"}"#, "- a -"), ("", "- - -"),
        (#"{"tag":  {"a" : 1}}"#, #"- - {"a" : 1}"#),
    ])
    func `type, id and tag are those of the message, the last of each`(_ text: String, _ expected: String) {
        for count in [1, 2, 3, 1_000] { #expect(described(scan(text, inPiecesOf: count)) == expected) }
    }

    @Test func `long values are not stored`() {
        let long = String(repeating: "x", count: 100_000)
        #expect(described(scan(#"{"id":"\#(long)","tag":"\#(long)","\#(long)":1,"type":"\#(long)"}"#)) == "? - -")
        #expect(described(scan(#"{"id":"\#(long)","id":"a","tag":"\#(long)","tag":5}"#)) == "- a 5")
        let most = String(repeating: "x", count: 1_022)
        #expect(scan(#"{"tag":"\#(most)"}"#).tag?.count == 1_024)
        #expect(scan(#"{"tag":"\#(most)x"}"#).tag == nil)
        #expect(scan(#"{"id":"\#(String(repeating: "\\u0061", count: 128))"}"#).id?.utf8.count == 128)
        #expect(scan(#"{"id":"\#(String(repeating: "x", count: 129))"}"#).id == nil)
    }

    @Test func `it finds what the message itself says, in random messages`() throws {
        var generator = SeededGenerator(seed: 271)
        let values = [
            #""a""#, #""b\"}""#, "7", "null", "[]", #"{"id":"n"}"#, #"[[1],{"tag":2}]"#, #""""#, "-1.5e3", "true",
        ]
        let keys = ["id", "tag", "type", "x", "json", #"i\u0064"#, "ids"]
        for _ in 0..<2_000 {
            let count = Int.random(in: 0..<6, using: &generator)
            let members = (0..<count).map { _ in
                let space = [" ", "\n", "", "\t "].randomElement(using: &generator)!
                return "\(space)\"\(keys.randomElement(using: &generator)!)\"\(space):\(space)"
                    + values.randomElement(using: &generator)! + space
            }
            let text = "{\(members.joined(separator: ","))}"
            let document = try JSONDocument(parsing: JSONText(copying: Array(text.utf8)))
            let found = scan(text, inPiecesOf: Int.random(in: 1...9, using: &generator))
            withExtendedLifetime(document) {
                let root = document.root
                #expect(found.id == root["id"]?.returnableID, "\(text)")
                #expect(found.tag == root["tag"].flatMap { ClientEnvelope.returnableTag($0) }, "\(text)")
                #expect(found.hasType == (root["type"] != nil), "\(text)")
                #expect(found.type == root["type"]?.string, "\(text)")
            }
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct FetchResultTests {
    @Test func `the result of a fetch is read as it was written`() throws {
        for (more, last) in [(true, nil), (false, nil), (nil, nil), (true, #"{"a":1}"#), (false, "7")] {
            let hasMore = more ?? false
            let json =
                MessageWriter.objectsBeginning + utf8(#"[{"id":1}]"#)
                + MessageWriter.objectsEnding(more: more, last: last.map(utf8), tag: utf8("7"))
            let envelope = try ServerEnvelope.decode(parsing: JSONText(copying: json))
            guard case .objects(let objects, hasMore, _) = envelope.message, objects == utf8(#"[{"id":1}]"#) else {
                throw TestFault("\(envelope.message)")
            }
            #expect(envelope.tag == utf8("7"))
            withExtendedLifetime(envelope.document) {
                #expect(envelope.document.root["more"]?.bool == more)
                #expect(envelope.document.root["last"]?.jsonText == last.map(utf8))
            }
        }
    }
}

/// The schema of the server's messages, as clients check answers with it.
@Suite(.timeLimit(.minutes(5))) struct SchemaCodesTests {
    /// A member of the schema by its path.
    private func member(_ path: [String]) throws -> [String: Any] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let data = try Data(contentsOf: folder.appending(path: "protocol/server-messages.schema.json"))
        var member = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        for name in path { member = try #require(member[name] as? [String: Any], "\(name)") }
        return member
    }

    @Test(arguments: [["$defs", "code"], ["$defs", "warning", "properties", "code"]])
    func `a code of a later server is valid, so a schema lists the known ones as examples only`(_ path: [String]) throws
    {
        let code = try member(path)
        #expect(code["type"] as? String == "string")
        #expect((code["examples"] as? [String])?.isEmpty == false)
        #expect(Set(code.keys) == ["type", "examples", "description"])
    }
}

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
        #expect(greeting.hasJournal == true && greeting.durability == .disk && greeting.replica == "r1")
        #expect(greeting.role == .read && greeting.features == ["dryRun", "maximumDeletions", "bookmark"])
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
        error.frame = 7
        #expect(
            text(error.encoded())
                == #"{"type":"error","error":{"code":"malformedJSON","message":"m","path":"/a","line":4,"column":1,"#
                + #""offset":3},"id":"a","frame":7,"tag":null}"#)
        guard case .error(let read, frame: 7) = try server(error.encoded()).message else { throw TestFault("no error") }
        #expect(read.jobID == "a" && read.code == .malformedJSON && read.fault?.line == 4)
    }
}

/// Most completions are read in one pass without a document; what the document says is what must come of it.
@Suite(.timeLimit(.minutes(5))) struct PlainCompletionTests {
    private func plain(_ message: [UInt8]) -> Completion? { message.withUnsafeBytes { Completion(plainly: $0) } }

    /// As the message is read that is not plain; nil when it is no `completed`.
    private func full(_ message: [UInt8]) -> Completion? {
        guard let envelope = try? ServerEnvelope.decode(parsing: JSONText(copying: message)),
            case .completed(let completed) = envelope.message, envelope.tag == nil
        else { return nil }
        return completed
    }

    private func number(_ generator: inout SeededGenerator) -> Int {
        Int.random(
            in: 0...([0, 9, 100_000, 999_999_999_999_999_999].randomElement(using: &generator) ?? 0), using: &generator)
    }

    private func members(_ generator: inout SeededGenerator) -> [UInt8] {
        let names = ["Employee", "Department", "a", "", "An entity of a long name, which no small string holds"]
        let changes = names.shuffled(using: &generator).prefix(Int.random(in: 0...3, using: &generator)).map { name in
            let counts = ["inserted", "updated", "unchanged", "deleted", "rejected"].map {
                "\"\($0)\":\(number(&generator))"
            }
            return "\"\(name)\":{\(counts.joined(separator: ","))}"
        }
        let journal = Bool.random(using: &generator) ? ["journalWaited", "journalSynced"] : []
        let times = (["queued", "staged"] + journal + ["waited", "merged", "committed"]).map {
            "\"\($0)\":\(number(&generator))"
        }
        return Array(
            #""changes":{\#(changes.joined(separator: ","))},"rejected":[],"warnings":[],"timing":{\#(times.joined(separator: ","))}"#
                .utf8)
    }

    private func message(_ generator: inout SeededGenerator, tag: [UInt8]? = nil) -> [UInt8] {
        completedMessage(
            id: "0123456789abcdef-\(number(&generator))", sequence: Int64(number(&generator)),
            isDuplicate: Bool.random(using: &generator),
            members: Bool.random(using: &generator) ? members(&generator) : [], tag: tag)
    }

    @Test func `the plain reader returns the same completion of a successful job as its document`() throws {
        var generator = SeededGenerator()
        for _ in 0..<2_000 {
            let message = message(&generator)
            let read = try #require(plain(message), "\(String(decoding: message, as: UTF8.self))")
            #expect(read == full(message))
        }
    }

    @Test func `whatever else is written is left to the document, or read as that is`() {
        var generator = SeededGenerator()
        let parts = [
            "\\", "\"", "é", ",", "}", "{", "0", "-", "1.5", " ", "\"tag\":1,", "\"keys\":{},", "true", "null", "[1]",
            "\n",
            ",\"id\":\"other\"", "\u{0}",
        ]
        var counts = [true: 0, false: 0]
        for _ in 0..<20_000 {
            var message = message(&generator)
            for _ in 0..<Int.random(in: 1...2, using: &generator) where !message.isEmpty {
                let place = Int.random(in: 0..<message.count, using: &generator)
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: message.removeLast(message.count - place)
                case 1: message.remove(at: place)
                case 2: message[place] ^= 1 << UInt8.random(in: 0...7, using: &generator)
                default: message.insert(contentsOf: (parts.randomElement(using: &generator) ?? "").utf8, at: place)
                }
            }
            guard let read = plain(message) else {
                counts[false, default: 0] += 1
                continue
            }
            counts[true, default: 0] += 1
            #expect(read == full(message), "\(String(decoding: message, as: UTF8.self))")
        }
        #expect(counts.values.allSatisfy { $0 > 400 }, "the damage is one-sided: \(counts)")
    }

    @Test func `an answer to a request is not taken for one to a job`() {
        var generator = SeededGenerator()
        for _ in 0..<100 { #expect(plain(message(&generator, tag: [UInt8(ascii: "7")])) == nil) }
    }
}

/// The error that `body` throws; a failure of the test when it throws none.
func refusal(_ body: () throws(WireError) -> Void, at location: SourceLocation = #_sourceLocation) -> WireError? {
    do throws(WireError) {
        try body()
        Issue.record("nothing was refused", sourceLocation: location)
        return nil
    } catch {
        return error
    }
}

/// Decodes an LZ4 frame with a new decoder.
func decode(payload: [UInt8], limits: FrameLimits = FrameLimits()) throws(WireError) -> [UInt8] {
    var decoder = FrameDecoder(limits: limits)
    return try decode(payload: payload, with: &decoder)
}

func decode(payload: [UInt8], with decoder: inout FrameDecoder) throws(WireError) -> [UInt8] {
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, payload.count), alignment: 8)
    defer { bytes.deallocate() }
    bytes.copyBytes(from: payload)
    let text = try decoder.decode(UnsafeRawBufferPointer(rebasing: bytes[..<payload.count]))
    return withExtendedLifetime(text) { Array(text.bytes) }
}

/// Cuts one frame off `frame` and decodes it.
func content(ofFrame frame: [UInt8]) throws -> [UInt8] {
    let scan = try frame.withUnsafeBytes { try FrameScanner.scan($0) }
    guard case .frame(let payload) = scan, payload.upperBound == frame.count else {
        throw TestFault("not exactly one frame: \(scan) of \(frame.count) bytes")
    }
    return try decode(payload: Array(frame[payload]))
}

/// The LZ4 frame that our encoder makes.
func payload(of content: [UInt8]) throws -> [UInt8] {
    var encoder = FrameEncoder()
    return Array(try encoder.encode(content).dropFirst(FrameScanner.prefixCount))
}

func utf8(_ text: String) -> [UInt8] { Array(text.utf8) }

func message(_ json: String) throws -> ClientEnvelope {
    try ClientEnvelope.decode(parsing: JSONText(copying: utf8(json)))
}

struct TestFault: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

extension SeededGenerator {
    /// Runs of repeated and of random bytes, so that blocks of every kind arise.
    mutating func content(count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let run = Int.random(in: 1...2000, using: &self)
            if Bool.random(using: &self) {
                bytes.append(contentsOf: repeatElement(UInt8.random(in: 0...255, using: &self), count: run))
            } else {
                for _ in 0..<run { bytes.append(UInt8.random(in: 0...255, using: &self)) }
            }
        }
        return Array(bytes.prefix(count))
    }
}

/// Runs the `lz4` program on `input` and gives what it prints.
func lz4(_ arguments: [String], on input: [UInt8]) throws -> [UInt8] {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("broker-wire-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let file = folder.appendingPathComponent("input")
    try Data(input).write(to: file)
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["lz4", "-q"] + arguments + ["-c", file.path]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    try FileManager.default.removeItem(at: folder)
    guard process.terminationStatus == 0 else { throw TestFault("lz4 exited with \(process.terminationStatus)") }
    return Array(bytes)
}
