import Foundation
import Testing

/// One run of each of brokerload's commands against a real server.
@Suite(.timeLimit(.minutes(5)))
struct LoadCommandTests {
    private let programs: Programs

    init() throws {
        programs = try Programs()
        let model = try programs.run("brokerload", ["model"])
        try #require(model.status == 0)
        try programs.write(model.output, to: "model.json")
    }

    private func json(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    private func load(_ arguments: [String]) throws -> Programs.Result {
        try programs.run("brokerload", [arguments[0], "--socket", "broker.sock"] + arguments.dropFirst())
    }

    @Test func `run commits the requested jobs, and reports them`() throws {
        _ = try programs.startServer()
        let result = try load([
            "run", "--jobs", "20", "--records", "100", "--connections", "2", "--accepted",
        ])
        #expect(result.status == 0, "\(result.complaints)")
        let report = try json(result.output)
        let total = try #require(report["total"] as? [String: Int])
        #expect(total["sent"] == 20 && total["ok"] == 20 && total["lost"] == 0)
        #expect(report["records"] as? Int == 2_000)
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["2000"])
        let server = try #require(report["server"] as? [String: Any])
        #expect((server["process"] as? Int ?? 0) > 0)
        #expect((server["peakResidentBytes"] as? Int ?? 0) > 0)
    }

    @Test func `a mix has the stated effects, and jobs that fail give status 1`() throws {
        _ = try programs.startServer()
        #expect(try load(["run", "--jobs", "1", "--records", "10"]).status == 0)
        let result = try load([
            "run", "--jobs", "100", "--records", "1", "--rate", "2000", "--existing", "10",
            "--mix", "new:80,changed:15,unchanged:5",
        ])
        #expect(result.status == 0, "\(result.complaints)")
        let stats = try #require(try json(result.output)["server"] as? [String: Any])["stats"] as? [String: Any]
        let objects = try #require(stats?["objects"] as? [String: Int])
        #expect(objects["updated"] == 15)
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["90"])
        let failed = try load(["run", "--jobs", "2", "--records", "1", "--shape", "ragged"])
        #expect(failed.status == 1)
        #expect(failed.complaints.contains("Of 2 jobs 2 failed"))
    }

    @Test func `baseline loads its database, once or in groups`() throws {
        let bulk = try programs.run(
            "brokerload",
            ["baseline", "--store", "f", "--jobs", "2", "--records", "50", "--then", "unchanged:1"])
        #expect(bulk.status == 0, "\(bulk.complaints)")
        #expect(bulk.output.split(separator: "\n").count == 2)
        #expect(try Database(programs.path("f")).rows("SELECT count(*) FROM Employee") == ["100"])
        let group = try programs.run(
            "brokerload", ["baseline", "--store", "g", "--jobs", "40", "--group", "8"])
        #expect(group.status == 0, "\(group.complaints)")
        #expect(try json(group.output)["jobs"] as? Int == 40)
    }

    @Test func `records are what run sends, by number`() throws {
        let records = try programs.run("brokerload", ["records", "--jobs", "1", "--records", "3", "--first", "5"])
        let values = try JSONSerialization.jsonObject(with: Data(records.output.utf8)) as? [[String: Any]]
        #expect(values?.compactMap { $0["id"] as? Int } == [5, 6, 7])
        let ragged = try programs.run("brokerload", ["model", "--shape", "ragged", "--attributes", "3"])
        let entities = try #require(try json(ragged.output)["entities"] as? [String: [String: Any]])
        #expect((entities["Record"]?["attributes"] as? [String: String])?.count == 4)
    }

    @Test func `without a server the status is 4`() throws {
        let result = try load(["run"])
        #expect(result.status == 4)
        #expect(result.complaints.split(separator: "\n").count == 1, "\(result.complaints)")
    }

    @Test(arguments: [
        ["run", "--mix", "new"], ["run", "--jobs", "1", "--duration", "1"], ["run", "--rate", "0"],
        ["run", "--shape", "round"], ["run", "--presence", "2"], ["run", "--attributes", "3"],
        ["baseline", "--store", "f", "--group", "0"], ["baseline", "--store", "f", "--then", "new:1"],
        ["run", "--mix", "changed:1", "--existing", "0"],
    ])
    func `invalid arguments are reported in one line, with status 2`(arguments: [String]) throws {
        let result = try programs.run("brokerload", arguments)
        #expect(result.status == 2)
        #expect(result.complaints.split(separator: "\n").count == 1, "\(result.complaints)")
    }

    private static let commands = ["run", "baseline", "records", "model"]

    @Test(arguments: commands) func `every command has help`(command: String) throws {
        let help = try programs.run("brokerload", [command, "--help"])
        #expect(help.status == 0)
        #expect(help.output.contains("USAGE: brokerload \(command)"))
    }

    @Test func `the shell completes every command`() throws {
        let script = try programs.run("brokerload", ["--generate-completion-script", "bash"])
        #expect(script.status == 0)
        for command in Self.commands { #expect(script.output.contains(command), "\(command)") }
    }
}
