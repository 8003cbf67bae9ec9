import Foundation
import Synchronization
import Testing

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
