import TestSupport
import Testing

private let model = """
    {"entities": {
      "Account": {
        "identity": "id",
        "attributes": {
          "id": "integer64", "balance": {"type": "integer64", "min": 0}, "small": "integer16", "price": "decimal",
          "cents": {"type": "decimal", "storage": "scaled", "scale": 2}, "rate": "double", "at": "date",
          "log": {"type": "string", "maxLength": 12}, "code": {"type": "string", "unique": true}, "tags": "transformable"},
        "relationships": {
          "owner": {"entity": "Person", "inverse": "accounts"},
          "marks": {"entity": "Mark", "toMany": true, "inverse": "bearers"}}},
      "Person": {
        "identity": "id", "attributes": {"id": "integer64", "name": "string"},
        "relationships": {
          "accounts": {"entity": "Account", "toMany": true, "inverse": "owner", "assignment": "replace"},
          "friends": {"entity": "Person", "toMany": true, "inverse": "friends"},
          "aides": {"entity": "Clerk", "toMany": true}, "notes": {"entity": "Note", "toMany": true, "ordered": true}}},
      "Clerk": {"parent": "Person", "attributes": {"desk": "string"}},
      "Mark": {
        "identity": ["kind", "number"], "attributes": {"kind": "string", "number": "integer16"},
        "relationships": {"bearers": {"entity": "Account", "toMany": true, "inverse": "marks"}}},
      "Note": {"identity": "id", "attributes": {"id": "integer64"}},
      "Event": {"attributes": {"text": "string", "count": "integer64"}},
      "Card": {"identity": "code", "identityOptional": true, "attributes": {"code": "string", "text": "string"}}
    }}
    """

