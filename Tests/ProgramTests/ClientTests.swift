import Broker
import BrokerClient
import BrokerEmbedded
import Foundation
import Testing

/// `broker` and the scripts, as a user at a shell runs them.
@Suite(.timeLimit(.minutes(5))) struct BrokerTests {
    private func submit(_ programs: Programs, _ input: String, _ arguments: [String] = []) throws -> Programs.Result {
        try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee"] + arguments, input: input)
    }

    @Test func `an array, NDJSON and a single object are submitted alike`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        for (input, id) in [
            (#"[{"id": 1, "name": "a]}"}, {"id": 2}]"#, 2), ("{\"id\": 3}\n{\"id\": 4}\n", 4), (#"{"id": 5}"#, 5),
        ] {
            let result = try submit(programs, input)
            #expect(result.status == 0, "\(result.complaints)")
            let count = try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee")
            #expect(count == ["\(id)"])
        }
    }

    @Test func `the exit status distinguishes failed, rejected, usage and no connection`() throws {
        let programs = try Programs()
        let bad = #"[{"id": 1}, {"id": "x"}]"#
        #expect(try submit(programs, bad).status == 4)
        _ = try programs.startServer()
        let failed = try submit(programs, bad)
        #expect(failed.status == 1)
        #expect(failed.complaints.contains("/json/1/id"))
        let rejected = try submit(programs, bad, ["--on-invalid", "skip"])
        #expect(rejected.status == 3)
        #expect(rejected.output.contains("Employee"))
        #expect(try programs.run("broker", ["submit", "--socket", "broker.sock", "--entity"]).status == 2)
        let cut = try submit(programs, #"[{"id": 1}, {"id": 2"#)
        #expect(cut.status == 1)
        #expect(cut.complaints.contains("byte"))
    }

    @Test func `a submission with an id is applied once however often it is sent`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let input = (0..<30).map { #"{"id": \#($0)}"# }.joined(separator: "\n")
        _ = try submit(programs, input, ["--batch-records", "10", "--id", "load"])
        let again = try submit(programs, input, ["--batch-records", "10", "--id", "load", "--json"])
        #expect(again.status == 0)
        #expect(again.output.contains(#""duplicates":3"#))
    }

    @Test func `frame and unframe are each other's inverse`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        try programs.write(#"{"type": "ping", "n": [1, 2]}"#, to: "ping.json")
        let bin = "\(server.executableURL?.deletingLastPathComponent().path ?? "")/broker"
        let result = try programs.shell(
            "\(bin) frame <ping.json | socat -t 30 - UNIX-CONNECT:broker.sock | \(bin) unframe")
        #expect(result.output == "{\"type\":\"pong\",\"n\":[1, 2]}\n")
    }

    @Test func `submit_sh sends a job with socat and lz4 and prints its outcome`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let done = try programs.runScript(
            "submit.sh", ["broker.sock"], input: #"{"entity": "Employee", "json": {"id": 1}}"#)
        #expect(done.status == 0, "\(done.complaints)")
        #expect(done.output.contains(#""type":"completed""#))
        let failed = try programs.runScript("submit.sh", ["broker.sock"], input: #"{"entity": "Nobody", "json": {}}"#)
        #expect(failed.status == 1)
        #expect(failed.output.contains("unknownEntity"))
        let skipped = try programs.runScript(
            "submit.sh", ["broker.sock"], input: #"{"onInvalid": "skip", "entity": "Employee", "json": [{"id": "x"}]}"#)
        #expect(skipped.status == 3)
        #expect(try programs.runScript("submit.sh", ["nowhere.sock"], input: "{}").status == 4)
        #expect(try programs.runScript("submit.sh", []).status == 2)
    }

    @Test func `model check lists every fault, and schema prints SQL that SQLite takes`() throws {
        let programs = try Programs()
        try programs.write(
            #"{"entities": {"A": {"identity": "nope", "attributes": {"a": "strin", "b": {"type": "date", "default": "x"}}}}}"#,
            to: "bad.json")
        let bad = try programs.run("broker", ["model", "check", "bad.json"])
        #expect(bad.status == 1)
        #expect(bad.complaints.contains("nope") && bad.complaints.contains("strin"))
        #expect(try programs.run("broker", ["model", "check", "model.json"]).status == 0)
        try programs.write(
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "string"}}, "B": {"parent": "A", "attributes": {"x": "string"}}}}"#,
            to: "parent.json")
        let parent = try programs.run("broker", ["model", "check", "parent.json"])
        #expect(parent.output == "parent.json: good, 2 entities, 2 attributes, 0 relationships\n")
        let schema = try programs.run("broker", ["model", "schema", "model.json"])
        #expect(try programs.shell("sqlite3 :memory:", input: schema.output + "SELECT 'good';").output == "good\n")
    }

    @Test func `model check refuses what RE2 lacks, with the place, in JSON and in Core Data's form`() throws {
        let programs = try Programs()
        let json = #"{"type": "string", "pattern": "^(?=.*[0-9]).{8,}$"}"#
        try programs.write("{\"entities\": {\"A\": {\"attributes\": {\n\"a\": \(json)}}}}", to: "lookahead.json")
        try FileManager.default.createDirectory(
            atPath: programs.path("A.xcdatamodel"), withIntermediateDirectories: true)
        try programs.write(
            """
            <?xml version="1.0"?>
            <model type="com.apple.IDECoreDataModeler.DataModel"><entity name="A">
            <attribute name="a" optional="YES" attributeType="String" regularExpressionString="(a)\\1"/>
            </entity></model>
            """, to: "A.xcdatamodel/contents")
        for (file, line) in [("lookahead.json", "2"), ("A.xcdatamodel", "3")] {
            let checked = try programs.run("broker", ["model", "check", file])
            #expect(checked.status == 1)
            let complaint = try #require(checked.complaints.split(separator: "\n").first)
            #expect(complaint.contains(": line \(line)") && complaint.contains("lookaround"), "\(checked.complaints)")
        }
    }

    @Test func `stats are printed a line each`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let stats = try programs.run("broker", ["stats", "--socket", "broker.sock"])
        #expect(stats.output.split(separator: "\n").contains("jobs.completed 0"))
    }
}

