import BrokerCoordinator
import BrokerModel
import BrokerWire
import TestSupport
import Testing

@testable import BrokerServer

/// `reply: objects`: what a job's own records are after it.
@Suite(.timeLimit(.minutes(5)), .session) struct ReplyObjectsTests {
    private let session = OperationSession.current

    // MARK: - The order of objects

    @Test func `objects are in payload order, as fetch gives them`() throws {
        try session.process("Employee", #"{"id": 2, "name": "two", "age": 2, "boss": {"id": 1}}"#)
        let objects = try session.objects(
            #"{"entity": "Employee", "json": [{"id": 3, "name": "c"}, {"id": 2, "department": {"id": 7}}, "#
                + #"{"id": 1, "age": 5}, {"id": 3, "name": "later"}]}"#)
        func fetched(_ key: Int) throws -> String { try session.fetched("Employee", "\(key)") }
        let expected = try [3, 2, 1, 3].map(fetched).joined(separator: ",")
        #expect(objects == "[[\(expected)]]")
        #expect(try fetched(2) == #"{"id":2,"name":"two","age":2,"department":7,"boss":1}"#)
        #expect(try fetched(3).contains("later"), "the same record twice is the same object twice")
    }

    @Test func `each operation has its own array`() throws {
        #expect(
            try session.objects(
                #"{"entity": "Tag", "json": [{"word": "b"}, {"word": "a"}]}, {"entity": "Safe", "json": []}, "#
                    + #"{"entity": "Safe", "json": {"id": 4}}, {"entity": "Tag", "json": {"word": "c"}}"#)
                == #"[[{"word":"b"},{"word":"a"}],[],[{"id":4,"owner":null}],[{"word":"c"}]]"#)
        let collections = try session.client.ask(
            #"{"reply": "objects", "collections": {"Safe": [{"id": 1}], "Tag": {"word": "t"}}}"#)
        #expect(collections["objects"] == #"[[{"id":1,"owner":null}],[{"word":"t"}]]"#)
        let alone = try session.client.ask(#"{"reply": "objects", "entity": "Tag", "json": {"word": "t"}}"#)
        #expect(alone["objects"] == #"[[{"word":"t"}]]"#)
        #expect(alone["changes.Tag.unchanged"] == "1", "the summary is there, too")
        #expect(alone["keys"] == nil)
    }

    @Test func `a delete has none`() throws {
        try session.process("Tag", #"[{"word": "a"}, {"word": "b"}, {"word": "c"}]"#)
        #expect(
            try session.objects(
                #"{"op": "delete", "entity": "Tag", "objects": ["a", "x"]}, "#
                    + #"{"op": "delete", "entity": "Tag", "where": "word == 'b'"}, "#
                    + #"{"op": "sync", "entity": "Tag", "json": [{"word": "d"}, {"word": "c"}]}"#)
                == #"[[],[],[{"word":"d"},{"word":"c"}]]"#)
    }

    @Test func `relate has what its json names, and not what is nested in that`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
        func related(_ relationship: String, _ json: String) throws -> String {
            try session.objects(
                #"{"op": "relate", "entity": "Employee", "object": 1, "relationship": "\#(relationship)", "#
                    + #""json": \#(json)}"#)
        }
        let department = try related("department", #"{"id": 7, "rooms": [{"floor": 1, "number": "a"}]}"#)
        let fetched = try session.fetched("Department", "7")
        #expect(department == "[[\(fetched)]]")
        #expect(try related("department", "7") == department)
        #expect(try related("department", "null") == "[[]]")
        #expect(try related("tags", #"["x", {"word": "y"}, "x"]"#) == #"[[{"word":"x"},{"word":"y"},{"word":"x"}]]"#)
        #expect(try related("tags", #""z""#) == #"[[{"word":"z"}]]"#)
        #expect(try related("tags", "null") == "[[]]")
        #expect(try related("tags", "[]") == "[[]]")
    }

    @Test func `objects without identity, or with an optional one, have the positions of their records`() throws {
        try session.process("Card", #"[{"code": "x"}, {"text": "old"}]"#)
        #expect(
            try session.objects(
                #"{"entity": "Note", "json": [{"text": "b"}, {"text": "a"}, {"text": "b"}]}, "#
                    + #"{"entity": "Card", "json": [{"text": "new"}, {"code": "x", "text": "t"}, {"code": "y"}]}"#)
                == #"[[{"text":"b"},{"text":"a"},{"text":"b"}],"#
                + #"[{"code":null,"text":"new"},{"code":"x","text":"t"},{"code":"y","text":null}]]"#)
    }

    @Test func `records inside a root, of many entities, in a job that several workers stage`() throws {
        // Larger than what one worker stages by itself, and with objects that several collections name.
        let words = (0..<9_000).map {
            #"{"tag": {"word": "word-\#($0 % 5_000)-\#(String(repeating: "x", count: 20))"}}"#
        }
        let employees = (0..<3_000).map {
            #"{"id": \#($0), "tags": ["word-\#($0)-\#(String(repeating: "x", count: 20))"]}"#
        }
        let all =
            #"{"entity": "Tag", "json": [\#(words.joined(separator: ","))]}, "#
            + #"{"entity": "Employee", "json": [\#(employees.reversed().joined(separator: ","))]}, "#
            + #"{"entity": "Tag", "json": [\#(words.reversed().joined(separator: ","))]}"#
        let answer = try session.client.ask(#"{"reply": "objects", "operations": [\#(all)]}"#)
        for number in [0, 1, 4_999, 5_000, 8_999] {
            let word = "word-\(number % 5_000)-\(String(repeating: "x", count: 20))"
            #expect(answer["objects.0.\(number).word"] == word)
            #expect(answer["objects.2.\(8_999 - number).word"] == word)
        }
        #expect(answer["objects.1.0.id"] == "2999")
        #expect(answer["objects.1.2999.id"] == "0")
        #expect(answer["objects.0.9000"] == nil)
    }

    // MARK: - null

    @Test func `null replaces rejected records`() throws {
        try session.process("Employee", #"{"id": 1}"#)
        let objects = try session.objects(
            #"{"entity": "Tag", "json": [{"word": "a"}, {"word": []}, 5, {"word": "b"}]}, "#
                + #"{"entity": "Employee", "object": 8, "json": {"age": 1}}, "#
                + #"{"entity": "Employee", "object": "x", "json": {"age": 1}}, "#
                + #"{"entity": "Employee", "object": 1, "json": []}, "#
                + #"{"op": "relate", "entity": "Employee", "object": 8, "relationship": "tags", "json": ["p", "q"]}, "#
                + #"{"op": "relate", "entity": "Employee", "object": 1, "relationship": "tags", "json": [[], "q", null]}"#,
            #", "onInvalid": "skip""#)
        #expect(
            objects
                == #"[[{"word":"a"},null,null,{"word":"b"}],[null],[null],[null],[null,null],[null,{"word":"q"},null]]"#
        )
    }

    private static let unique = """
        {"entities": {"Person": {
          "identity": "id", "unique": [["email"]],
          "attributes": {"id": "integer64", "email": "string", "name": {"type": "string", "optional": false}}}}}
        """

    @Test(.session(unique)) func `a record that the store refuses is null, wherever the fault is found`() throws {
        let client = session.client
        let answer = try client.ask(
            #"{"reply": "objects", "onInvalid": "skip", "entity": "Person", "json": [{"id": 1}, "#
                + #"{"id": 2, "name": "b", "email": "e"}, {"id": 3, "name": "c", "email": "e"}, {"id": 4, "name": "d"}]}"#
        )
        #expect(answer["changes.Person.rejected"] == "2")
        #expect(answer["objects"] == #"[[null,{"id":2,"email":"e","name":"b"},null,{"id":4,"email":null,"name":"d"}]]"#)
    }

    @Test func `null replaces records that a sync ignores`() throws {
        try session.process("Tag", #"{"word": "old"}"#)
        func synced(_ actions: String) throws -> String {
            try session.objects(
                #"{"op": "sync", "entity": "Tag", "actions": [\#(actions)], "json": [{"word": "new"}, {"word": "old"}]}"#
            )
        }
        #expect(try synced(#""update""#) == #"[[null,{"word":"old"}]]"#)
        #expect(try synced(#""insert""#) == #"[[{"word":"new"},null]]"#)
        #expect(try synced("") == "[[null,null]]")
    }

    private static let tombstone = """
        {"entities": {"Item": {
          "identity": "id", "tombstone": "gone == TRUE", "attributes": {"id": "integer64", "gone": "boolean"}}}}
        """

    @Test(.session(tombstone)) func `a tombstone is null, and so are the objects that it deletes`() throws {
        let client = session.client
        #expect(try client.ask(#"{"entity": "Item", "json": {"id": 1}}"#).type == "completed")
        let answer = try client.ask(
            #"{"reply": "objects", "entity": "Item", "json": [{"id": 1, "gone": true}, {"id": 2}, {"id": 3}, "#
                + #"{"id": 2, "gone": true}, {"id": 1}, {"id": 9, "gone": 1}]}"#)
        #expect(answer["objects"] == #"[[null,null,{"id":3,"gone":null},null,{"id":1,"gone":null},null]]"#)
    }

    private static let modified = """
        {"entities": {"Item": {
          "identity": "id", "modified": "at", "attributes": {"id": "integer64", "at": "integer64", "name": "string"}}}}
        """

    @Test(.session(modified)) func `a record that is not newer than its object still returns the object`() throws {
        let client = session.client
        #expect(try client.ask(#"{"entity": "Item", "json": {"id": 1, "at": 5, "name": "a"}}"#).type == "completed")
        let answer = try client.ask(
            #"{"reply": "objects", "entity": "Item", "json": [{"id": 1, "at": 4, "name": "b"}, {"id": 2, "at": 1}]}"#
        )
        #expect(answer["changes.Item.unchanged"] == "1")
        #expect(answer["objects"] == #"[[{"id":1,"at":5,"name":"a"},{"id":2,"at":1,"name":null}]]"#)
    }

    // MARK: - What later operations do

    // MARK: - Which answers have them

    @Test func `a duplicate and an await have none, and a failed job has none`() async throws {
        let job = #"{"id": "j", "reply": "objects", "entity": "Tag", "json": [{"word": "a"}]}"#
        #expect(try session.client.ask(job)["objects"] == #"[[{"word":"a"}]]"#)
        let duplicate = try session.client.ask(job)
        #expect(duplicate["duplicate"] == "true")
        #expect(duplicate["objects"] == nil)
        #expect(duplicate["warnings"] == "[]")
        let awaited = try session.client.ask(#"{"type": "await", "id": "j"}"#)
        #expect(awaited["changes.Tag.inserted"] == "1")
        #expect(awaited["objects"] == nil)
        let failed = try session.client.ask(
            #"{"reply": "objects", "entity": "Tag", "json": [{"word": "b"}, {"word": []}]}"#)
        #expect(failed.type == "failed")
        #expect(failed["objects"] == nil)
        let summary = try session.client.ask(#"{"entity": "Tag", "json": [{"word": "a"}]}"#)
        #expect(summary["objects"] == nil)
    }

    @Test func `objects are those of right after their job, whatever the next ones do`() throws {
        let count = 200
        for number in 0..<count {
            try session.client.send(
                #"{"reply": "objects", "entity": "Employee", "json": {"id": 1, "age": \#(number)}}"#)
        }
        for number in 0..<count {
            let answer = try session.client.next()
            #expect(answer["objects.0.0.age"] == "\(number)")
        }
        let stats = try session.client.ask(#"{"type": "stats"}"#)
        #expect(try #require(stats["commits"].flatMap { Int($0) }) < count, "several jobs share a commit")
    }
}

extension OperationSession {
    /// The `objects` of the answer; or its code and path.
    func objects(_ operations: String, _ more: String = "") throws -> String {
        let answer = try client.ask(#"{"operations": [\#(operations)], "reply": "objects"\#(more)}"#)
        return answer["objects"] ?? "\(answer.code) \(answer["error.path"] ?? "")"
    }

    /// One object as a fetch gives it.
    func fetched(_ entity: String, _ key: String) throws -> String {
        let answer = try client.ask(
            #"{"type": "fetch", "entity": "\#(entity)", "object": \#(key), "result": "object"}"#)
        return answer["objects"] ?? answer.code
    }
}

/// The objects of random jobs beside a few objects in memory, to which the same is done.
@Suite(.timeLimit(.minutes(5))) struct RandomObjectsTests {
    @Test func `each record returns its object in the final state, whatever was renamed, deleted and inserted again`()
        async throws
    {
        var generator = SeededGenerator()
        try await RunningServer.run(model: RandomObjects.model) { running in
            let client = try running.connect()
            var objects = RandomObjects()
            var renamed = 0
            for _ in 0..<300 {
                let job = objects.apply(operations: Int.random(in: 1...12, using: &generator), &generator)
                renamed += objects.renamings
                let answer = try client.ask(
                    #"{"reply": "objects", "onInvalid": "skip", "operations": [\#(job)]}"#)
                guard answer["objects"] == objects.expected else {
                    Issue.record("\(job)\n\(answer["objects"] ?? answer.text)\nis not\n\(objects.expected)")
                    return
                }
            }
            #expect(renamed > 100, "without renamings little is looked at")
        }
    }
}

/// The effects of a job's operations on objects of one entity, and the objects that its records return.
private struct RandomObjects {
    static let model =
        #"{"entities": {"Item": {"identity": "id", "attributes": {"id": "integer64", "n": "integer64"}}}}"#

    private struct Item {
        var id: Int
        var n: Int?
        var isThere = true
    }

    private var items: [Item] = []
    /// The newest object of an identity, there or deleted.
    private var named: [Int: Int] = [:]
    /// By operation of the newest job.
    private var payload: [[Int?]] = []
    /// That took effect in the newest job.
    private(set) var renamings = 0

    /// The newest job's `objects`.
    var expected: String {
        let operations = payload.map { records in
            records.map { item in
                guard let item = item.map({ items[$0] }), item.isThere else { return "null" }
                return #"{"id":\#(item.id),"n":\#(item.n.map(String.init) ?? "null")}"#
            }.joined(separator: ",")
        }
        return "[\(operations.map { "[\($0)]" }.joined(separator: ","))]"
    }

    /// Does random operations, and gives their JSON.
    mutating func apply(operations: Int, _ generator: inout SeededGenerator) -> String {
        payload = []
        renamings = 0
        // An object that is deleted and inserted again is the same object within one job.
        for (id, item) in named where !items[item].isThere { named[id] = nil }
        return (0..<operations).map { _ in operation(&generator) }.joined(separator: ", ")
    }

    private mutating func operation(_ generator: inout SeededGenerator) -> String {
        func id() -> Int { Int.random(in: 1...6, using: &generator) }
        switch Int.random(in: 0..<10, using: &generator) {
        case 0..<4:
            let records = (0..<Int.random(in: 0...4, using: &generator)).map { _ in
                Int.random(in: 0..<8, using: &generator) == 0 ? nil : (id: id(), n: id())
            }
            payload.append(records.map { record in record.map { process($0.id, $0.n) } })
            let json = records.map { $0.map { #"{"id": \#($0.id), "n": \#($0.n)}"# } ?? #"{"id": "?"}"# }
            return #"{"entity": "Item", "json": [\#(json.joined(separator: ", "))]}"#
        case 4..<8:
            let (old, new) = (id(), id())
            payload.append([rename(old, new)])
            return #"{"entity": "Item", "object": \#(old), "json": {"id": \#(new)}}"#
        case 8:
            let gone = [id(), id()]
            for id in gone { delete(id) }
            payload.append([])
            return #"{"op": "delete", "entity": "Item", "objects": \#(gone)}"#
        default:
            let synced = [id(), id(), id()]
            payload.append(synced.map { process($0, nil) })
            for id in named.keys where !synced.contains(id) { delete(id) }
            let json = synced.map { #"{"id": \#($0)}"# }
            return #"{"op": "sync", "entity": "Item", "json": [\#(json.joined(separator: ", "))]}"#
        }
    }

    private mutating func process(_ id: Int, _ n: Int?) -> Int {
        let item = named[id] ?? items.count
        if item == items.count { items.append(Item(id: id)) }
        if !items[item].isThere { items[item] = Item(id: id) }
        if let n { items[item].n = n }
        named[id] = item
        return item
    }

    private mutating func rename(_ old: Int, _ new: Int) -> Int? {
        guard let item = named[old], items[item].isThere else { return nil }
        guard old != new else { return item }
        if let other = named[new], items[other].isThere { return nil }
        renamings += 1
        items[item].id = new
        named[new] = item
        named[old] = nil
        return item
    }

    private mutating func delete(_ id: Int) {
        if let item = named[id] { items[item].isThere = false }
    }
}

/// `reply: objects` for many objects: limited, and not at the expense of other clients.
@Suite(.timeLimit(.minutes(5)), .server) struct LargeObjectsTests {
    private let running = RunningServer.current

    /// An object of some size, under the key 1.
    private func store(objectOf bytes: Int, _ client: RawClient) throws {
        let name = String(repeating: "n", count: bytes)
        #expect(try client.ask(#"{"entity": "Department", "json": {"id": 1, "name": "\#(name)"}}"#).type == "completed")
    }

    private func ask(times count: Int) -> String {
        let records = Array(repeating: #"{"id": 1}"#, count: count).joined(separator: ",")
        return #"{"reply": "objects", "entity": "Department", "json": [\#(records)]}"#
    }

    @Test func `a small job that names many objects gets no larger answer than a fetch`() throws {
        let client = try running.connect()
        try store(objectOf: 1 << 20, client)
        let some = try client.ask(ask(times: 30))
        #expect(some["objects.0.29.id"] == "1")
        let much = try client.ask(ask(times: 5_000))
        #expect(much["changes.Department.unchanged"] == "1")
        #expect(much["objects"] == nil)
        #expect(much["warnings.0.key"] == "objects")
        #expect(much["warnings.0.count"] == "5000")
    }

    @Test func `jobs with large answers that are ready together get complete answers in order`() throws {
        let client = try running.connect()
        try store(objectOf: 1 << 19, client)
        let count = 30
        for number in 0..<count {
            try client.send(
                #"{"tag": \#(number), "reply": "objects", "entity": "Department", "json": [{"id": 1}, {"id": \#(number + 2)}]}"#
            )
        }
        for number in 0..<count {
            let answer = try client.next()
            #expect(answer["tag"] == "\(number)")
            #expect(answer["objects.0.0.name"]?.utf8.count == 1 << 19)
            #expect(answer["objects.0.1.id"] == "\(number + 2)")
        }
    }

    @Test func `a client that does not read gets the remaining answers without objects, and delays no other`()
        async throws
    {
        let (slow, other) = (try running.connect(), try running.connect())
        let name = SeededGenerator(seed: 8).text(count: 4 << 20)
        let stored = try other.ask(#"{"entity": "Department", "json": {"id": 1, "name": "\#(name)"}}"#)
        #expect(stored.type == "completed")
        // No more than may be in flight at a time: the server does not read from a client with many unread answers.
        let count = 8
        let locker = try Locker(running.storePath)
        for number in 0..<count {
            try slow.send(#"{"id": "slow-\#(number)", "reply": "objects", "entity": "Department", "json": {"id": 1}}"#)
        }
        while try other.ask(#"{"type": "stats"}"#)["jobs.inFlight"] != "\(count)" {}
        try locker.unlock()
        let last = try other.ask(#"{"type": "await", "id": "slow-\#(count - 1)"}"#)
        #expect(last.type == "completed")
        var whole = 0
        for number in 0..<count {
            let answer = try slow.next()
            #expect(answer["id"] == "slow-\(number)")
            #expect(answer["changes.Department.unchanged"] == "1")
            if answer["objects.0.0.id"] == "1" {
                whole += 1
            } else {
                #expect(answer["warnings.0.key"] == "objects")
                #expect(answer["warnings.0.count"] == "1")
            }
        }
        #expect((1..<count).contains(whole))
        #expect(
            try slow.ask(ask(times: 1))["objects.0.0.id"] == "1",
            "a client that reads its answers gets all objects again")
    }

    @Test func `a job of 100000 records gets its complete answer, and others are served meanwhile`() async throws {
        let (client, other) = (try running.connect(), try running.connect())
        #expect(try other.ask(#"{"entity": "Department", "json": {"id": 0, "name": "d"}}"#).type == "completed")
        let count = 100_000
        let records = (1...count).reversed().map { #"{"id": \#($0)}"# }.joined(separator: ",")
        async let large = offThePool {
            try client.ask(#"{"reply": "objects", "entity": "Department", "json": [\#(records)]}"#)
        }
        for _ in 0..<50 {
            #expect(try other.ask(#"{"type": "ping"}"#).type == "pong")
            #expect(try other.ask(#"{"type": "fetch", "entity": "Department", "object": 0}"#).type == "objects")
            #expect(try other.ask(#"{"entity": "Department", "json": {"id": 0}}"#).type == "completed")
        }
        let answer = try await large
        #expect(answer["changes.Department.inserted"] == "\(count)")
        #expect(answer["objects.0.0"] == #"{"id":\#(count),"name":null}"#)
        #expect(answer["objects.0.\(count - 1)"] == #"{"id":1,"name":null}"#)
        #expect(answer["objects.0.\(count)"] == nil)
    }
}

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
