import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5)), .server) struct MessageTests {
    private let running = RunningServer.current

    @Test func `hello is answered by what the server is and holds`() throws {
        let welcome = try running.connect().ask(#"{"type": "hello", "version": 1, "client": "test", "tag": [1]}"#)
        #expect(welcome.type == "welcome")
        #expect(welcome["version"] == "1")
        #expect(welcome["limits.maximumFrameBytes"] == "16777215")
        #expect(welcome["entities"] == #"["Department","Employee"]"#)
        #expect(welcome["tag"] == "[1]")
    }

    @Test func `a later version of the protocol is refused`() throws {
        let answer = try running.connect().ask(#"{"type": "hello", "version": 2}"#)
        #expect(answer.code == "unsupportedVersion")
    }

    @Test func `a completion has the changes, warnings and times of its job`() throws {
        let client = try running.connect()
        let job =
            #"{"id": "a", "entity": "Employee", "json": [{"id": 1, "name": "Ann", "bunk": 1, "department": {"id": 7}}]}"#
        let completed = try client.ask(job)
        #expect(completed["changes.Employee.inserted"] == "1")
        #expect(completed["changes.Department.inserted"] == "1")
        #expect(completed["duplicate"] == "false")
        #expect(completed["warnings.0.key"] == "bunk")
        #expect(completed["warnings.0.count"] == "1")
        #expect(completed["timing.committed"] != nil)
    }

    @Test func `the shorthands are whole jobs`() throws {
        let client = try running.connect()
        let collections =
            #"{"collections": {"Department": [{"id": 1}], "Employee": [{"id": 2, "name": "B", "department": 1}]}}"#
        let completed = try client.ask(collections)
        #expect(completed["changes.Department.inserted"] == "1")
        #expect(completed["changes.Employee.inserted"] == "1")
    }

    @Test func `reply none bears only id and sequence`() throws {
        let answer = try running.connect().ask(
            #"{"id": "a", "reply": "none", "entity": "Department", "json": {"id": 1}}"#)
        #expect(answer.text == #"{"type":"completed","id":"a","sequence":1}"#)
    }

    @Test func `reply keys names what was inserted and updated`() throws {
        let client = try running.connect()
        _ = try client.ask(#"{"entity": "Department", "json": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}"#)
        let answer = try client.ask(
            #"{"reply": "keys", "entity": "Department", "json": [{"id": 3}, {"id": 2, "name": "c"}, {"id": 1, "name": "a"}]}"#
        )
        #expect(answer["keys.Department"] == #"{"inserted":[3],"updated":[2],"deleted":[]}"#)
    }

    @Test func `accepted comes before completed, with the same sequence`() throws {
        let client = try running.connect()
        let accepted = try client.ask(
            #"{"notify": ["accepted", "completed"], "tag": "t", "entity": "Department", "json": {"id": 1}}"#)
        let completed = try client.next()
        #expect(accepted.type == "accepted")
        #expect(completed.type == "completed")
        #expect(accepted.sequence == completed.sequence)
        #expect(accepted["id"] == completed["id"])
        #expect(accepted["tag"] == "t")
        #expect(completed["tag"] == "t")
    }

    @Test func `a job that wants no answer gets none, unless it fails`() throws {
        let client = try running.connect()
        try client.send(#"{"notify": [], "entity": "Department", "json": {"id": 1}}"#)
        try client.send(#"{"id": "bad", "notify": [], "entity": "Department", "json": {"id": "x"}}"#)
        let failed = try client.ask(#"{"id": "last", "entity": "Department", "json": {"id": 2}}"#)
        #expect(failed.type == "failed")
        #expect(failed["id"] == "bad")
        #expect(failed["error.path"] == "/json/id")
        let completed = try client.next()
        #expect(completed["id"] == "last")
        #expect(completed.sequence == 3)
    }

    @Test func `skip rejects the invalid record and lists it by its path`() throws {
        let completed = try running.connect().ask(
            #"{"onInvalid": "skip", "entity": "Employee", "json": [{"id": 1, "name": "A"}, {"id": 2, "name": "B", "age": "old"}]}"#
        )
        #expect(completed["changes.Employee.inserted"] == "1")
        #expect(completed["changes.Employee.rejected"] == "1")
        #expect(completed["rejected.0.path"] == "/json/1/age")
        #expect(completed["rejected.0.code"] == "invalidValue")
    }

    @Test func `trailing commas are forgiven only to lenient jobs`() throws {
        let client = try running.connect()
        #expect(try client.ask(#"{"entity": "Department", "json": [{"id": 1,},]}"#).code == "malformedJSON")
        let lenient = try client.ask(
            #"{"lenient": true, "entity": "Department", "json": [{"id": 1, "name": ",]",},],}"#)
        #expect(lenient["changes.Department.inserted"] == "1")
    }

    @Test func `the same id with the same content is applied once, with other content refused`() throws {
        let job = #"{"id": "once", "entity": "Department", "json": {"id": 1, "name": "a"}}"#
        let first = try running.connect().ask(job)
        let second = try running.connect().ask(job)
        #expect(second["duplicate"] == "true")
        #expect(second.sequence == first.sequence)
        #expect(second["changes"] == first["changes"])
        #expect(second["timing.queued"] != nil)
        let other = try running.connect().ask(
            #"{"id": "once", "entity": "Department", "json": {"id": 1, "name": "b"}}"#)
        #expect(other.type == "failed")
        #expect(other.code == "idConflict")
    }

    @Test func `a failed job does not hold its id`() throws {
        let client = try running.connect()
        #expect(try client.ask(#"{"id": "x", "entity": "Employee", "json": {"id": 1}}"#).code == "missingValue")
        let again = try client.ask(#"{"id": "x", "entity": "Employee", "json": {"id": 1, "name": "A"}}"#)
        #expect(again.type == "completed")
        #expect(again["duplicate"] == "false")
    }

    @Test func `a job can be awaited from another connection, by its id`() async throws {
        _ = try running.connect().ask(#"{"id": "j", "entity": "Department", "json": {"id": 1}}"#)
        let other = try running.connect()
        let awaited = try other.ask(#"{"type": "await", "id": "j", "tag": 1}"#)
        #expect(awaited.type == "completed")
        #expect(awaited["changes.Department.inserted"] == "1")
        #expect(awaited["tag"] == "1")
        #expect(try other.ask(#"{"type": "await", "id": "nobody"}"#).code == "unknownJob")
    }

    @Test func `a job can be awaited in the very next message, however long it takes to read`() async throws {
        let client = try running.connect()
        let records = (0..<20_000).map { #"{"id": \#($0), "name": "department \#($0)"}"# }.joined(separator: ",")
        try client.send(#"{"id": "long", "notify": [], "entity": "Department", "json": [\#(records)]}"#)
        let awaited = try client.ask(#"{"type": "await", "id": "long"}"#)
        #expect(awaited.type == "completed", "\(awaited.text)")
        #expect(awaited["changes.Department.inserted"] == "20000")
    }

    @Test func `stats and model are answered`() throws {
        let client = try running.connect()
        _ = try client.ask(#"{"entity": "Department", "json": {"id": 1}}"#)
        let stats = try client.ask(#"{"type": "stats"}"#)
        #expect(stats["jobs.completed"] == "1")
        #expect(stats["jobs.inFlight"] == "0")
        #expect(stats["objects.inserted"] == "1")
        #expect(stats["memory.residentBytes"].flatMap { Int($0) } ?? 0 > 0)
        #expect(try client.ask(#"{"type": "model"}"#)["model.entities.Employee.identity"] != nil)
    }
}
