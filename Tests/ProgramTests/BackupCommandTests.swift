import Foundation
import Testing

/// `broker backup` and `broker restore`, as an operator runs them.
@Suite(.timeLimit(.minutes(5))) struct BackupCommandTests {
    @Test func `a backup is verified and restored, and the commands say what was deleted and what is forgotten`() throws
    {
        let programs = try Programs()
        let server = try programs.startServer()
        func broker(_ arguments: [String], input: String = "") throws -> Programs.Result {
            try programs.run("broker", arguments, input: input)
        }
        let socket = ["--socket", "broker.sock"]
        func submit(_ id: Int) throws {
            let result = try broker(
                ["submit", "--entity", "Employee", "--id", "load-\(id)"] + socket, input: #"[{"id": \#(id)}]"#)
            #expect(result.status == 0, "\(result.complaints)")
        }
        try submit(1)
        // Two older backups, and files that are none of the series.
        let old = ["company-20200101T000000Z.sqlite", "company-20200102T000000Z.sqlite"]
        for name in old + ["company-1.sqlite", "company.sqlite"] { try programs.write("", to: name) }
        let backup = try broker(["backup", "--keep", "2", "--verify", "company.sqlite"] + socket)
        #expect(backup.status == 0 && backup.output.contains("every job up to 1, verified"), "\(backup.complaints)")
        #expect(backup.output.hasSuffix("\(old[0]): deleted\n"), "\(backup.output)")
        let names = try FileManager.default.contentsOfDirectory(atPath: programs.folder).sorted()
        let copy = try #require(names.last { $0.hasPrefix("company-2") })
        #expect(names.filter { $0.hasPrefix("company") } == ["company-1.sqlite", old[1], copy, "company.sqlite"])

        try submit(2)
        #expect(
            try broker(["restore", "--store", "store.sqlite", copy]).complaints.contains("belongs to another broker"))
        server.terminate()
        server.waitUntilExit()
        let dry = try broker(["restore", "--store", "store.sqlite", "--dry-run", copy])
        #expect(dry.output.contains("would be forgotten: 1 job (newest ids: load-2-1)"), "\(dry.output)")
        let restored = try broker(["restore", "--store", "store.sqlite", copy])
        #expect(restored.status == 0 && restored.output.contains("\nforgotten: 1 job"), "\(restored.complaints)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT id FROM Employee") == ["1"])
        let again = try broker(["restore", "--store", "store.sqlite", "--json", copy])
        #expect(again.output.contains(#""restored":true,"sequence":1,"forgottenJobs":0"#), "\(again.output)")
        let fetched = try broker(["fetch", "--store", "store.sqlite", "--json", "Employee"])
        #expect(fetched.output.contains(#"{"id":1,"#), "\(fetched.complaints)")
    }

    @Test func `after a clean stop with a journal, no accepted jobs are forgotten`() throws {
        let programs = try Programs()
        let server = try programs.startServer(["--journal"])
        let socket = ["--socket", "broker.sock"]
        #expect(
            try programs.run("broker", ["submit", "--entity", "Employee"] + socket, input: #"[{"id": 1}]"#).status == 0)
        #expect(try programs.run("broker", ["backup", "copy.sqlite"] + socket).status == 0)
        server.terminate()
        server.waitUntilExit()
        let dry = try programs.run("broker", ["restore", "--store", "store.sqlite", "--dry-run", "copy.sqlite"])
        #expect(dry.output.contains("would be forgotten: 0 jobs") && !dry.output.contains("accepted"), "\(dry)")
        let restored = try programs.run("broker", ["restore", "--store", "store.sqlite", "--json", "copy.sqlite"])
        #expect(restored.output.contains(#""journal":true,"forgottenAcceptedJobs":0"#), "\(restored)")
        _ = try programs.startServer(["--journal"])
        #expect(try programs.run("broker", ["fetch", "--count", "Employee"] + socket).output == "1\n")
    }

    @Test func `a copy of a stopped store needs no server`() throws {
        let programs = try Programs()
        _ = try programs.run(
            "broker", ["submit", "--store", "store.sqlite", "--model", "model.json", "--entity", "Employee"],
            input: #"[{"id": 1}]"#)
        let backup = try programs.run(
            "broker", ["backup", "--store", "store.sqlite", "--verify", "--json", "copy.sqlite"])
        #expect(
            backup.output.contains(#""sequence":1,"#) && backup.output.contains(#""verified":true"#),
            "\(backup.complaints)")
        #expect(try Database(programs.path("copy.sqlite")).rows("SELECT id FROM Employee") == ["1"])
        let missing = try programs.run("broker", ["restore", "--store", "store.sqlite", "gone.sqlite"])
        #expect(missing.status == 1, "\(missing)")
        #expect(missing.complaints == "broker: There is no backup gone.sqlite. Check the path.\n")
        let other = try programs.run("broker", ["restore", "--store", "new.sqlite", "model.json"])
        #expect(other.status == 1, "\(other)")
        #expect(
            other.complaints
                == "broker: model.json is no store of Broker's. Name a backup that `broker backup` made.\n")
    }
}
