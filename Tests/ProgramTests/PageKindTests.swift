import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

/// `broker load` of APIs that say in different ways what the next page is: each has five records on three pages.
@Suite(.timeLimit(.minutes(5))) struct PageKindTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func load(_ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", ["load", "--store", "s.sqlite", "Employee"] + arguments)
    }

    private func ids() throws -> String {
        try Database(programs.path("s.sqlite")).rows("SELECT id FROM Employee ORDER BY id").joined(separator: " ")
    }

    enum Kind: String, CaseIterable {
        case next, links, pages, offset, cursor, last, field, range
    }

    /// The answer to a request, by its parameter.
    @Sendable private static func answer(_ kind: Kind, _ request: PageServer.Request) -> String {
        let items = URLComponents(string: request.target)?.queryItems ?? []
        func value(_ name: String) -> String? { items.first { $0.name == name }?.value }
        let first =
            switch kind {
            case .next, .pages, .field: 2 * ((value("page").flatMap { Int($0) } ?? 1) - 1)
            case .links, .offset, .range: value("offset").flatMap { Int($0) } ?? 0
            case .cursor: value("cursor").flatMap { Int($0.dropFirst()) } ?? 0
            case .last: value("starting_after").flatMap { Int($0) } ?? 0
            }
        let ids = (first + 1..<first + 3).filter { $0 <= 5 }
        let list = "[\(ids.map { #"{"id": \#($0), "name": "n\#($0)"}"# }.joined(separator: ", "))]"
        let isLast = first + 2 >= 5
        var fields: [String] = []
        let page = first / 2 + 1
        let body =
            switch kind {
            case .next: #"{"count": 5, "next": \#(isLast ? "null" : #""/x?page=\#(page + 1)""#), "results": \#(list)}"#
            case .links: #"{"links": {"next": \#(isLast ? "null" : #""/x?offset=\#(first + 2)""#)}, "data": \#(list)}"#
            case .pages: #"{"page": \#(page), "total_pages": 3, "data": \#(list)}"#
            case .offset: #"{"offset": \#(first), "limit": 2, "total": 5, "items": \#(list)}"#
            case .cursor:
                #"{"has_more": \#(!isLast), "next_cursor": \#(isLast ? "null" : "\"c\(first + 2)\""), "data": \#(list)}"#
            case .last: #"{"object": "list", "has_more": \#(!isLast), "data": \#(list)}"#
            case .field, .range: list
            }
        if kind == .field { fields = ["X-Next-Page: \(isLast ? "" : "\(page + 1)")"] }
        // PostgREST with `Prefer: count=exact`.
        if kind == .range { fields = ["Content-Range: \(first)-\(first + ids.count - 1)/5"] }
        let etag = "ETag: \"\(kind.rawValue)-\(first)\""
        if request.fields["if-none-match"] == String(etag.dropFirst("ETag: ".count)) { return PageServer.response(304) }
        return PageServer.response(kind == .range && !isLast ? 206 : 200, fields + [etag], body)
    }

    @Test func `a part of a file's bytes is no page`() throws {
        let server = try PageServer { _ in PageServer.response(206, ["Content-Range: bytes 0-1/9"], "[]") }
        defer { server.stop() }
        let result = try load([server.url("/x")])
        #expect(result.status == 1 && result.complaints.contains("status 206"), "\(result)")
    }

    @Test(arguments: Kind.allCases, [[], ["--sync"]])
    func `all pages are found without an option, and are asked for by their versions the next time`(
        kind: Kind, options: [String]
    ) throws {
        let server = try PageServer { Self.answer(kind, $0) }
        defer { server.stop() }
        let first = try load(options + [server.url("/x")])
        #expect(first.status == 0 && first.output.contains("3 pages read, 0 of them unchanged"), "\(first)")
        #expect(try ids() == "1 2 3 4 5")
        #expect(server.taken().count == 3)
        // A model that was inferred does not make every page another one.
        let second = try load(options + [server.url("/x")])
        #expect(second.status == 0 && second.output == "3 pages read, 3 of them unchanged\n", "\(second)")
        #expect(server.taken().allSatisfy { $0.fields["if-none-match"] != nil })
    }

    @Test(arguments: [
        (#"{"items": [{"id": 1}]}"#, #"{"items": [{"id": 2}]}"#, #"{"items": [{"id": 3}]}"#),
        (
            #"{"101": {"n": 1}, "102": {"n": 1}, "103": {"n": 1}}"#,
            #"{"201": {"n": 1}, "202": {"n": 1}, "203": {"n": 1}}"#,
            #"{"301": {"n": 1}, "202": {"n": 1}, "203": {"n": 1}}"#
        ),
    ])
    func `a page that has changed is read as the first one, which has not, was`(first: String, old: String, new: String)
        throws
    {
        let pages = VersionedPages()
        pages.put(first, at: "/1")
        pages.put(old, at: "/2")
        let server = try PageServer(pages.answer)
        defer { server.stop() }
        let loaded = try load([server.url("/1")])
        #expect(loaded.status == 0, "\(loaded)")
        let rows = try Database(programs.path("s.sqlite")).rows("SELECT count(*) FROM Employee")
        pages.put(new, at: "/2")
        let again = try load([server.url("/1")])
        #expect(again.status == 0 && again.output.contains("2 pages read, 1 of them unchanged"), "\(again)")
        let more = try Database(programs.path("s.sqlite")).rows("SELECT count(*) FROM Employee")
        #expect(more == rows.compactMap { Int($0) }.map { "\($0 + 1)" })
    }

    @Test func `pages are counted by options where an API does not say how`() throws {
        let server = try PageServer { request in
            let items = URLComponents(string: request.target)?.queryItems ?? []
            let number = items.first { $0.name == "p" }?.value.flatMap { Int($0) }
            let skip = items.first { $0.name == "skip" }?.value.flatMap { Int($0) }
            let first = number.map { $0 * 2 } ?? skip ?? 0
            let ids = (first + 1..<first + 3).filter { $0 <= 5 }
            if number == 3, items.contains(where: { $0.name == "strict" }) { return PageServer.response(404) }
            return PageServer.response(200, [], "[\(ids.map { #"{"id": \#($0)}"# }.joined(separator: ","))]")
        }
        defer { server.stop() }
        for (option, target) in [("--page-parameter=p", "/a?p=0"), ("--offset-parameter=skip", "/a")] {
            let result = try load(["--sync", option, server.url(target)])
            #expect(result.status == 0 && result.output.contains("4 pages read"), "\(result)")
            #expect(try ids() == "1 2 3 4 5")
        }
        let without = try load(["--page-parameter", "p", server.url("/a")])
        #expect(without.status == 2 && without.complaints.contains("?p=1 or ?p=0"), "\(without)")
        // What is not found may be the end, or not.
        let strict = ["--page-parameter", "p", server.url("/a?p=0&strict=1")]
        let plain = try load(strict)
        #expect(plain.status == 0 && plain.complaints.contains("status 404. If no page follows"), "\(plain)")
        #expect(try load(strict + ["--sync"]).status == 1)
        #expect(try load(strict + ["--sync", "--last-page"]).status == 0)
        // The parameter is not the one that the server reads.
        let wrong = try load(["--offset-parameter", "start", server.url("/a")])
        #expect(wrong.status == 1 && wrong.complaints.contains("does not go on by start"), "\(wrong)")
        #expect(try ids() == "1 2 3 4 5")
    }

    @Test(arguments: [[], ["--sync"]])
    func `a page that is as long as its request allows may not be the last one, unless that is said`(options: [String])
        throws
    {
        let body = Mutex(#"[{"id": 1}, {"id": 2}]"#)
        let server = try PageServer { _ in PageServer.response(200, [], body.withLock { $0 }) }
        defer { server.stop() }
        let url = server.url("/a?per_page=2")
        let full = try load(options + [url])
        #expect(full.status == (options.isEmpty ? 0 : 1), "\(full)")
        #expect(full.complaints.contains("it has as many records as per_page allows"), "\(full)")
        for arguments in [["--last-page", url], [server.url("/a?per_page=3")]] {
            let whole = try load(options + arguments)
            #expect(whole.status == 0 && !whole.complaints.contains("may not be the last"), "\(whole)")
        }
        for end in [#""next": null"#, #""total": 2"#, #""has_more": false"#] {
            body.withLock { $0 = #"{"data": [{"id": 1}, {"id": 2}], \#(end)}"# }
            let whole = try load(options + [url])
            #expect(whole.status == 0 && !whole.complaints.contains("may not be the last"), "\(whole)")
        }
    }

    @Test func `a first page without records, and one without content, is no end`() throws {
        let server = try PageServer { request in
            switch request.target {
            case "/a": PageServer.response(200, [], #"{"next": "/b", "results": []}"#)
            case "/b": PageServer.response(204, ["Link: </c>; rel=next"])
            case "/c": PageServer.response(200, [], #"{"next": null, "results": [{"id": 7}]}"#)
            default: PageServer.response(204)
            }
        }
        defer { server.stop() }
        let result = try load([server.url("/a")])
        #expect(result.status == 0 && result.output.contains("3 pages read"), "\(result)")
        #expect(try ids() == "7")
        #expect(server.taken().map(\.target) == ["/a", "/b", "/c"])
        let none = try load([server.url("/none")])
        #expect(none.status == 1 && none.complaints.contains("--empty allows that"), "\(none)")
        #expect(try load(["--empty", server.url("/none")]).status == 0)
        #expect(try load(["--sync", server.url("/none")]).status == 1)
        #expect(try ids() == "7")
        #expect(try load(["--sync", "--empty", server.url("/none")]).status == 0)
        #expect(try ids() == "")
    }

    @Test func `a search by POST is paged in its body`() throws {
        let server = try PageServer { request in
            guard request.fields["content-type"] == "application/json" else { return PageServer.response(415) }
            return request.body.contains(#""after":"x""#)
                ? PageServer.response(200, [], #"{"results": [{"id": 2}]}"#)
                : PageServer.response(200, [], #"{"results": [{"id": 1}], "paging": {"next": {"after": "x"}}}"#)
        }
        defer { server.stop() }
        let result = try load(["--data", #"{"filter": {"a": 1}}"#, server.url("/search")])
        #expect(result.status == 0 && result.output.contains("2 pages read"), "\(result)")
        #expect(server.taken().map(\.body) == [#"{"filter": {"a": 1}}"#, #"{"filter":{"a": 1},"after":"x"}"#])
        #expect(try ids() == "1 2")
        #expect(try load(["--data", "{", server.url("/search")]).status == 2)
    }

    @Test func `several lists are one load, and their headers are for one host`() throws {
        let server = try PageServer { request in
            PageServer.response(200, [], request.target == "/a" ? #"[{"id": 1}]"# : #"[{"id": 2}]"#)
        }
        defer { server.stop() }
        for options in [[], ["--sync"]] {
            let result = try load(options + [server.url("/a"), server.url("/b")])
            #expect(result.status == 0 && result.output.contains("2 pages read"), "\(result)")
            #expect(try ids() == "1 2")
        }
        _ = server.taken()
        let other = server.url("/b", host: "localhost")
        let secret = try load(["--header", "Authorization: x", server.url("/a"), other])
        #expect(secret.status == 2 && secret.complaints.contains("for one host"), "\(secret)")
        #expect(server.taken().isEmpty)
    }

    @Test func `what is new is asked for from the greatest value of the last whole load`() throws {
        let records = Mutex(#"[{"id": 1, "at": "2024-05-01T10:00:00Z"}, {"id": 2, "at": "2024-05-01T09:00:00Z"}]"#)
        let server = try PageServer { request in
            request.target.contains("fail") && request.target.contains("page=2")
                ? PageServer.response(500) : PageServer.response(200, ["ETag: \"1\""], records.withLock { $0 })
        }
        defer { server.stop() }
        let arguments = ["--since", "since=at", server.url("/a?n=9")]
        #expect(try load(arguments).status == 0)
        records.withLock { $0 = "[]" }
        // Nothing new is no error, and is no new bookmark.
        for _ in 1...2 {
            let nothing = try load(arguments)
            #expect(nothing.status == 0, "\(nothing)")
        }
        records.withLock { $0 = #"[{"id": 3, "at": "2024-06-01T00:00:00.5Z"}]"# }
        #expect(try load(arguments + ["--dry-run"]).status == 0)
        #expect(try load(arguments).status == 0)
        #expect(try load(arguments).status == 0)
        let (may, june) = ("/a?n=9&since=2024-05-01T10%3A00%3A00Z", "/a?n=9&since=2024-06-01T00%3A00%3A00.5Z")
        #expect(server.taken().map(\.target) == ["/a?n=9", may, may, may, may, june])
        #expect(try ids() == "1 2 3")
        #expect(try load(arguments + ["--fresh"]).status == 0)
        #expect(server.taken().map(\.target) == ["/a?n=9"])
        // A load that failed, or whose values have no order, has no greatest value.
        records.withLock { $0 = #"{"page": 1, "pages": 2, "data": [{"id": 4, "at": "2025-01-01T00:00:00Z"}]}"# }
        let failing = ["--retries", "0", "--since", "since=at", server.url("/fail")]
        for _ in 1...2 { #expect(try load(failing).status == 1) }
        #expect(server.taken().map(\.target) == ["/fail", "/fail?page=2", "/fail", "/fail?page=2"])
        records.withLock { $0 = #"[{"id": 5, "at": "2025-01-01T00:00:00Z"}, {"id": 6, "at": "May"}]"# }
        let unclear = try load(["--since", "since=at", server.url("/b")])
        #expect(
            unclear.status == 1 && unclear.complaints.contains("cannot tell which at is the greatest"), "\(unclear)")
        #expect(try load(["--sync"] + arguments).status == 2)
    }

    @Test func `a limit of the rate is waited for, and a 403 without one is refused`() throws {
        let count = Mutex(0)
        let server = try PageServer { request in
            let number = count.withLock { count in
                count += 1
                return count
            }
            if request.target == "/secret" { return PageServer.response(403) }
            return switch number {
            case 1: PageServer.response(403, ["Retry-After: 0"])
            case 2: PageServer.response(429, ["X-RateLimit-Reset: 1700000000"])
            case 3: PageServer.response(403, ["X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1700000000"])
            default: PageServer.response(200, [], #"[{"id": 1}]"#)
            }
        }
        defer { server.stop() }
        let result = try load([server.url("/a")])
        #expect(result.status == 0 && server.taken().count == 4, "\(result)")
        let refused = try load([server.url("/secret")])
        #expect(refused.status == 1 && refused.complaints.contains("--header gives a token"), "\(refused)")
        #expect(server.taken().count == 1)
    }

    @Test func `a dry run tries the pages, and changes nothing`() throws {
        let server = try PageServer { Self.answer(.next, $0) }
        defer { server.stop() }
        let tried = try load(["--dry-run", server.url("/x")])
        #expect(tried.status == 0 && tried.output.contains("nothing was written"), "\(tried)")
        #expect(!FileManager.default.fileExists(atPath: programs.path("s.sqlite")))
        #expect(try load([server.url("/x")]).status == 0)
        let one = try PageServer { _ in
            PageServer.response(200, [], #"[{"id": 2, "name": "n2"}, {"id": 9, "name": "n9"}]"#)
        }
        defer { one.stop() }
        let sync = try load(["--dry-run", "--sync", one.url("/x")])
        #expect(sync.status == 0 && sync.output.contains("Employee deleted: 1, 3, 4, 5"), "\(sync)")
        #expect(try ids() == "1 2 3 4 5")
        #expect(try load(["--sync", one.url("/x")]).status == 0)
        #expect(try ids() == "2 9")
    }
}
