import TestSupport
import Foundation
import Testing

/// Commands with `--timeout` whose server does not answer.
@Suite(.timeLimit(.minutes(5))) struct TimeoutTests {
    private static let commands = [
        ["stats"], ["await", "job"], ["fetch", "Employee"], ["submit", "--entity", "Employee"],
        ["sync", "--entity", "Employee", "--empty"], ["delete", "--entity", "Employee", "1"], ["cancel", "job"],
        ["relate", "--entity", "Employee", "--object", "1", "--relationship", "department", "--to", "7"],
        ["admin", "pause"], ["migrate"], ["backup", "copy.sqlite"], ["ping"], ["jobs"], ["entities"], ["top"],
        ["watch"],
    ]

    @Test func `no command waits for a stopped server for longer than it is to`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        kill(server.processIdentifier, SIGSTOP)
        defer { kill(server.processIdentifier, SIGCONT) }
        for command in Self.commands {
            let result = try programs.run(
                "broker", command + ["--socket", "broker.sock", "--timeout", "200ms"], input: #"{"id": 1}"#)
            #expect(result.status == 4, "\(command): \(result.complaints)")
            #expect(result.complaints.contains("did not answer the greeting in time"), "\(result.complaints)")
        }
    }

    @Test(arguments: [
        ["submit", "--entity", "Employee"], ["sync", "--entity", "Employee"], ["delete", "--entity", "Employee", "1"],
        ["relate", "--entity", "Employee", "--object", "1", "--relationship", "department", "--to", "7"],
    ])
    func `no command waits for a job that a pause holds for longer than it is to`(command: [String]) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        #expect(try programs.run("broker", ["admin", "pause", "--socket", "broker.sock"]).status == 0)
        let result = try programs.run(
            "broker", command + ["--id", "load", "--socket", "broker.sock", "--timeout", "1"], input: #"{"id": 1}"#)
        #expect(result.status == 4)
        #expect(result.complaints.contains("the server has sent no answer for 1 s"), "\(result.complaints)")
        // The job is there: only its answer was not waited for.
        let awaited = try programs.run(
            "broker",
            ["await", command[0] == "submit" ? "load-1" : "load", "--socket", "broker.sock", "--timeout", "1"])
        #expect(awaited.status == 4 && awaited.complaints.contains("no answer for 1 s"), "\(awaited.complaints)")
    }

    @Test(arguments: [([], true), (["--id", "load"], false), (["--resume"], false)])
    func `of records in doubt that the printed command applies again, it says so`(
        options: [String], isRepeated: Bool
    ) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        #expect(try programs.run("broker", ["admin", "pause", "--socket", "broker.sock"]).status == 0)
        let submit = ["submit", "--entity", "Employee", "--socket", "broker.sock", "--timeout", "200ms"]
        let result = try programs.run("broker", submit + options, input: #"{"id": 1}"#)
        #expect(result.status == 4 && result.complaints.contains("1 record is in doubt"), "\(result.complaints)")
        let hint = "is applied once more by the command below"
        #expect(result.complaints.contains(hint) == isRepeated, "\(result.complaints)")
    }

    @Test func `with a timeout a command waits for a server that is not there yet`() throws {
        let programs = try Programs()
        let command = "'\(programs.executable("broker").path)' ping --socket broker.sock --timeout \(Patience.seconds)"
        let ping = try programs.start(command)
        _ = try programs.startServer()
        ping.waitUntilExit()
        #expect(ping.terminationStatus == 0)
    }

    @Test func `without a timeout a server that is not there is an error at once, which names the way without one`()
        throws
    {
        let programs = try Programs()
        try programs.write(#"{"id": 1}"#, to: "f.json")
        for (command, namesStore) in [
            (["submit", "--entity", "Event", "f.json"], true), (["fetch", "Event"], true), (["ping"], false),
            (["fetch", "Event", "--socket", "b.sock"], false), (["cancel", "a"], false), (["watch"], false),
        ] {
            let result = try programs.run("broker", command)
            #expect(result.status == 4)
            let first = result.complaints.split(separator: "\n").first ?? ""
            #expect(first.contains("no such socket") && first.contains("--store") == namesStore, "\(result.complaints)")
        }
    }

    @Test func `an invalid time is a wrong argument`() throws {
        let programs = try Programs()
        let result = try programs.run("broker", ["stats", "--timeout", "0"])
        #expect(
            result.status == 2 && result.complaints.contains("--timeout must be 10ms to 1d, but is"),
            "\(result.complaints)")
    }
}