/// The coordinator in a program that is not ours.
@Suite(.timeLimit(.minutes(5))) struct EmbeddingTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    @Test func `the example of the library's page does what it says, and once`() throws {
        let first = try programs.run("Embedding", [])
        #expect(first.status == 0, "\(first.complaints)")
        #expect(first.output == "inserted 2\nrefused at /json/id: invalidValue\n[\"Grace\"]\n")
        let second = try programs.run("Embedding", [])
        #expect(second.output.hasPrefix("loaded before\n"))
        let names = try FileManager.default.contentsOfDirectory(atPath: programs.folder).filter {
            $0.hasPrefix("staff")
        }
        #expect(names.sorted() == ["staff.sqlite", "staff.sqlite.lock"])
        #expect(try Database(programs.path("staff.sqlite")).rows("SELECT name FROM Employee") == ["Ada", "Grace"])

        let example = try Repository.text(of: "Tests/Examples/Embedding/main.swift")
        let page = try Repository.text(of: "Sources/BrokerEmbedded/BrokerEmbedded.docc/Embedding.md")
        #expect(page.contains("```swift\n\(example)```\n"))
    }

    @Test func `the example of handlers does what its page says`() throws {
        let result = try programs.run("Handling", [])
        #expect(result.status == 0, "\(result.complaints)")
        let example = try Repository.text(of: "Tests/Examples/Handling/main.swift")
        let page = try Repository.text(of: "protocol/mappings.md")
        #expect(page.contains("```swift\n\(example)```\n\nIt prints\n\n```\n\(result.output)```\n"), "\(result.output)")
    }

    @Test func `a job that a server has applied is known when it is run without one`() async throws {
        let server = try programs.startServer()
        let client = try await RemoteBroker.connect(to: .unixSocket(programs.path("broker.sock")))
        let job = Job([.process(json: #"[{"id": 1, "name": "Ada"}]"#, as: "Employee")], id: "load", reply: .keys)
        let first = try await client.process(job)
        client.close()
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        let broker = try await EmbeddedBroker.open(
            store: .file(programs.path("store.sqlite")), model: .json(Programs.model))
        let again = try await broker.process(job)
        #expect(again.isDuplicate)
        #expect(again.sequence == first.sequence && again.changes == first.changes && again.keys == first.keys)
        await broker.close()
    }

    @Test func `a program and a server refuse each other's store by name`() async throws {
        let broker = try await EmbeddedBroker.open(
            store: .file(programs.path("store.sqlite")), model: .json(Programs.model))
        let refused = try programs.run(
            "brokerd", ["--model", "model.json", "--store", "store.sqlite", "--socket", "broker.sock"])
        #expect(refused.status == 1)
        #expect(refused.complaints.contains("process \(getpid())."), "\(refused.complaints)")
        await broker.close()
        let server = try programs.startServer()
        let error = await #expect(throws: BrokerError.self) {
            try await EmbeddedBroker.open(store: .file(programs.path("store.sqlite")), model: .json(Programs.model))
        }
        #expect(error?.message.contains("process \(server.processIdentifier).") == true)
    }
}

/// The meaning of a cancelled call: the same function with a client of a server and with an embedded broker.
@Suite(.timeLimit(.minutes(5))) struct CancellationMeaningTests {
    private func job(_ number: Int) -> Job {
        Job(.process(json: #"{"id": \#(number)}"#, as: "Employee"), id: JobID("job \(number)"))
    }

    /// Runs the test with both.
    private func withBoth(_ test: (any BrokerService) async throws -> Void) async throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try await withRemoteBroker(.unixSocket(programs.path("broker.sock"))) { try await test($0) }
        try await withTemporaryBroker(model: .file(programs.path("model.json"))) { try await test($0) }
    }

    private func ids(_ broker: any BrokerService) async throws -> [Int] {
        struct Employee: Decodable { var id: Int }
        return try await broker.fetch(Query("Employee")).decode([Employee].self).map(\.id)
    }

    private func wait(_ broker: any BrokerService, forJobsInFlight count: Int) async throws {
        while try await broker.statistics().jobs.inFlight != count { try Task.checkCancellation() }
    }

    /// Calls in a task that is cancelled before it begins.
    private func cancelledBefore(_ call: @escaping @Sendable () async throws -> Void) async -> (any Error)? {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await call()
        }
        do {
            try await task.value
            return nil
        } catch {
            return error
        }
    }

    @Test func `a call of a task that is cancelled already has no effect`() async throws {
        try await withBoth { broker in
            let folder = NSTemporaryDirectory()
            let calls: [@Sendable () async throws -> Void] = [
                { try await broker.process(self.job(1)) }, { _ = try await broker.submit(self.job(2)) },
                { _ = try await broker.completion(of: "job 1") }, { try await broker.cancel("job 1") },
                { _ = try await broker.fetch(Query("Employee")) },
                { for try await _ in broker.results(of: Query("Employee")) {} },
                { try await broker.administer(.checkpoint) },
                { _ = try await broker.backUp(to: "\(folder)/broker-\(UUID()).sqlite") },
            ]
            for (index, call) in calls.enumerated() {
                let error = await cancelledBefore(call)
                #expect(error is CancellationError, "\(type(of: broker)), \(index): \(String(describing: error))")
            }
            let found = try await ids(broker)
            #expect(found.isEmpty)
        }
    }

    @Test func `a job is cancelled with its task until its merge begins, and a submission until it is accepted`()
        async throws
    {
        try await withBoth { broker in
            try await broker.administer(.pause)
            let process = Task { try await broker.process(job(1)) }
            try await wait(broker, forJobsInFlight: 1)
            process.cancel()
            await #expect(throws: CancellationError.self) { try await process.value }
            try await wait(broker, forJobsInFlight: 0)
            // A submission that is cancelled later has its place: its task goes on.
            let submission = Task {
                let submitted = try await broker.submit(job(2))
                withUnsafeCurrentTask { $0?.cancel() }
                let wait = await #expect(throws: BrokerError.self) { _ = try await submitted.completion }
                #expect(wait?.isOutcomeUnknown == true && wait?.jobID == "job 2")
                #expect((wait?.cause as? BrokerError)?.code == .waitCancelled)
                return submitted
            }
            let submitted = try await submission.value
            let awaiting = Task { try await broker.completion(of: "job 2") }
            awaiting.cancel()
            let error = await #expect(throws: (any Error).self) { try await awaiting.value }
            #expect(error is CancellationError || (error as? BrokerError)?.isOutcomeUnknown == true)
            try await broker.administer(.resume)
            #expect(try await submitted.completion.changes["Employee"]?.inserted == 1)
            #expect(try await ids(broker) == [2])
        }
    }

    @Test func `a job that is cancelled at any time has an effect exactly if its task gets a completion`() async throws
    {
        try await withBoth { broker in
            var committed: [Int] = []
            for number in 1...100 {
                let process = number.isMultiple(of: 2)
                let call = Task {
                    if process { return try await broker.process(job(number)) }
                    return try await broker.submit(job(number)).completion
                }
                for _ in 0..<number % 15 { await Task.yield() }
                call.cancel()
                do {
                    do {
                        _ = try await call.value
                    } catch let error as BrokerError where error.isOutcomeUnknown && !process {
                        // The submission had returned, and only the waiting was cancelled.
                        _ = try await broker.completion(of: JobID("job \(number)"))
                    }
                    committed.append(number)
                } catch let error as BrokerError where error.code == .cancelled && !process {
                    // Its acceptance and its cancellation crossed.
                } catch is CancellationError {}
            }
            #expect(try await ids(broker) == committed)
        }
    }
}

/// The client of `protocol/guides/clients.md`, run against a server.
@Suite(.timeLimit(.minutes(5))) struct PythonClientTests {
    private let programs: Programs

    init() throws {
        programs = try Programs()
        let blocks = try Repository.codeBlocks(of: "protocol/guides/clients.md").filter { $0.language == "python" }
        let client = try #require(blocks.first { $0.text.contains("class Broker:") }?.text)
        let paging = try #require(blocks.first { $0.text.hasPrefix("def fetch(") }?.text)
        let changing = try #require(blocks.first { $0.text.hasPrefix("def change(") }?.text)
        #expect(client.split(separator: "\n", omittingEmptySubsequences: false).count <= 100)
        try programs.write(client + paging + changing, to: "broker.py")
    }

    /// Runs statements of Python that use the client, and returns the lines that they print.
    private func run(_ statements: String) throws -> [String] {
        let result = try programs.shell("python3 -", input: "from broker import *\n" + statements)
        #expect(result.status == 0, "\(result.complaints)")
        return result.output.split(separator: "\n").map(String.init)
    }

    @Test func `answers find the messages that they belong to`() throws {
        _ = try programs.startServer()
        let lines = try run(
            """
            broker = Broker("broker.sock")
            ada = {"id": "a", "entity": "Employee", "json": {"id": 1, "name": "Ada"}}
            jobs = [ada, {"id": "b", "entity": "Employee", "json": {"id": "one"}},
                    {"id": "c", "entity": "Employee", "json": {}, "onInvalid": "perhaps"}, ada]
            for answer in sorted(broker.run(jobs), key=lambda answer: answer["tag"]):
                print(answer["type"], answer["id"], answer.get("duplicate") or answer.get("error", {}).get("code"))
            broker.write = lambda tag: (broker.sent.append(tag), broker.socket.sendall(b"{}"))
            answer = broker.receive() if broker.send({"type": "ping"}) else None
            print(answer["error"]["code"], answer["tag"])
            """)
        #expect(
            lines == [
                "completed a None", "failed b invalidValue", "error c unsupportedMessage", "completed a True",
                "malformedFrame 5",
            ])
    }

    @Test func `an object that another client changed meanwhile is read again before it is changed`() throws {
        _ = try programs.startServer()
        let lines = try run(
            """
            broker, other = Broker("broker.sock"), Broker("broker.sock")
            other.ask({"entity": "Employee", "json": {"id": 1, "name": "a"}})
            seen = []
            def decide(found):
                seen.append(found["name"])
                if len(seen) == 1:
                    other.ask({"entity": "Employee", "json": {"id": 1, "name": "b"}})
                return {"name": found["name"] + "!"}
            change(broker, "Employee", 1, decide)
            print(seen, broker.ask({"type": "fetch", "entity": "Employee", "object": 1})["objects"][0]["name"])
            """)
        #expect(lines == ["['a', 'b'] b!"])
    }

    @Test func `pages of a fetch neither skip nor repeat objects`() throws {
        _ = try programs.startServer()
        let lines = try run(
            """
            broker = Broker("broker.sock")
            list(broker.run([{"entity": "Employee", "json": [{"id": n, "name": str(n)} for n in range(1, 8)]}]))
            objects = fetch(broker, {"entity": "Employee", "where": "name != %@", "arguments": ["3"], "limit": 2})
            print(next(objects)["id"])
            list(broker.run([{"op": "delete", "entity": "Employee", "objects": [1, 2]}]))
            print([object["id"] for object in objects])
            """)
        #expect(lines == ["1", "[2, 4, 5, 6, 7]"])
    }

    @Test func `pages continue after a key with all its digits, and after a compound one`() throws {
        try programs.write(
            """
            {"entities": {
              "Price": {"identity": "amount", "attributes": {"amount": "decimal"}},
              "Seat": {"identity": ["row", "number"], "attributes": {"row": "string", "number": "double"}}}}
            """, to: "model.json")
        _ = try programs.startServer()
        let lines = try run(
            """
            broker = Broker("broker.sock")
            amounts = [decimal.Decimal(f"0.1234567890123456789{n}") for n in range(1, 6)]
            seats = [{"row": row, "number": number} for row in "ab" for number in (1.5, 2, 10)]
            list(broker.run([{"entity": "Price", "json": [{"amount": amount} for amount in amounts]},
                             {"entity": "Seat", "json": seats}]))
            print([price["amount"] for price in fetch(broker, {"entity": "Price", "limit": 1})] == amounts)
            print([(seat["row"], float(seat["number"])) for seat in fetch(broker, {"entity": "Seat", "limit": 2})])
            """)
        #expect(
            lines == [
                "True", "[('a', 1.5), ('a', 2.0), ('a', 10.0), ('b', 1.5), ('b', 2.0), ('b', 10.0)]",
            ])
    }

    @Test func `after a lost connection jobs are sent again and take effect once, and a cancel is not`() throws {
        let server = try programs.startServer()
        let lines = try run(
            """
            import os, signal
            broker = Broker("broker.sock")
            frames = []

            def lose_connection(*messages):
                # A server that has stopped answers nothing before the connection is lost.
                os.kill(\(server.processIdentifier), signal.SIGSTOP)
                for message in messages:
                    broker.send(message)
                broker.socket.shutdown(socket.SHUT_RDWR)
                os.kill(\(server.processIdentifier), signal.SIGCONT)

            write, broker.write = broker.write, lambda tag: (frames.append(broker.unanswered[tag][1]), write(tag))
            lose_connection(*({"id": f"job-{n}", "entity": "Employee", "json": {"id": n}} for n in range(3)))
            print([broker.receive()["id"] for _ in range(3)], frames[:3] == frames[3:])
            lose_connection({"type": "cancel", "id": "job-1"})
            try:
                broker.receive()
            except ConnectionError as error:
                print(error, len(broker.unanswered))
            print(broker.ask({"type": "stats"})["objects"]["inserted"])
            """)
        #expect(
            lines == [
                "['job-0', 'job-1', 'job-2'] True", "The connection was lost before the answer came. 0", "3",
            ])
    }
}
