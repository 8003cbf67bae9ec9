import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

/// `broker load` against a server that these tests start.
@Suite(.timeLimit(.minutes(5))) struct PageLoadTests {
    private let programs: Programs
    private static let store = ["--store", "s.sqlite", "--model", "model.json", "--entity", "Employee"]

    init() throws { programs = try Programs() }

    private func load(_ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", ["load"] + arguments)
    }

    private func ids() throws -> [String] {
        try Database(programs.path("s.sqlite")).rows("SELECT id FROM Employee ORDER BY id")
    }

    @Test func `pages that have not changed are not sent again, and a sync deletes what no page names`() throws {
        let pages = VersionedPages()
        pages.bodies.withLock { $0 = ["/1": #"[{"id": 1}, {"id": 2}]"#, "/2": #"[{"id": 3}]"#] }
        let server = try PageServer(pages.answer)
        defer { server.stop() }
        let arguments = Self.store + [server.url("/1")]
        for options in [[], ["--sync"]] {
            let first = try load(arguments + options)
            #expect(first.status == 0 && first.output.contains("3 records in "), "\(first)")
            #expect(first.output.contains("2 pages read, 0 of them unchanged"), "\(first)")
            #expect(server.taken().map { $0.fields["if-none-match"] } == [nil, nil])
            let second = try load(arguments + options)
            #expect(second.status == 0 && second.output == "2 pages read, 2 of them unchanged\n", "\(second)")
            #expect(server.taken().allSatisfy { $0.fields["if-none-match"] != nil })
        }
        pages.bodies.withLock { $0["/2"] = #"[{"id": 4}]"# }
        let added = try load(arguments)
        #expect(added.status == 0 && added.output.contains("2 pages read, 1 of them unchanged"), "\(added)")
        #expect(try ids() == ["1", "2", "3", "4"])
        let synced = try load(arguments + ["--sync"])
        #expect(synced.status == 0 && synced.output.contains("3 records in "), "\(synced)")
        #expect(try ids() == ["1", "2", "4"])
        // The first page has not changed, and its objects are named again all the same.
        pages.bodies.withLock { $0["/2"] = #"[{"id": 5}]"# }
        let again = try load(arguments + ["--sync"])
        #expect(again.status == 0 && again.output.contains("3 records in "), "\(again)")
        #expect(try ids() == ["1", "2", "5"])
        // Another store gets all pages.
        try FileManager.default.removeItem(atPath: programs.path("s.sqlite"))
        let anew = try load(arguments + ["--sync"])
        #expect(anew.status == 0 && anew.output.contains("3 records in "), "\(anew)")
    }

    @Test func `a refusal for a time is waited for, and a body that ends early commits nothing of its page`() throws {
        let attempts = Mutex(0)
        let server = try PageServer { request in
            switch request.target {
            case "/a":
                let attempt = attempts.withLock { attempts in
                    attempts += 1
                    return attempts
                }
                return attempt < 3
                    ? PageServer.response(attempt == 1 ? 429 : 503, ["Retry-After: 0"])
                    : PageServer.response(200, [], #"{"next": "/b", "staff": [{"id": 1}]}"#)
            default: return PageServer.response(200, ["Content-Length: 90"], #"{"next": null, "staff": [{"id": 2}]}"#)
            }
        }
        defer { server.stop() }
        let result = try load(
            Self.store + [
                "--next", "next", "--root", "staff", "--retries", "2", "--max-wait", "10ms", server.url("/a"),
            ])
        #expect(result.status == 1 && result.complaints.contains("/b could not be read after 36 bytes"), "\(result)")
        #expect(result.complaints.contains("status 429. Trying again"), "\(result)")
        #expect(server.taken().map(\.target) == ["/a", "/a", "/a", "/b", "/b", "/b"])
        #expect(try ids() == ["1"])
    }

    // With a store, its bookmarks are read before the first page is requested.
    @Test(arguments: [false, true])
    func `a load that a signal ends keeps its pages, and prints the command that goes on`(hasStore: Bool) throws {
        if hasStore {
            #expect(try programs.run("broker", ["submit", "--empty"] + Self.store, input: "[]").status == 0)
        }
        let (isAsked, mayAnswer) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let server = try PageServer { request in
            guard request.target == "/2" else {
                return PageServer.response(200, [#"Link: </2>; rel="next""#, "ETag: \"1\""], #"[{"id": 1}]"#)
            }
            isAsked.signal()
            mayAnswer.wait()
            return PageServer.response(200, [], #"[{"id": 2}]"#)
        }
        defer { server.stop() }
        let load = try RunningSubmission(
            programs, command: "load", [server.url("/1")], to: ["--store", "s.sqlite", "--model", "model.json"])
        try #require(isAsked.wait(timeout: .now() + .seconds(Patience.seconds)) == .success)
        kill(load.process.processIdentifier, SIGINT)
        load.process.waitUntilExit()
        #expect(load.process.terminationStatus == 130)
        let words = try load.complaints().components(separatedBy: "broker: interrupted; to go on, run: ")
        try #require(words.count == 2 && words[0].isEmpty, "\(words)")
        #expect(words[1].hasSuffix(" load --store s.sqlite --model model.json --entity Employee \(server.url("/1"))\n"))
        #expect(try ids() == ["1"])
        for _ in 0..<2 { mayAnswer.signal() }
        #expect(try programs.shell(words[1]).status == 0)
        #expect(try ids() == ["1", "2"])
    }

    @Test func `a secret stays with its host, and redirections and loops lead nowhere else`() throws {
        let other = try PageServer { _ in PageServer.response(200, [], #"[{"id": 7}]"#) }
        defer { other.stop() }
        let away = other.url("/x")
        let server = try PageServer { request in
            switch request.target {
            case "/away": PageServer.response(302, ["Location: \(away)"])
            case "/round": PageServer.response(307, ["Location: /round"])
            case "/file": PageServer.response(302, ["Location: file:///etc/hostname"])
            case "/loop": PageServer.response(200, [#"Link: </loop>; rel="next""#], #"[{"id": 8}]"#)
            default: PageServer.response(200, ["Content-Type: text/html"], "<p>Sign in</p>")
            }
        }
        defer { server.stop() }
        try programs.write("Authorization: Bearer secret\n", to: "token")
        let options = Self.store + ["--retries", "0", "--header", "@\(programs.path("token"))"]
        #expect(try load(options + [server.url("/away")]).status == 0)
        #expect(server.taken().map { $0.fields["authorization"] } == ["Bearer secret"])
        #expect(other.taken().map { $0.fields["authorization"] } == [nil])
        for (target, reason) in [
            ("/file", "redirects to file:///etc/hostname, which is not followed"),
            ("/loop", "which was read before"), ("/in", "is a page of HTML"),
        ] {
            let result = try load(options + [server.url(target)])
            #expect(result.status == 1 && result.complaints.contains(reason), "\(result)")
        }
        _ = server.taken()
        #expect(try load(options + [server.url("/round")]).status == 1)
        #expect(server.taken().count == 21)
        let large = try load(options + ["--max-bytes", "5", server.url("/loop")])
        #expect(large.status == 1 && large.complaints.contains("more than 5 bytes"), "\(large)")
    }
}

/// A chain of pages whose end is not certain, or which has become shorter.
@Suite(.timeLimit(.minutes(5))) struct LoadChainTests {
    private let programs: Programs
    private static let store = ["--store", "s.sqlite", "--model", "model.json", "--entity", "Employee"]

    init() throws {
        programs = try Programs()
        // Objects that only unread pages name.
        let kept = try programs.shell(
            "echo '[{\"id\": 8}, {\"id\": 9}]' | '\(programs.executable("broker").path)' submit --store s.sqlite --model "
                + "model.json --entity Employee")
        try #require(kept.status == 0, "\(kept)")
    }

    private func load(_ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", ["load"] + Self.store + arguments)
    }

    private func ids() throws -> String {
        try Database(programs.path("s.sqlite")).rows("SELECT id FROM Employee ORDER BY id").joined(separator: " ")
    }

    private static let list = #"[{"id": 1}, {"id": 2}]"#

    @Test(arguments: [
        (#"</b; rel="next""#, list), ("<a>; rel", list), ("", #"{"data": \#(list), "next": "b"}"#),
        ("", #"{"total": 3, "data": \#(list)}"#),
    ])
    func `a page that may not be the last one deletes nothing, and a plain load of it warns`(link: String, body: String)
        throws
    {
        let server = try PageServer { request in
            if request.fields["if-none-match"] != nil { return PageServer.response(304) }
            return PageServer.response(200, ["ETag: \"1\""] + (link.isEmpty ? [] : ["Link: \(link)"]), body)
        }
        defer { server.stop() }
        let root = body == Self.list ? [] : ["--root", "data"]
        let arguments = root + [server.url("/a")]
        let words = "/a may not be the last page: "
        let remedy = "Say how: --next PATH, --cursor NAME=PATH, "
        // It is read, and reported, each time.
        for _ in 1...2 {
            let plain = try load(arguments)
            #expect(plain.status == 0 && plain.complaints.contains(words), "\(plain)")
            #expect(plain.complaints.contains(remedy), "\(plain)")
            let synced = try load(arguments + ["--sync"])
            #expect(synced.status == 1 && synced.complaints.contains(words), "\(synced)")
            #expect(synced.complaints.contains(remedy), "\(synced)")
            #expect(synced.complaints.contains("nothing was deleted"), "\(synced)")
        }
        #expect(try ids() == "1 2 8 9")
        #expect(server.taken().allSatisfy { $0.fields["if-none-match"] == nil })
        let last = try load(arguments + ["--sync", "--last-page"])
        #expect(last.status == 0 && !last.complaints.contains(words), "\(last)")
        #expect(try ids() == "1 2")
        let unchanged = try load(arguments + ["--sync", "--last-page"])
        #expect(unchanged.output == "1 page read, 1 of them unchanged\n", "\(unchanged)")
        #expect(try load(arguments + ["--sync"]).status == 1)
    }

    @Test func `a chain is whole when its totals came, also where --next or Link leads from page to page`() throws {
        let pages = [
            "/a": #"{"data": [{"id": 1}], "total": 2, "pages": 2, "next": "/b"}"#,
            "/b": #"{"data": [{"id": 2}], "total": 2, "pages": 2, "next": null}"#,
        ]
        let server = try PageServer { request in
            PageServer.response(200, ["X-Total-Count: 2"], pages[request.target] ?? "")
        }
        defer { server.stop() }
        let alone = try load(["--root", "data", "--sync", server.url("/b")])
        #expect(alone.status == 1 && alone.complaints.contains("is 2, and 1 "), "\(alone)")
        let whole = try load(["--root", "data", "--sync", "--next", "next", server.url("/a")])
        #expect(whole.status == 0 && whole.complaints.isEmpty, "\(whole)")
        #expect(try ids() == "1 2")
    }

    @Test func `a page of which --next finds none although its Link names one deletes nothing`() throws {
        let server = try PageServer { _ in
            PageServer.response(200, [#"Link: </b>; rel="next""#], #"{"data": [{"id": 1}]}"#)
        }
        defer { server.stop() }
        let result = try load(["--root", "data", "--sync", "--next", "nxt", server.url("/a")])
        #expect(result.status == 1 && result.complaints.contains("its Link header names"), "\(result)")
        #expect(try ids() == "1 8 9")
    }

    @Test(arguments: ["HTTP/1.1 200 X\r\nLin", "HTTP/1.1 200 X\r\nLink: </b>; rel=next\r\n", "HTTP/1.1 200 X"])
    func `a response that ends among its header fields is not an empty page`(response: String) throws {
        let server = try PageServer { _ in response }
        defer { server.stop() }
        let result = try load(["--sync", "--empty", "--retries", "0", server.url("/a")])
        #expect(result.status == 1 && result.complaints.contains("could not be read"), "\(result)")
        #expect(try ids() == "8 9")
    }

    @Test func `status 304 for a request without a condition is an error`() throws {
        let server = try PageServer { _ in PageServer.response(304, ["ETag: \"1\""]) }
        defer { server.stop() }
        for options in [[], ["--sync"], ["--sync", "--last-page", "--empty"]] {
            let result = try load(options + [server.url("/a")])
            #expect(result.status == 1 && result.complaints.contains("status 304"), "\(result)")
        }
        #expect(try ids() == "8 9")
    }

    @Test(arguments: [404, 410, 400], [[], ["--sync"]])
    func `a list that has become shorter is read again from its beginning, once`(status: Int, options: [String]) throws
    {
        let isShort = Mutex(false)
        let server = try PageServer { request in
            guard request.target == "/1" else {
                return isShort.withLock { $0 }
                    ? PageServer.response(status) : PageServer.response(200, [], "[{\"id\": 2}]")
            }
            if request.fields["if-none-match"] != nil { return PageServer.response(304) }
            let link = isShort.withLock { $0 } ? [] : [#"Link: </2>; rel="next""#]
            return PageServer.response(200, ["ETag: \"1\""] + link, "[{\"id\": 1}]")
        }
        defer { server.stop() }
        // The second page has no version, so that it is requested without a condition.
        #expect(try load(options + [server.url("/1")]).status == 0)
        isShort.withLock { $0 = true }
        _ = server.taken()
        let result = try load(options + [server.url("/1")])
        #expect(result.status == 0 && result.output.contains("1 page read, 0 of them unchanged"), "\(result)")
        #expect(server.taken().map(\.target) == (options.isEmpty ? ["/1", "/2", "/1"] : ["/1", "/1"]))
        #expect(try ids() == (options.isEmpty ? "1 2 8 9" : "1"))
    }

    @Test func `a list whose stored pages are gone is synchronized with what is left`() throws {
        let pages = VersionedPages()
        pages.bodies.withLock { $0 = ["/1": #"[{"id": 1}]"#, "/2": #"[{"id": 2}]"#] }
        // An answer without a body names no page.
        let server = try PageServer { request in
            let response = pages.answer(request)
            return response.hasPrefix("HTTP/1.1 304") ? PageServer.response(304) : response
        }
        defer { server.stop() }
        let arguments = ["--sync", server.url("/1")]
        #expect(try load(arguments).status == 0)
        pages.bodies.withLock { $0["/2"] = nil }
        _ = server.taken()
        let shorter = try load(arguments)
        #expect(shorter.status == 0, "\(shorter)")
        #expect(try ids() == "1")
        #expect(
            server.taken().map { "\($0.target) \($0.fields["if-none-match"] != nil)" } == [
                "/1 true", "/2 true", "/1 false",
            ])
    }

    @Test(arguments: ["Link: </b; rel=next", "X-Next-Page: 2"])
    func `a page that has not changed, and may not be the last one any more, deletes nothing`(field: String) throws {
        let server = try PageServer { request in
            request.fields["if-none-match"] != nil
                ? PageServer.response(304, [field]) : PageServer.response(200, ["ETag: \"1\""], Self.list)
        }
        defer { server.stop() }
        let words = "/a may not be the last page: "
        #expect(try load([server.url("/a")]).status == 0)
        let plain = try load([server.url("/a")])
        #expect(plain.status == 0 && plain.complaints.contains(words), "\(plain)")
        #expect(try load(["--sync", "--fresh", server.url("/a")]).status == 0)
        let synced = try load(["--sync", server.url("/a")])
        #expect(synced.status == 1 && synced.complaints.contains(words), "\(synced)")
        #expect(try ids() == "1 2")
    }

    @Test(arguments: [[], ["--sync"]])
    func `a page that the list still names is an error when it is refused`(options: [String]) throws {
        let isGone = Mutex(true)
        let count = Mutex(0)
        let server = try PageServer { request in
            let isFirst = request.target == "/1"
            let number = count.withLock { count in
                count += 1
                return count
            }
            // A load that went on and on would end, too.
            guard number <= 20 else { return PageServer.response(200, [], "[]") }
            if isFirst, request.fields["if-none-match"] != nil { return PageServer.response(304) }
            if isFirst { return PageServer.response(200, ["ETag: \"1\"", "Link: </2>; rel=next"], "[{\"id\": 1}]") }
            return isGone.withLock { $0 } ? PageServer.response(404) : PageServer.response(200, [], "[{\"id\": 2}]")
        }
        defer { server.stop() }
        let arguments = options + [server.url("/1")]
        func isRefused() throws -> Bool {
            let result = try load(arguments)
            return result.status == 1 && result.complaints.contains("status 404")
        }
        #expect(try isRefused())
        #expect(server.taken().map(\.target) == ["/1", "/2"])
        #expect(try ids() == "1 8 9")
        isGone.withLock { $0 = false }
        #expect(try load(arguments).status == 0)
        isGone.withLock { $0 = true }
        let known = try ids()
        _ = server.taken()
        // The stored list, and then the list itself, once.
        #expect(try isRefused())
        #expect(server.taken().map(\.target) == (options.isEmpty ? ["/1", "/2", "/1", "/2"] : ["/1", "/1", "/2"]))
        #expect(try ids() == known)
    }
}

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
