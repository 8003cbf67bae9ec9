import BrokerInput
import BrokerJSON
import Foundation
import Testing

@testable import BrokerPages

/// The rules of a polite client, without a server.
@Suite(.timeLimit(.minutes(5))) struct PageRuleTests {
    @Test(arguments: [
        (#"<https://a/2>; rel="next""#, "https://a/2"),
        (#"<https://a/9>; rel="last", <https://a/2?a=1,2>; title="a, b; c\"d"; rel=next"#, "https://a/2?a=1,2"),
        (#"</2> ; REL = "prev Next""#, "https://h/2"), (#"<a>;rel=prev;rel=next,<b>;rel=next"#, "https://h/b"),
        ("", nil), (#"<a>; rel="prev""#, nil), ("<a>", nil), (#"<a>; rel="nextish", <b>; title="rel=next""#, nil),
        (",, <a>;;rel=next", "https://h/a"), ("<a>,<b>;rel=next;", "https://h/b"),
        ("<a>; rel='next'", "https://h/a"), ("<a>; rel='prev'; title='a, b', <b>; rel='next'", "https://h/b"),
        (#"<a;rel=next>; rel="next""#, "https://h/a;rel=next"),
        (#"<a>; rel="prev" <b>; rel="next""#, "https://h/b"), ("<a?q=b c>; rel=next", "https://h/a?q=b%20c"),
    ])
    func `the next page is the target of the link with that relation`(field: String, target: String?) throws {
        let link = LinkHeader(field, of: try #require(URL(string: "https://h/p")))
        #expect(link == target.flatMap { URL(string: $0) }.map { .next($0) } ?? .none)
    }

    @Test(arguments: [
        "next", "<a", #"</b; rel="next""#, #"</b; rel="next", </c>; rel="last""#, #"<a>; rel="next"#, "<a>; rel",
        "<a>; rel=", #"<a>; title="; rel="next""#, "<http://[::1/b>; rel=next",
        "<http://h:-1/b>; rel=next", "<file:///etc/passwd>; rel=next", "<a>; rel='next", "</b; rel=next>",
        #"<a>; rel="next\"#, "<a>; =next", #"next="a", <b>; rel="next""#, "<http:///b>; rel=next",
    ])
    func `a Link field of another form is never one without a next page`(field: String) throws {
        #expect(LinkHeader(field, of: try #require(URL(string: "https://h/p"))) == .unreadable(field))
    }

    private func page(_ body: String) throws -> JSONDocument {
        let page = try UnnamedFile()
        try Array(body.utf8).withUnsafeBytes { try page.append($0) }
        return try page.firstValue(maximumBytes: 2 << 20)
    }

    private func sign(
        _ body: String? = nil, _ fields: [String: String] = [:], root: String = "data", pages: Int = 1,
        records: Int? = 2
    ) throws -> String? {
        let page = Page(url: try #require(URL(string: "https://h/p")), body: nil, fields: fields)
        let further = FurtherPages(page, try body.map { try self.page($0) }, root: RecordRoot(root)?.tokens)
        return further.sign(pages: pages, records: records)
    }

    @Test(arguments: [
        #"{"next": "https://h/p?page=2", "data": []}"#, #"{"data": [], "next": 2}"#, #"{"data": [], "has_more": true}"#,
        #"{"data": [], "hasMore": true}"#, #"{"data": [], "total_pages": 3}"#, #"{"totalPages": 2, "data": [{}, {}]}"#,
        #"{"data": [{}, {}], "total": 50}"#, #"{"data": [{}, {}], "count": "3"}"#, #"{"data": [], "isLast": false}"#,
        #"{"data": [], "_links": {"next": {"href": "/2"}}}"#,
        #"{"data": [], "links": [{"rel": "next", "href": "/2"}]}"#,
        #"{"data": [], "meta": {"pagination": {"last_page": 4}}}"#, #"{"data": [], "pageInfo": {"hasNextPage": true}}"#,
        #"{"data": [], "response_metadata": {"next_cursor": "dGVhbQ=="}}"#, #"{"data": [], "nextPageToken": "a"}"#,
        #"{"data": [], "@odata.nextLink": "https://h/2"}"#, #"{"data": [], "total": {"value": 3}}"#,
        #"{"data": [], "done": false}"#, #"{"data": [], "numFound": 3}"#, #"{"data": [], "IsTruncated": true}"#,
        #"{"data": [], "record_count": 9}"#, #"{"data": [], "page": {"totalElements": 9}}"#,
        #"{"data": [], "lastPage": false}"#,
    ])
    func `an envelope that names another page is noticed`(body: String) throws {
        #expect(try sign(body) != nil)
    }

    @Test(arguments: [
        #"{"next": null, "data": []}"#, #"{"data": [], "next": ""}"#, #"{"data": [], "has_more": false}"#,
        #"{"data": [], "total_pages": 1}"#, #"{"data": [{}, {}], "total": 2}"#, #"{"data": [], "last": true}"#,
        #"{"data": [], "_links": {"next": null, "self": {"href": "/"}}}"#,
        #"{"data": [], "limit": 100, "per_page": 50}"#,
        #"{"data": [{"next": "/2", "has_more": true, "total": 9}]}"#, #"{"data": {"next": "/2"}}"#, #"{"next": false}"#,
        #"{"data": [], "links": [{"rel": "self", "href": "/"}]}"#, #"{"data": [], "nextSyncToken": "a"}"#,
        #"{"data": [], "page_size": 100, "next_page": 0}"#, #"{"data": [], "numberOfElements": 20}"#,
        #"{"data": [], "paging": {"cursors": {"before": "a", "after": "b"}}}"#, "[]", "7",
    ])
    func `an envelope of the last page is no sign of another`(body: String) throws {
        #expect(try sign(body) == nil)
    }

    @Test func `fields of the response are signs, and totals count all pages of a chain`() throws {
        for (name, value) in [
            ("x-next-page", "2"), ("x-total-pages", "2"), ("x-wp-totalpages", "3"), ("x-total-count", "3"),
            ("content-range", "items 0-1/3"), ("link", "rel=next"),
        ] {
            #expect(try sign(nil, [name: value]) != nil, "\(name)")
        }
        #expect(try sign(nil, ["x-nextjs-cache": "HIT", "x-next-cache-tags": "a", "x-more": "1"]) == nil)
        #expect(
            try sign(nil, ["x-next-page": "", "x-total": "2", "content-range": "items 0-1/2", "x-page": "9"]) == nil)
        let total = #"{"data": [], "total": 50, "pages": 3}"#
        #expect(try sign(total, pages: 3, records: 49) == "\"total\" is 50, and 49 records came")
        #expect(try sign(total, pages: 2, records: 50) == "\"pages\" is 3, and 2 pages were read")
        #expect(try sign(total, pages: 3, records: 50) == nil && sign(total, pages: 3, records: nil) == nil)
        #expect(try sign(#"{"1": {"next": 2, "total": 9}}"#, root: "*") == nil)
        #expect(try sign(#"{"a": {"b": [], "more": true}}"#, root: "a.b") == "\"a.more\" is true")
    }

    @Test func `of a page the first value is read, and no more than may be of it`() throws {
        let list = "[" + (0..<20_000).map { #"{"id": \#($0), "a": ["]"], "b": "\"[{"}"# }.joined(separator: ",") + "]"
        let body = #" {"meta": {"next": "/2"}, "data": \#(list), "small": [1], "next": "/3"} junk"#
        let url = try #require(URL(string: "https://h/p"))
        func next(_ path: String) throws -> String? {
            let next = NextPage(path: path, parameter: nil)
            return try next.url(in: page(body), of: url)?.path()
        }
        #expect(try next("next") == "/3" && next("meta.next") == "/2" && next("/small/0") == "/1")
        #expect(try next("/data/19999/id") == "/19999")
        let file = try UnnamedFile()
        try Array(body.utf8).withUnsafeBytes { try file.append($0) }
        #expect(throws: PageError.self) { try file.firstValue(maximumBytes: 1_000) }
    }

    @Test(arguments: [
        ("links.next", #"{"links": {"next": "/b?p=2"}}"#, "https://h/b?p=2"),
        ("/links/0/u~1r", #"{"links": [{"u/r": "https://i/x"}]}"#, "https://i/x"),
        ("next", #"{"next": "?p=3"}"#, "https://h/a?p=3"), ("next", #"{"next": null}"#, nil),
        ("next", #"{"next": ""}"#, nil),
        ("next", #"{"next": false}"#, nil), ("next", "[]", nil), ("next.more", #"{"next": 5}"#, nil),
    ])
    func `a key path leads to the URL of the next page`(path: String, body: String, next: String?) throws {
        let url = URL(string: "https://h/a?p=1&q=2")!
        #expect(try NextPage(path: path, parameter: nil).url(in: page(body), of: url)?.absoluteString == next)
    }

    @Test func `a cursor is an item of the query, in place of the one before`() throws {
        let next = NextPage(path: "next", parameter: "p")
        let url = URL(string: "https://h/a?p=1&q=2")!
        #expect(try next.url(in: page(#"{"next": "a+b&c"}"#), of: url)?.absoluteString == "https://h/a?q=2&p=a%2Bb%26c")
        #expect(try next.url(in: page(#"{"next": 17}"#), of: URL(string: "https://h/a")!)?.query() == "p=17")
        #expect(throws: PageError.self) { try next.url(in: page(#"{"next": {}}"#), of: url) }
        #expect(throws: PageError.self) { try page("{") }
    }

    @Test func `the wait that a server asks for is seconds or a date`() {
        let now = Date(timeIntervalSince1970: 784_111_770)
        func wait(_ text: String) -> Double? { RetryPolicy.wait(askedFor: text, now: now) }
        #expect(wait("120") == 120)
        #expect(wait("Sun, 06 Nov 1994 08:49:37 GMT") == 7 && wait("Sun, 06 Nov 1994 08:49:00 GMT") == 0)
        #expect(wait("soon") == nil && wait("-1") == nil && wait("") == nil)
        #expect(wait(String(repeating: "9", count: 400)) == .infinity)
    }

    @Test func `waits double up to the longest, and the server's own is not shortened`() {
        let policy = RetryPolicy(retries: 5, longestWait: 6)
        let busy = PageError("busy", isTemporary: true)
        func wait(_ error: PageError, _ attempts: Int, _ chance: Double = 1) -> RetryPolicy.Decision {
            policy.decision(after: error, attempts: attempts, chance: chance)
        }
        #expect([1, 2, 3, 4].map { wait(busy, $0) } == [1, 2, 4, 6].map { .wait(seconds: $0) })
        #expect(wait(busy, 3, 0) == .wait(seconds: 2))
        #expect(wait(busy, 6) == .giveUp(reason: " 6 attempts failed; --retries allows more."))
        #expect(wait(PageError("gone"), 1) == .giveUp(reason: ""))
        #expect(wait(PageError("busy", isTemporary: true, retryAfter: 6), 1) == .wait(seconds: 6))
        let long = PageError("busy", isTemporary: true, retryAfter: 3_600)
        #expect(wait(long, 1) == .giveUp(reason: " It asks to wait 3600 seconds; --max-wait allows 6."))
        #expect(
            wait(PageError("busy", isTemporary: true, retryAfter: .infinity), 1) != .wait(seconds: .infinity))
    }

    @Test func `a field is sent to the origin of the first page alone`() throws {
        let headers = try PageHeaders(
            ["Authorization: Bearer a:b ", "X-Key:k"], for: URL(string: "https://Api.example.com/a")!)
        #expect(headers.fields(for: URL(string: "https://api.example.com:443/b")!).map(\.value) == ["Bearer a:b", "k"])
        for other in ["http://api.example.com/", "https://example.com/", "https://api.example.com:8443/"] {
            #expect(headers.fields(for: URL(string: other)!).isEmpty)
        }
        for wrong in ["secret", "a b: secret", ": secret", "a: b\r\nc: secret"] {
            let error = #expect(throws: PageError.self) { try PageHeaders([wrong], for: URL(string: "https://a")!) }
            #expect(wrong == "secret" || error?.description.contains("secret") == false)
        }
    }

    @Test(arguments: ["file:///etc/passwd", "ftp://a/b", "https:///a", "a/b", "https://user:secret@a/"])
    func `a URL of another kind, or with a password, is refused`(text: String) {
        let error = #expect(throws: PageError.self) { try PageClient.check(URL(string: text)!) }
        #expect(error?.description.contains("secret") == false)
    }
}
