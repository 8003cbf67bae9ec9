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

    @Test func `a load that a signal ends keeps its pages, and prints the command that goes on`() throws {
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
        (#"</b; rel="next""#, list), ("<http://[::1/b>; rel=next", list), ("<http://h:-1/b>; rel=next", list),
        ("</b; rel=next>", list), ("next", list), ("<a>; rel", list),
        ("", #"{"data": \#(list), "next": "/b"}"#), ("", #"{"has_more": true, "data": \#(list)}"#),
        ("", #"{"data": \#(list), "meta": {"total_pages": 2}}"#), ("", #"{"total": 3, "data": \#(list)}"#),
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
        let remedy = "give --next PATH, where the URL or cursor of the next page is, or --last-page if no page follows"
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

/// `broker load` against a hostile HTTP server.
@Suite(.timeLimit(.minutes(5))) struct LoadLimitTests {
    private let programs: Programs
    private static let store = [
        "load", "--store", "s.sqlite", "--model", "model.json", "--entity", "Employee", "--retries", "0",
    ]

    init() throws { programs = try Programs() }

    private func load(_ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", Self.store + arguments)
    }

    /// Endless, packed by gzip: nothing but blanks in many times fewer bytes.
    private static let endlessBlanks = packed(Data(repeating: 0x20, count: 4 << 20))

    private static func packed(_ bytes: Data) -> [UInt8] {
        let (process, input, output) = (Process(), Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/bin/gzip")
        process.standardInput = input
        process.standardOutput = output
        try? process.run()
        DispatchQueue.global().async {
            try? input.fileHandleForWriting.write(contentsOf: bytes)
            try? input.fileHandleForWriting.close()
        }
        return Array(output.fileHandleForReading.readDataToEndOfFile())
    }

    private static let blanks = [UInt8](repeating: 0x20, count: 64 << 10)

    @Test(arguments: ["", "Content-Encoding: gzip", "Content-Type: application/gzip"])
    func `an endless body ends at --max-bytes, packed or not`(field: String) throws {
        let isFile = field.hasPrefix("Content-Type")
        let isEncoded = field.hasPrefix("Content-Encoding")
        let rest = isFile ? Self.endlessBlanks : isEncoded ? Self.storedBlanks : Self.blanks
        let sent = Mutex(0)
        let server = try PageServer(rest: { _ in
            let count = sent.withLock { sent in
                sent += 1
                return sent
            }
            if isEncoded, count == 1 { return Self.gzipHeader }
            // A gzip file of several members, which is whole.
            return isFile && count > 8 ? [] : rest
        }) { _ in
            (["HTTP/1.1 200 X", "Connection: close"] + (field.isEmpty ? [] : [field]) + ["", ""]).joined(
                separator: "\r\n")
        }
        defer { server.stop() }
        let result = try load(["--max-bytes", "8MiB", server.url("/a")])
        #expect(result.status == 1 && result.complaints.contains("--max-bytes allows more"), "\(result)")
        // Beside those that the sockets hold.
        #expect(sent.withLock { $0 } < 1_024, "64 MiB")
    }

    /// The beginning of a gzip member, and a stored block (RFC 1951, section 3.2.4) of blanks.
    private static let gzipHeader: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3]
    private static let storedBlanks = [0, 0xFF, 0xFF, 0, 0] + [UInt8](repeating: 0x20, count: 0xFFFF)

    @Test func `packed bytes count, also when they are nothing unpacked`() throws {
        // Empty stored blocks after the header of a gzip member.
        let blocks = [UInt8](repeating: 0, count: 13_000).indices.map { [0, 0, 0, 0xFF, 0xFF][$0 % 5] as UInt8 }
        let hasBegun = Mutex(false)
        let server = try PageServer(rest: { _ in
            hasBegun.withLock { hasBegun in
                defer { hasBegun = true }
                return hasBegun ? blocks : Self.gzipHeader
            }
        }) { _ in "HTTP/1.1 200 X\r\nConnection: close\r\nContent-Encoding: gzip\r\n\r\n" }
        defer { server.stop() }
        let result = try load(["--max-bytes", "1MiB", server.url("/a")])
        #expect(result.status == 1 && result.complaints.contains("has more than 1048576 bytes"), "\(result)")
    }

    @Test(arguments: [
        "9223372036854775807", "9223372036854775808", "99999999999999999999999999", "-1", "x", "4294967296",
    ])
    func `an absurd Content-Length is an error`(length: String) throws {
        let server = try PageServer { _ in PageServer.response(200, ["Content-Length: \(length)"], "[") }
        defer { server.stop() }
        let result = try load([server.url("/a")])
        #expect(result.status == 1 && result.complaints.contains(server.url("/a")), "\(result)")
    }

    @Test func `a page that comes byte by byte ends by --timeout, and one that stops by --request-timeout`() throws {
        let connection = DispatchSemaphore(value: 0)
        let server = try PageServer(rest: { request in
            // As slow as it can be for --request-timeout: the client's end is waited for, and does not come here.
            _ = connection.wait(timeout: .now() + (request.target == "/slow" ? 0.05 : 60))
            return [0x20]
        }) { _ in "HTTP/1.1 200 X\r\nConnection: close\r\n\r\n[" }
        defer { server.stop() }
        let start = ContinuousClock.now
        let slow = try load(["--timeout", "1s", server.url("/slow")])
        #expect(slow.status == 1 && slow.complaints.contains("--timeout"), "\(slow)")
        let stopped = try load(["--request-timeout", "1s", server.url("/stopped")])
        #expect(stopped.status == 1 && stopped.complaints.contains("--request-timeout"), "\(stopped)")
        #expect(start.duration(to: .now) < .seconds(50))
        connection.signal()
    }

    @Test func `endless header fields end, and an endless body of an error is not read`() throws {
        let server = try PageServer(rest: { request in
            request.target == "/fields" ? Array("A: \(String(repeating: "a", count: 1_000))\r\n".utf8) : Self.blanks
        }) { request in
            "HTTP/1.1 \(request.target == "/fields" ? "200 X" : "404 X\r\nConnection: close\r\n")\r\n"
        }
        defer { server.stop() }
        let fields = try load([server.url("/fields")])
        #expect(fields.status == 1 && fields.complaints.contains("header"), "\(fields)")
        let error = try load([server.url("/error")])
        #expect(error.status == 1 && error.complaints.contains("was answered with status 404"), "\(error)")
    }
}

/// An HTTP server with scripted answers, on a port of this machine. One connection at a time, one request on each.
final class PageServer: Sendable {
    struct Request {
        /// With the query.
        let target: String
        /// By name, in lower case.
        let fields: [String: String]
    }

    private let descriptor: Int32
    let port: UInt16
    private let requests = Mutex<[Request]>([])
    private let answer: @Sendable (Request) -> String
    private let rest: @Sendable (Request) -> [UInt8]

    /// - Parameters:
    ///   - answer: the bytes of the response to a request.
    ///   - rest: more bytes of it, requested again and again until there are none, or the client closes the connection.
    init(
        rest: @escaping @Sendable (Request) -> [UInt8] = { _ in [] }, _ answer: @escaping @Sendable (Request) -> String
    ) throws {
        self.answer = answer
        self.rest = rest
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (socket, length) = (descriptor, size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, length) == 0 && listen(socket, 16) == 0 && getsockname(socket, $0, &size) == 0
            }
        }
        guard isBound else { throw Programs.Failure(what: "no port can be had") }
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [self] in
            while true {
                let connection = accept(socket, nil, nil)
                guard connection >= 0 else { return }
                serve(connection)
                close(connection)
            }
        }
    }

    /// Ends the thread, which holds the server.
    func stop() {
        shutdown(descriptor, Int32(SHUT_RDWR))
        close(descriptor)
    }

    func url(_ target: String, host: String = "127.0.0.1") -> String { "http://\(host):\(port)\(target)" }

    /// The requests since the last call.
    func taken() -> [Request] {
        requests.withLock { requests in
            defer { requests = [] }
            return requests
        }
    }

    static func response(_ status: Int = 200, _ fields: [String] = [], _ body: String = "") -> String {
        let length = fields.contains { $0.hasPrefix("Content-Length") } ? [] : ["Content-Length: \(body.utf8.count)"]
        return (["HTTP/1.1 \(status) X", "Connection: close"] + fields + length + ["", body]).joined(separator: "\r\n")
    }

    private func serve(_ connection: Int32) {
        var text = ""
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while !text.contains("\r\n\r\n") {
            let count = recv(connection, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            text += String(decoding: buffer.prefix(count), as: UTF8.self)
        }
        let lines = text.components(separatedBy: "\r\n")
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { continue }
            fields[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        let words = lines[0].split(separator: " ")
        guard words.count == 3 else { return }
        let request = Request(target: String(words[1]), fields: fields)
        requests.withLock { $0.append(request) }
        var bytes = Array(answer(request).utf8)
        while !bytes.isEmpty, send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL)) > 0 { bytes = rest(request) }
    }
}

/// Pages with an `ETag` each, which a test changes: `/1` names `/2` as the next one, if that is there.
final class VersionedPages: Sendable {
    let bodies = Mutex<[String: String]>([:])

    @Sendable func answer(_ request: PageServer.Request) -> String {
        let (body, hasNext) = bodies.withLock { ($0[request.target], request.target == "/1" && $0["/2"] != nil) }
        guard let body else { return PageServer.response(404) }
        let etag = "\"\(body.hashValue)\""
        let fields =
            ["ETag: \(etag)", "Content-Type: application/json"] + (hasNext ? [#"Link: </2>; rel="next""#] : [])
        if request.fields["if-none-match"] == etag { return PageServer.response(304, fields) }
        return PageServer.response(200, fields, body)
    }

    func put(_ body: String, at target: String) { bodies.withLock { $0[target] = body } }
}

/// A server that was made before there were `migrate` and bookmarks: it welcomes clients, completes every job, and refuses
/// every action.
final class OldServer: Sendable {
    private let asked = Mutex<[String]>([])
    private let jobs = Mutex<[String?]>([])

    /// The actions that were asked for, and their `dryRun`.
    var actions: [String] { asked.withLock { $0 } }

    /// The bookmarks of the jobs; nil for a job without one.
    var bookmarks: [String?] { jobs.withLock { $0 } }

    /// Listens until the process ends.
    init(_ path: String) throws {
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard bound == 0, listen(listener, 8) == 0 else { throw Programs.Failure(what: "cannot listen on \(path)") }
        Thread { [self] in
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else { return }
                // A client that ends is the end of its connection.
                try? serve(RawClient(descriptor: descriptor))
            }
        }.start()
    }

    private func serve(_ client: RawClient) throws {
        while let message = try client.receive() {
            let tag = message["tag"].map { ",\"tag\":\($0)" } ?? ""
            if let id = message["id"] {
                jobs.withLock { $0.append(message["bookmark"]) }
                try client.send(#"{"type":"completed","id":"\#(id)","sequence":1\#(tag)}"#)
                continue
            }
            guard message.type == "admin" else {
                try client.send(
                    #"{"type":"welcome","version":1,"server":"broker 0.0","journal":false,"role":"write","features":[],"limits":{"#
                        + #""maximumFrameBytes":16777215,"maximumContentBytes":268435456,"maximumDepth":512,"maximumIdBytes":128,"#
                        + #""maximumTagBytes":1024,"jobMemory":134217728,"jobsInFlight":1024,"outcomesKept":1000,"#
                        + #""outcomesKeptSeconds":604800,"outcomesForgottenThrough":0},"entities":[]\#(tag)}"#)
                continue
            }
            asked.withLock { $0.append("\(message["action"] ?? "") \(message["dryRun"] ?? "")") }
            try client.send(
                #"{"type":"error","error":{"code":"unsupportedMessage","message":"There is no action.","path":"/action"},"#
                    + #""frame":2\#(tag)}"#)
        }
    }
}