/// Operations that depend on the object that they name, over the socket.
@Suite(.timeLimit(.minutes(5)), .session(model)) struct ExpectationTests {
    private let session = OperationSession.current

    private func account(_ values: String) throws { try session.process("Account", "{\"id\": 7, \(values)}") }

    /// The version of the only object that a fetch returns.
    private func version(_ entity: String, _ key: String) throws -> String {
        let answer = try session.client.ask(
            #"{"type": "fetch", "entity": "\#(entity)", "object": \#(key), "versions": true}"#)
        return try #require(answer["objects.0._version"])
    }

    // MARK: - Expectations

    @Test func `an operation is applied only if its object matches the predicate`() throws {
        try account(#""balance": 15"#)
        let withdraw =
            #"{"entity": "Account", "object": 7, "expect": {"where": "balance >= 10"}, "increment": {"balance": -10}}"#
        #expect(try session.job(withdraw) == "Account ~1")
        #expect(try session.job(withdraw) == "conflict /operations/0/expect")
        #expect(try session.rows("SELECT balance FROM Account") == ["5"])
        let argument =
            #"{"op": "delete", "entity": "Account", "objects": [7], "expect": {"where": "balance == %@", "arguments": [4]}}"#
        #expect(try session.job(argument) == "conflict /operations/0/expect")
        #expect(try session.job(argument.replacing("[4]", with: "[5]")) == "Account -1")
    }

    @Test func `a job whose expectation fails has no effect, and its error has the object as the operation found it`()
        throws
    {
        try account(#""balance": 1, "log": "a""#)
        let answer = try session.client.ask(
            #"{"id": "t", "operations": [{"entity": "Account", "object": 7, "json": {"balance": 2}}, {"entity": "Account", "json": {"id": 7, "balance": 3}, "expect": "absent"}]}"#
        )
        #expect(answer.type == "failed" && answer.code == "conflict" && answer["error.path"] == "/operations/1/expect")
        #expect(answer["error.entity"] == "Account")
        #expect(answer["error.object.balance"] == "2" && answer["error.object.log"] == "a")
        #expect(answer["error.object._version"] != (try version("Account", "7")))
        #expect(try session.rows("SELECT balance FROM Account") == ["1"])
        let again = try session.client.ask(#"{"type": "await", "id": "t"}"#)
        #expect(again["error.object"] == answer["error.object"])
        let none = try session.answer(#"{"op": "delete", "entity": "Account", "objects": [8], "expect": "present"}"#)
        #expect(none.code == "conflict" && none["error.object"] == "null")
    }

    @Test func `a long object is not in the error`() throws {
        let answer = try session.answer(
            #"{"entity": "Account", "json": {"id": 1, "tags": "\#(String(repeating: "x", count: 4_096))"}}, {"entity": "Account", "json": {"id": 1}, "expect": "absent"}"#
        )
        #expect(answer.code == "conflict" && answer["error.object"] == nil)
    }

    @Test(arguments: [
        (#""json": {"id": 7, "balance": 1}"#, "process"), (#""object": 7, "json": {"balance": 1}"#, "process"),
        (#""object": 7, "relationship": "owner", "json": 1"#, "relate"), (#""objects": [7]"#, "delete"),
    ]) func `every operation that names one object can expect it to be there or not`(fields: String, op: String) throws
    {
        func operation(_ expected: String) -> String {
            #"{"op": "\#(op)", "entity": "Account", \#(fields), "expect": "\#(expected)"}"#
        }
        #expect(try session.job(operation("present")) == "conflict /operations/0/expect")
        #expect(try session.job(operation("absent")).hasPrefix("conflict") == false)
        try account(#""balance": 9"#)
        #expect(try session.job(operation("absent")) == "conflict /operations/0/expect")
        #expect(try session.job(operation("present")).contains("Account"))
    }

    @Test func `a version is of the row alone, and equal contents have equal versions`() throws {
        try session.process("Person", #"[{"id": 1}, {"id": 2}]"#)
        try account(
            #""balance": 1, "price": 1.5, "rate": 0.1, "log": "a", "tags": [1], "owner": 1, "at": "2011-12-22""#)
        let first = try version("Account", "7")
        #expect(first.utf8.count == 32)
        func expectingFirst(_ json: String) throws -> String {
            try session.job(
                #"{"entity": "Account", "object": 7, "json": \#(json), "expect": {"version": "\#(first)"}}"#)
        }
        for (change, back) in [
            (#"{"balance": 2}"#, #"{"balance": 1}"#), (#"{"price": 1.50}"#, #"{"price": 1.5}"#),
            (#"{"rate": 0.2}"#, #"{"rate": 0.1}"#), (#"{"log": "b"}"#, #"{"log": "a"}"#),
            (#"{"log": null}"#, #"{"log": "a"}"#),
            (#"{"tags": [2]}"#, #"{"tags": [1]}"#), (#"{"owner": 2}"#, #"{"owner": 1}"#),
            (#"{"owner": null}"#, #"{"owner": 1}"#),
        ] {
            #expect(try expectingFirst(change).contains("Account ~1"), "\(change)")
            #expect(try version("Account", "7") != first, "\(change)")
            #expect(try expectingFirst("{}") == "conflict /operations/0/expect", "\(change)")
            _ = try session.job(#"{"entity": "Account", "object": 7, "json": \#(back)}"#)
            #expect(try version("Account", "7") == first, "\(back)")
        }
        _ = try session.job(#"{"entity": "Account", "object": 7, "json": {"marks": [{"kind": "a", "number": 1}]}}"#)
        #expect(try version("Account", "7") == first, "a link table is not in the row")
        #expect(try version("Person", "1") != version("Person", "2"))
        let person = try version("Person", "2")
        _ = try session.job(#"{"entity": "Account", "json": {"id": 8, "owner": 2}}"#)
        #expect(try version("Person", "2") == person, "another row has the link")
    }

    @Test
    func `an object has one version, whichever entity of its hierarchy a fetch names, and nested ones have theirs`()
        throws
    {
        try session.process("Clerk", #"{"id": 3, "desk": "a"}"#)
        let version = try version("Clerk", "3")
        #expect(try self.version("Person", "3") == version)
        try account(#""owner": 3"#)
        let nested = try session.client.ask(
            #"{"type": "fetch", "entity": "Account", "include": ["owner"], "versions": true}"#)
        #expect(nested["objects.0.owner._version"] == version)
        let change = #"{"entity": "Person", "object": 3, "json": {"name": "b"}, "expect": {"version": "\#(version)"}}"#
        #expect(try session.job(change) == "Clerk ~1")
        #expect(try session.job(change) == "conflict /operations/0/expect")
        let selected = try session.client.ask(
            #"{"type": "fetch", "entity": "Account", "select": ["id"], "versions": true}"#)
        #expect(selected.code == "unsupportedMessage" && selected["error.path"] == "/versions")
    }

    @Test func `an object of another branch is neither present nor absent`() throws {
        try session.process("Person", #"{"id": 3}"#)
        for expected in ["present", "absent"] {
            let answer = try session.job(
                #"{"op": "delete", "entity": "Clerk", "objects": [3], "expect": "\#(expected)"}"#)
            #expect(answer == "conflict /operations/0/expect", "\(expected)")
        }
    }

    @Test func `objects are found by their row keys, and a record without an identity names none`() throws {
        try session.process("Event", #"{"text": "a"}"#)
        try session.process("Card", #"{"code": "x", "text": "a"}"#)
        #expect(
            try session.job(
                #"{"entity": "Event", "object": 1, "json": {"text": "b"}, "expect": {"where": "text == 'a'"}}"#)
                == "Event ~1")
        #expect(
            try session.job(#"{"entity": "Event", "json": {"text": "b"}, "expect": "present"}"#)
                == "conflict /operations/0/expect")
        #expect(try session.job(#"{"entity": "Event", "json": {"text": "c"}, "expect": "absent"}"#) == "Event +1")
        #expect(
            try session.job(#"{"entity": "Card", "json": {"code": "x"}, "expect": "absent"}"#)
                == "conflict /operations/0/expect")
        #expect(
            try session.job(
                #"{"entity": "Card", "json": {"code": "x", "text": "b"}, "expect": {"version": "\#(version("Card", "1"))"}}"#
            )
                == "Card ~1")
        #expect(
            try session.job(#"{"entity": "Mark", "json": {"kind": "a", "number": 1}, "expect": "absent"}"#) == "Mark +1"
        )
        #expect(
            try session.job(
                #"{"op": "delete", "entity": "Mark", "objects": [{"kind": "a", "number": 1}], "expect": "present"}"#)
                == "Mark -1")
    }

    @Test func `a unique value that an earlier operation took is still the object's`() throws {
        try session.process("Account", #"[{"id": 1, "code": "a"}, {"id": 2, "code": "b"}]"#)
        let version = try version("Account", "2")
        let exchange =
            #"{"entity": "Account", "object": 1, "json": {"code": "b"}}, {"entity": "Account", "object": 2, "json": {"code": "a"}, "expect": "#
        for expected in [
            #"{"where": "code == 'b'"}"#, #"{"where": "code == 'a'"}"#, #"{"where": "code == nil"}"#,
            #"{"where": "code != 'b'"}"#,
            #"{"version": "\#(version)"}"#,
        ] {
            #expect(
                try session.job("\(exchange)\(expected)}") == "constraintViolation /operations/0/json",
                "the value must be free where it is read")
        }
    }

    @Test(arguments: [
        (#""json": [{"id": 1}], "expect": "absent""#, "/expect"), (#""json": {"id": 1}, "expect": "gone""#, "/expect"),
        (#""json": {"id": 1}, "expect": {}"#, "/expect"),
        (#""json": {"id": 1}, "expect": {"where": "id == 1", "version": "x"}"#, "/expect"),
        (#""json": {"id": 1}, "expect": {"version": "x"}"#, "/expect/version"),
        (#""json": {"id": 1}, "expect": {"version": 1}"#, "/expect/version"),
        (#""json": {"id": 1}, "expect": {"where": 1}"#, "/expect/where"),
        (#""json": {"id": 1}, "expect": {"where": "id == 1", "arguments": 1}"#, "/expect/arguments"),
        (#""op": "sync", "json": [], "expect": "absent""#, "/expect"),
        (#""op": "delete", "objects": [1, 2], "expect": "absent""#, "/expect"),
        (#""op": "delete", "where": "id == 1", "expect": "absent""#, "/expect"),
        (#""op": "map", "json": {}, "expect": "absent""#, "/expect"),
        (#""json": {"id": 1}, "increment": {"balance": 1}"#, "/increment"), (#""object": 1, "append": []"#, "/append"),
        (#""json": {"id": 1}, "links": "add""#, "/links"),
        (#""op": "relate", "object": 1, "relationship": "marks", "json": [], "links": "set""#, "/links"),
        (#""json": {"id": 1}, "expect": "absent", "onInvalid": "skip""#, "/expect"),
        (#""object": 1, "increment": {"balance": 1}, "onInvalid": "skip""#, "/increment"),
        (#""operations": [], "expect": "absent""#, "/entity"),
    ]) func `a field that does not fit the operation is refused with its place`(fields: String, path: String) throws {
        let answer = try session.client.ask(#"{"entity": "Account", \#(fields)}"#)
        #expect(
            answer.type == "error" && answer.code == "unsupportedMessage" && answer["error.path"] == path, "\(answer)")
    }

    @Test func `what an operation depends on is content of its job`() throws {
        try account(#""balance": 1"#)
        func send(_ fields: String) throws -> String {
            let answer = try session.client.ask(#"{"id": "one", "entity": "Account", "object": 7, \#(fields)}"#)
            return "\(answer.type) \(answer["duplicate"] ?? answer.code)"
        }
        let fields = #""increment": {"balance": 1}, "expect": "present""#
        #expect(try send(fields) == "completed false")
        #expect(try send(fields) == "completed true")
        for other in [
            #""increment": {"balance": 1}"#, #""increment": {"balance": 2}, "expect": "present""#,
            #""append": {"balance": 1}, "expect": "present""#,
            #""increment": {"balance": 1}, "expect": {"where": "TRUEPREDICATE"}"#,
            #""increment": {"balance": 1}, "json": {}, "expect": "present""#, #""json": 7"#,
        ] { #expect(try send(other) == "failed idConflict", "\(other)") }
        #expect(try session.rows("SELECT balance FROM Account") == ["2"])
    }

    @Test func `a fault of an expectation has its place`() throws {
        for (operation, fault) in [
            (
                #"{"entity": "Account", "json": {"id": 1}, "expect": {"where": "balanc > 1"}}"#,
                "invalidPredicate /operations/0/expect/where"
            ),
            (#"{"entity": "Account", "json": {"id": "x"}, "expect": "absent"}"#, "invalidValue /operations/0/json/id"),
            (
                #"{"entity": "Account", "object": "x", "json": {}, "expect": "absent"}"#,
                "invalidValue /operations/0/object"
            ),
            (#"{"entity": "Nobody", "json": {"id": 1}, "expect": "absent"}"#, "unknownEntity /operations/0/entity"),
        ] { #expect(try session.job(operation) == fault) }
    }

    @Test(.session(model, jobWork: 500_000))
    func `expectations cost a job's work, and the next job is applied`() throws {
        try session.process("Account", #"{"id": 1}"#)
        let one = #"{"entity": "Account", "json": {"id": 1}, "expect": {"where": "balance == nil"}}"#
        let answer = try session.answer(Array(repeating: one, count: 60).joined(separator: ", "))
        #expect(answer.code == "busy" && answer["error.path"]?.hasPrefix("/operations/") == true)
        let patterns = (0..<30).map { _ in
            #"{"entity": "Account", "json": {"id": 1}, "expect": {"where": "log == nil OR log MATCHES '(a|b){900}'"}}"#
        }
        #expect(try session.answer(patterns.joined(separator: ", ")).code == "busy")
        #expect(try session.job(#"{"entity": "Account", "json": {"id": 2}, "expect": "absent"}"#) == "Account +1")
    }

    // MARK: - Increments

    @Test(arguments: [
        (#""increment": {"balance": -3}"#, "balance", "7"), (#""increment": {"small": 5}"#, "small", "5"),
        (#""increment": {"price": 0.20}"#, "price", "1.70"), (#""increment": {"price": -1e1}"#, "price", "-8.5"),
        (#""increment": {"price": 123456789012345678901234567890}"#, "price", "123456789012345678901234567891.5"),
        (#""increment": {"cents": 0.05}"#, "cents", "105"), (#""increment": {"rate": 0.5}"#, "rate", "0.75"),
        (#""append": {"log": "é\n"}"#, "hex(log)", "61C3A90A"), (#""append": {"code": "x"}"#, "code", "x"),
        (#""append": {"tags": ["b", {"c": 1}]}"#, "tags", #"["a","b",{"c":1}]"#),
        (#""append": {"tags": []}"#, "tags", #"["a"]"#),
        (#""increment": {"balance": 1}, "json": {"balance": 3}"#, "balance", "3"),
        (#""increment": {"balance": 1}, "json": {"small": 3}"#, "balance + small", "14"),
    ]) func `an attribute is changed by its stored value`(change: String, column: String, value: String) throws {
        try account(#""balance": 10, "price": 1.5, "cents": 1, "rate": 0.25, "log": "a", "tags": ["a"]"#)
        #expect(try session.job(#"{"entity": "Account", "object": 7, \#(change)}"#).contains("Account"))
        #expect(try session.rows("SELECT \(column) FROM Account") == [value])
    }

    @Test func `null counts as nothing`() throws {
        try account(#""balance": 0"#)
        _ = try session.job(
            #"{"entity": "Account", "object": 7, "increment": {"small": 2, "price": 1.5, "rate": 1}, "append": {"log": "a", "tags": [1]}}"#
        )
        #expect(try session.rows("SELECT small, price, rate, log, tags FROM Account") == ["2|1.5|1.0|a|[1]"])
        try account(#""tags": [], "log": """#)
        _ = try session.job(#"{"entity": "Account", "object": 7, "append": {"log": "a", "tags": ["b", 1]}}"#)
        #expect(try session.rows("SELECT log, tags FROM Account") == [#"a|["b",1]"#])
    }

    @Test(arguments: [
        (#""increment": {"balance": -11}"#, "validationFailed", "/increment/balance"),
        (#""increment": {"balance": 9223372036854775807}"#, "invalidValue", "/increment/balance"),
        (#""increment": {"small": 40000}"#, "invalidValue", "/increment/small"),
        (#""increment": {"balance": 0.5}"#, "invalidValue", "/increment/balance"),
        (#""increment": {"rate": 1e308, "balance": 1}"#, "invalidValue", "/increment/rate"),
        (#""increment": {"price": 1e999999999}"#, "invalidValue", "/increment/price"),
        (#""increment": {"balance": "1"}"#, "invalidValue", "/increment/balance"),
        (#""increment": {"log": 1}"#, "invalidValue", "/increment/log"),
        (#""increment": {"id": 1}"#, "invalidValue", "/increment/id"),
        (#""increment": {"balanc": 1}"#, "unknownKey", "/increment/balanc"),
        (#""increment": {"balance": 1, "balance": 1}"#, "invalidValue", "/increment/balance"),
        (#""append": {"log": "0123456789abc"}"#, "validationFailed", "/append/log"),
        (#""append": {"log": 1}"#, "invalidValue", "/append/log"),
        (#""append": {"tags": 1}"#, "invalidValue", "/append/tags"),
        (#""append": {"balance": "1"}"#, "invalidValue", "/append/balance"),
        (#""append": {"at": "1"}"#, "invalidValue", "/append/at"),
        (#""append": {"tags": [1], "log": "a"}"#, "invalidValue", "/append/tags"),
    ]) func `a change that the attribute does not allow fails the job`(change: String, code: String, path: String)
        throws
    {
        try account(#""balance": 10, "rate": 1e308, "tags": {}"#)
        #expect(try session.job(#"{"entity": "Account", "object": 7, \#(change)}"#) == "\(code) /operations/0\(path)")
        #expect(try session.rows("SELECT balance, log FROM Account") == ["10|NULL"])
    }

    @Test func `only an object that exists is changed, and it is in the reply once`() throws {
        let change = #"{"entity": "Account", "object": 7, "increment": {"small": 1}, "json": {"log": "a"}}"#
        #expect(try session.job(change) == "objectNotFound /operations/0/object")
        try account(#""balance": 10"#)
        let answer = try session.client.ask(#"{"reply": "objects", "operations": [\#(change)]}"#)
        #expect(answer["objects.0.0.small"] == "1" && answer["objects.0.0.log"] == "a" && answer["objects.0.1"] == nil)
        try session.process("Person", #"{"id": 3}"#)
        #expect(
            try session.job(#"{"entity": "Clerk", "object": 3, "append": {"desk": "a"}}"#)
                == "objectNotFound /operations/0/object", "a change makes no Clerk of a Person")
        try session.process("Event", #"{"text": "a"}"#)
        #expect(try session.job(#"{"entity": "Event", "object": 1, "increment": {"count": 2}}"#) == "Event ~1")
        #expect(try session.job(#"{"entity": "Event", "object": 1, "increment": {"count": 0}}"#) == "Event =1")
    }

    // MARK: - Links

    private func links(_ links: String, _ json: String, _ relationship: String = "marks") throws -> String {
        let entity = relationship == "marks" ? "Account" : "Person"
        return try session.job(
            #"{"op": "relate", "entity": "\#(entity)", "object": 7, "relationship": "\#(relationship)", "json": \#(json), "links": "\#(links)"}"#
        )
    }

    @Test func `links are added, replaced and removed whatever the model says`() throws {
        try session.process("Account", #"{"id": 7, "marks": [{"kind": "a", "number": 1}, {"kind": "a", "number": 2}]}"#)
        #expect(try links("add", #"{"kind": "a", "number": 3}"#) == "Account ~1, Mark +1")
        #expect(
            try links("remove", #"[{"kind": "a", "number": 1}, {"kind": "b", "number": 9}]"#) == "Account ~1, Mark =1")
        #expect(try links("replace", #"[{"kind": "a", "number": 1}]"#).hasPrefix("Account ~1"))
        #expect(try session.rows("SELECT count(*) FROM Mark") == ["3"])
        #expect(try links("remove", #"[{"kind": "a", "number": 2}]"#).hasPrefix("Account =1"))

        try session.process(
            "Person", #"{"id": 7, "accounts": [7], "friends": [1, 2], "notes": [{"id": 1}, {"id": 2}, {"id": 3}]}"#)
        try session.process("Account", #"[{"id": 8}, {"id": 9, "owner": 7}]"#)
        #expect(try links("add", "8", "accounts").contains("Account ~1"))
        #expect(try session.rows("SELECT id FROM Account WHERE owner = 7 ORDER BY 1") == ["7", "8", "9"])
        #expect(try links("remove", "[7, 8, 99]", "accounts").contains("Account ~2"))
        #expect(try session.rows("SELECT id FROM Account WHERE owner = 7") == ["9"])
        #expect(try links("replace", "[7]", "accounts").contains("Account ~2"))
        #expect(try session.rows("SELECT id FROM Account WHERE owner = 7") == ["7"])
        _ = try links("remove", "[1]", "friends")
        #expect(try session.rows("SELECT count(*) FROM Person_friends") == ["2"], "a link of both ends to each other")
        _ = try links("remove", "[2]", "notes")
        let notes = try session.client.ask(#"{"type": "fetch", "entity": "Person", "object": 7, "include": ["notes"]}"#)
        #expect(notes["objects.0.notes"] == #"[{"id":1},{"id":3}]"#)
        try session.process("Person", #"{"id": 3}"#)
        #expect(try links("remove", "3", "aides") == "Person =1", "a Person is none of the Clerks")
    }

    @Test func `links fit relationships to many alone`() throws {
        try account(#""balance": 1"#)
        let owner =
            #"{"op": "relate", "entity": "Account", "object": 7, "relationship": "owner", "json": 1, "links": "add"}"#
        #expect(try session.job(owner) == "invalidValue /operations/0/links")
        #expect(try links("add", "null") == "invalidValue /operations/0/links")
        #expect(try links("remove", "[1]") == "invalidValue /operations/0/json/0")
        #expect(try links("remove", #"{"kind": "a"}"#) == "missingIdentity /operations/0/json")
        try session.process("Person", #"{"id": 7, "notes": [1]}"#)
        #expect(try links("remove", #"{"id": "x"}"#, "notes") == "invalidValue /operations/0/json/id")
    }
}
