import Foundation
import TestSupport
import Testing

/// The versions of pages in the bookmarks of a store: there exactly if the records of the page are.
@Suite(.timeLimit(.minutes(5))) struct LoadBookmarkTests {
    private let programs: Programs
    private let pages = VersionedPages()
    private let server: PageServer
    private static let store = ["--store", "s.sqlite", "--model", "model.json"]
    private static let employees = store + ["--entity", "Employee"]

    init() throws {
        programs = try Programs()
        server = try PageServer(pages.answer)
    }

    private func records(_ ids: ClosedRange<Int>) -> String {
        "[" + ids.map { #"{"id": \#($0)}"# }.joined(separator: ",") + "]"
    }

    private func load(_ arguments: [String], _ target: String = "/a") throws -> Programs.Result {
        try programs.run("broker", ["load"] + arguments + [server.url(target)])
    }

    /// Whether the load found all of its pages unchanged; nil when it failed.
    private func isUnchanged(_ arguments: [String] = employees, _ target: String = "/a") throws -> Bool? {
        let result = try load(arguments, target)
        guard result.status == 0 else { return nil }
        return !result.output.contains("committed")
    }

    private func rows(_ sql: String = "SELECT count(*) FROM Employee", in store: String = "s.sqlite") throws -> [String]
    {
        try Database(programs.path(store)).rows(sql)
    }

    @Test func `a store that is an older copy gets the page again`() throws {
        defer { server.stop() }
        pages.put(records(1...1), at: "/a")
        #expect(try isUnchanged() == false)
        let (store, copy) = (programs.path("s.sqlite"), programs.path("copy"))
        try FileManager.default.copyItem(atPath: store, toPath: copy)
        pages.put(records(1...2), at: "/a")
        #expect(try isUnchanged() == false)
        #expect(try isUnchanged() == true)
        try FileManager.default.removeItem(atPath: store)
        try FileManager.default.moveItem(atPath: copy, toPath: store)
        #expect(try rows() == ["1"])
        #expect(try isUnchanged() == false)
        #expect(try rows() == ["2"])
        #expect(try isUnchanged(Self.employees + ["--fresh"]) == false)
    }

    @Test func `other options, another model and another entity read the page again`() throws {
        defer { server.stop() }
        pages.put(records(1...1), at: "/a")
        #expect(try isUnchanged() == false)
        for other in [["--unknown", "fail"], ["--type", "json"]] {
            #expect(try isUnchanged(Self.employees + other) == false)
            #expect(try isUnchanged(Self.employees + other) == true)
        }
        #expect(try isUnchanged(Self.store + ["--entity", "Department"]) == false)
        #expect(try isUnchanged() == false)
        try programs.write(
            Programs.model.replacing(#""name": "string""#, with: #""name": "string", "x": "string""#), to: "model.json")
        #expect(try isUnchanged() == false)
        #expect(try isUnchanged() == true)
        #expect(try rows("SELECT count(*) FROM _broker_bookmarks") == ["2"])
    }

    @Test func `a page that lost most of its records deletes nothing, however often it is loaded`() throws {
        defer { server.stop() }
        let sync = Self.employees + ["--sync", "--max-delete", "10%"]
        pages.put(records(1...20), at: "/a")
        #expect(try isUnchanged(sync) == false)
        #expect(try isUnchanged(sync) == true)
        pages.put(records(1...2), at: "/a")
        for _ in 1...2 {
            let refused = try load(sync)
            #expect(refused.status == 1 && refused.complaints.contains("tooManyDeletions"), "\(refused)")
            #expect(refused.complaints.contains("nothing was deleted"), "\(refused)")
        }
        #expect(try rows() == ["20"])
        pages.put(records(1...19), at: "/a")
        #expect(try isUnchanged(sync) == false)
        #expect(try rows() == ["19"])
        #expect(try isUnchanged(sync) == true)
    }

    @Test func `routes choose the mapping, and a last page without records is remembered, too`() throws {
        defer { server.stop() }
        try programs.write(
            Programs.model.dropLast(1)
                + #", "routes": [{"path": "/1", "mapping": "staff"}, {"path": "/2", "mapping": "staff"}],"#
                + #""mappings": {"staff": {"entity": "Employee", "attributes": {"no": "id"}}}}"#, to: "model.json")
        pages.put(#"[{"no": 1}, {"no": 2}]"#, at: "/1")
        pages.put("[]", at: "/2")
        #expect(try isUnchanged(Self.store, "/1") == false)
        #expect(try rows("SELECT id FROM Employee") == ["1", "2"])
        _ = server.taken()
        #expect(try isUnchanged(Self.store, "/1") == true)
        #expect(server.taken().map { $0.fields["if-none-match"] != nil } == [true, true])
        pages.put(#"[{"no": 3}]"#, at: "/2")
        let changed = try load(Self.store, "/1")
        #expect(
            changed.output.contains("1 record in 1 job") && changed.output.contains("1 of them unchanged"), "\(changed)"
        )
        let without = try load(Self.store, "/3")
        #expect(without.status == 1, "\(without)")
    }

    @Test(arguments: [0, 5_000])
    func `a page of which a job failed is loaded again, and so is its old version if a job was committed`(valid: Int)
        throws
    {
        defer { server.stop() }
        let old = records(1...1)
        pages.put(old, at: "/a")
        #expect(try isUnchanged() == false)
        // Two jobs, of which one fails.
        let ids = (2...5_002).map { $0 == valid + 2 ? #""x""# : "\($0)" }
        let new = "[\(ids.map { #"{"id": \#($0)}"# }.joined(separator: ","))]"
        pages.put(new, at: "/a")
        for _ in 1...2 { #expect(try isUnchanged() == nil) }
        #expect(try rows() == ["\(valid + 1)"])
        pages.put(old, at: "/a")
        #expect(try isUnchanged() == (valid == 0))
        #expect(try isUnchanged() == true)
    }

    @Test func `a server that knows no bookmarks gets every page, and jobs without them`() throws {
        defer { server.stop() }
        let old = try OldServer(programs.path("old.sock"))
        pages.put(records(1...1), at: "/a")
        for _ in 1...2 {
            let result = try load(["--socket", "old.sock", "--entity", "Employee"])
            #expect(result.status == 0 && result.complaints.contains("without bookmarks"), "\(result)")
        }
        #expect(server.taken().map { $0.fields["if-none-match"] } == [nil, nil])
        #expect(old.bookmarks == [nil, nil])
    }

    @Test func `a page with rejected records is loaded, and they are reported, each time`() throws {
        defer { server.stop() }
        let skip = Self.employees + ["--on-invalid", "skip"]
        pages.put(#"[{"id": 1}, {"id": "x"}]"#, at: "/a")
        for options in [skip, skip + ["--sync"], skip] {
            let result = try load(options)
            #expect(result.status == 3 && result.complaints.contains("(record 2): invalidValue"), "\(result)")
        }
        pages.put(records(1...2), at: "/a")
        for options in [skip, skip + ["--sync"]] {
            #expect(try isUnchanged(options) == false)
            #expect(try isUnchanged(options) == true)
        }
    }

    @Test
    func `a second user finds the page in the store, and a server that is killed before the commit stores no version`()
        throws
    {
        defer { server.stop() }
        let broker = try programs.startServer()
        let client = try RawClient(programs.path("broker.sock"))
        _ = try client.ask(#"{"type": "admin", "action": "pause"}"#)
        pages.put(records(1...2), at: "/a")
        let program = programs.executable("broker").path
        let command = "'\(program)' load --socket broker.sock --entity Employee '\(server.url("/a"))'"
        let loading = try programs.start("\(command) --reconnect-timeout 0s")
        while try client.ask(#"{"type": "jobs", "lists": ["running"]}"#)["running.0.id"] == nil {}
        kill(broker.processIdentifier, SIGKILL)
        broker.waitUntilExit()
        loading.waitUntilExit()
        #expect(loading.terminationStatus == 4)
        #expect(server.taken().map { $0.fields["if-none-match"] } == [nil])
        _ = try programs.startServer()
        for home in ["/one", "/two"] {
            let result = try programs.shell("HOME=\(home) \(command)")
            #expect(result.status == 0, "\(result)")
        }
        #expect(server.taken().map { $0.fields["if-none-match"] != nil } == [false, true])
        #expect(try rows(in: "store.sqlite") == ["2"])
    }
}
