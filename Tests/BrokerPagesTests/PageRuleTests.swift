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
        func next(_ path: String) throws -> String? {
            try self.next(.url(PageRule.KeyPath(path)), body, at: "https://h/p")?.url.path()
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
        let found = try self.next(.url(PageRule.KeyPath(path)), body, at: "https://h/a?p=1&q=2")
        #expect(found?.url.absoluteString == next)
    }

    /// The request for the page after one with these records.
    private func next(
        _ rule: PageRule = .found, _ body: String, at url: String = "https://h/a", _ fields: [String: String] = [:],
        root: String = "data", count: Int = 2, total: Int? = 2, sent: String? = nil
    ) throws -> PageRequest? {
        let url = try #require(URL(string: url))
        let (page, envelope) = (Page(url: url, body: nil, fields: fields), try self.page(body))
        let further = FurtherPages(page, envelope, root: RecordRoot(root)?.tokens)
        var answer = PageRule.Answer(PageRequest(url, body: sent.map { Array($0.utf8) }), page, envelope, further)
        (answer.count, answer.total) = (count, total)
        answer.last = InputRecord(json: Array(#"{"id": "b", "sort": [1, "x"]}"#.utf8), place: InputPlace())
        return try rule.next(after: answer)?.request
    }

    @Test func `a cursor is a parameter, in place of the one before`() throws {
        let rule = PageRule.cursor(parameter: "p", PageRule.KeyPath("next"))
        func url(_ body: String, _ url: String = "https://h/a?p=1&q=%2C") throws -> String? {
            try next(rule, body, at: url)?.url.absoluteString
        }
        #expect(try url(#"{"next": "a+b&c"}"#) == "https://h/a?q=%2C&p=a%2Bb%26c")
        #expect(try url(#"{"next": 17}"#, "https://h/a") == "https://h/a?p=17")
        #expect(try url(#"{"next": "x", "has_more": false}"#) == nil)
        #expect(throws: PageError.self) { try url(#"{"next": {}}"#) }
        #expect(throws: PageError.self) { try page("{") }
        let last = PageRule.lastRecord(parameter: "after", PageRule.KeyPath("id"))
        #expect(try next(last, "{}")?.url.query() == "after=b" && next(last, "{}", count: 0) == nil)
        #expect(throws: PageError.self) {
            try next(.lastRecord(parameter: "after", PageRule.KeyPath("none")), "{}")
        }
    }

    @Test func `pages and records are counted from the number in the request, until there are no more records`() throws
    {
        func query(_ rule: PageRule, _ url: String, count: Int = 2) throws -> String? {
            try next(rule, "[]", at: url, count: count)?.url.query()
        }
        #expect(try query(.page(parameter: "page"), "https://h/a?page=0&n=2") == "n=2&page=1")
        #expect(try query(.page(parameter: "page"), "https://h/a?page=7", count: 0) == nil)
        #expect(throws: PageError.self) { try query(.page(parameter: "page"), "https://h/a") }
        #expect(try query(.offset(parameter: "$offset"), "https://h/a") == "%24offset=2")
        #expect(try query(.offset(parameter: "$offset"), "https://h/a?%24offset=40") == "%24offset=42")
    }

    @Test(arguments: [
        (#"{"next": "https://h/a?page=2", "count": 9, "data": []}"#, "https://h/a?page=2"),
        (#"{"next": null, "count": 2, "data": []}"#, nil),
        (#"{"links": {"next": "/b?c=1"}, "data": []}"#, "https://h/b?c=1"),
        (#"{"_links": {"next": {"href": "?page=3"}}, "data": []}"#, "https://h/a?page=3"),
        (#"{"paging": {"next": {"after": "33", "link": "https://h/b"}}, "data": []}"#, "https://h/b"),
        (#"{"paging": {"next": {"after": "33"}}, "data": []}"#, "https://h/a?after=33"),
        (#"{"paging": {"cursors": {"before": "a", "after": "b"}}, "data": []}"#, nil),
        (#"{"links": [{"rel": "self", "href": "/a"}, {"rel": "next", "href": "/b"}], "data": []}"#, "https://h/b"),
        (#"{"@odata.nextLink": "https://h/b?$skip=2", "data": []}"#, "https://h/b?$skip=2"),
        (#"{"nextPageToken": "t/=", "data": []}"#, "https://h/a?pageToken=t%2F%3D"),
        (#"{"response_metadata": {"next_cursor": "/w8="}, "data": []}"#, "https://h/a?cursor=%2Fw8%3D"),
        (#"{"response_metadata": {"next_cursor": ""}, "data": []}"#, nil),
        (#"{"has_more": false, "next_cursor": "c", "data": []}"#, nil),
        (#"{"meta": {"next_token": "t"}, "data": []}"#, "https://h/a?next_token=t"),
        (#"{"done": false, "nextRecordsUrl": "/q/01-2", "data": []}"#, "https://h/q/01-2"),
        (#"{"next_url": "a?n=2", "data": []}"#, "https://h/a?n=2"),
        (#"{"more": true, "cursor": "c", "data": []}"#, "https://h/a?cursor=c"), (#"{"cursor": "c", "data": []}"#, nil),
        (#"{"next_page": 2, "data": []}"#, "https://h/a?page=2"), (#"{"next_page": 0, "data": []}"#, nil),
        (#"{"offset": "rec1/x", "data": []}"#, "https://h/a?offset=rec1%2Fx"),
        (
            #"{"continue": {"apcontinue": "B", "continue": "-||"}, "data": []}"#,
            "https://h/a?apcontinue=B&continue=-%7C%7C"
        ),
        (#"{"page": 1, "total_pages": 3, "data": []}"#, "https://h/a?page=2"),
        (#"{"page": 3, "total_pages": 3, "data": []}"#, nil),
        (#"{"current_page": 1, "last_page": 2, "data": []}"#, "https://h/a?page=2"),
        (#"{"page": {"number": 0, "totalPages": 2}, "data": []}"#, "https://h/a?page=1"),
        (#"{"number": 1, "totalPages": 2, "last": true, "data": []}"#, nil),
        (#"{"number": 0, "data": []}"#, nil), (#"{"page": 1, "data": []}"#, "https://h/a?page=2"),
        (#"{"page": 1, "next": null, "data": []}"#, nil), (#"{"page": 1, "total": 2, "data": []}"#, nil),
        (#"{"offset": 0, "limit": 2, "total": 5, "data": []}"#, "https://h/a?offset=2"),
        (#"{"offset": 4, "limit": 2, "total": 6, "data": []}"#, nil),
        (#"{"startAt": 0, "maxResults": 2, "total": 5, "data": []}"#, "https://h/a?startAt=2"),
        (#"{"offset": 0, "count": 2, "data": []}"#, "https://h/a?offset=2"),
        (#"{"has_more": true, "data": []}"#, "https://h/a?starting_after=b"), (#"{"total": 5, "data": []}"#, nil),
        (#"{"data": [{"next": "/b", "page": 1}]}"#, nil), (#"{"next": "c", "data": []}"#, nil),
        (#"{"next": "ftp://h/b", "data": []}"#, nil), (#"{"nextSyncToken": "t", "data": []}"#, nil),
    ])
    func `the next page is found in an envelope that says all that its request needs`(body: String, url: String?) throws
    {
        #expect(try next(body)?.url.absoluteString == url)
    }

    private func next(_ body: String) throws -> PageRequest? { try next(.found, body) }

    @Test func `an array may have an object around the records, too`() throws {
        let body = #"[{"page": 1, "pages": 2, "per_page": "2"}, [{"id": 1, "page": 7}]]"#
        #expect(try next(.found, body, root: "/1")?.url.query() == "page=2")
        #expect(try sign(body, root: "/1") != nil && sign(body, root: "data") == nil)
    }

    @Test func `the names of parameters are those of the request, and numbers of the URL count beside a total`() throws
    {
        func query(_ body: String, _ query: String, _ fields: [String: String] = [:], total: Int? = 2) throws -> String?
        {
            try next(.found, body, at: "https://h/a?\(query)", fields, total: total)?.url.query()
        }
        #expect(try query(#"{"page": 0, "pages": 3, "data": []}"#, "_page=1") == "_page=2")
        #expect(try query(#"{"next_page_token": "t", "data": []}"#, "pageToken=s&n=1") == "n=1&pageToken=t")
        #expect(try query("[]", "page=1", ["x-total-count": "5"]) == "page=2")
        #expect(try query("[]", "page=1", ["x-total-count": "2"]) == nil)
        // With pages of unknown length before, it is asked for once more.
        #expect(try query("[]", "page=2", ["x-total-count": "2"], total: nil) == "page=3")
        #expect(try query("[]", "page=1", ["x-total-pages": "1"]) == nil && query("[]", "page=1") == nil)
        #expect(
            try query("[]", "n=2", ["x-next-page": "2"]) == "n=2&page=2" && query("[]", "", ["x-next-page": ""]) == nil)
        #expect(try query("[]", "", ["x-next-cursor": "c"]) == "cursor=c")
        #expect(try query(#"{"total": 9, "data": []}"#, "skip=2&limit=2") == "limit=2&skip=4")
        #expect(try query(#"{"next": "/c", "data": []}"#, "", ["link": "</b>; rel=next"]) == nil)
    }

    @Test func `what is sent by POST gets the parameters of the next page`() throws {
        func body(_ rule: PageRule, _ body: String, _ sent: String) throws -> String? {
            try next(rule, body, sent: sent).map { String(decoding: $0.body ?? [], as: UTF8.self) }
        }
        let graph = PageRule.cursor(parameter: "variables.after", PageRule.KeyPath("data.pageInfo.endCursor"))
        #expect(
            try body(graph, #"{"data": {"pageInfo": {"endCursor": "x"}}}"#, #"{"query": "{}", "variables": {"n": 1}}"#)
                == #"{"query":"{}","variables":{"n":1,"after":"x"}}"#)
        let search = PageRule.lastRecord(parameter: "search_after", PageRule.KeyPath("sort"))
        #expect(try body(search, "{}", #"{"size":2,"search_after":[0,"a"]}"#) == #"{"size":2,"search_after":[1, "x"]}"#)
        #expect(try body(.offset(parameter: "from"), "{}", #"{"from": 2}"#) == #"{"from":4}"#)
        #expect(try body(.found, #"{"next_cursor": "c", "data": []}"#, "q=a+b&cursor=x") == "q=a+b&cursor=c")
    }

    @Test func `the wait that a server asks for is seconds or a date`() {
        let now = Date(timeIntervalSince1970: 784_111_770)
        func wait(_ text: String) -> Double? { RetryPolicy.wait(askedFor: text, now: now) }
        #expect(wait("120") == 120)
        #expect(wait("Sun, 06 Nov 1994 08:49:37 GMT") == 7 && wait("Sun, 06 Nov 1994 08:49:00 GMT") == 0)
        #expect(wait("soon") == nil && wait("-1") == nil && wait("") == nil)
        #expect(wait(String(repeating: "9", count: 400)) == .infinity)
    }

    @Test func `a limit of the rate says when it ends`() {
        let now = Date(timeIntervalSince1970: 1_700_000_000)
        func wait(_ fields: [String: String]) -> Double? { RetryPolicy.wait(askedForBy: fields, now: now) }
        #expect(wait(["retry-after": "3", "x-ratelimit-reset": "1700000060"]) == 3)
        #expect(wait(["x-ratelimit-reset": "1700000060"]) == 60 && wait(["x-ratelimit-reset": "1699999999"]) == 0)
        #expect(wait(["ratelimit-reset": "30"]) == 30 && wait(["x-ratelimit-reset": "soon"]) == nil && wait([:]) == nil)
        #expect(RetryPolicy.isLimit(["retry-after": "1"]) && RetryPolicy.isLimit(["x-ratelimit-remaining": "0"]))
        #expect(!RetryPolicy.isLimit(["x-ratelimit-remaining": "12", "x-ratelimit-reset": "1"]))
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
            ["Authorization: Bearer a:b ", "X-Key:k"], for: [URL(string: "https://Api.example.com/a")!])
        #expect(headers.fields(for: URL(string: "https://api.example.com:443/b")!).map(\.value) == ["Bearer a:b", "k"])
        for other in ["http://api.example.com/", "https://example.com/", "https://api.example.com:8443/"] {
            #expect(headers.fields(for: URL(string: other)!).isEmpty)
        }
        let others = [URL(string: "https://a")!, URL(string: "https://b")!]
        #expect(throws: PageError.self) { try PageHeaders(["a: b"], for: others) }
        #expect(throws: Never.self) { try PageHeaders([], for: others) }
        for wrong in ["secret", "a b: secret", ": secret", "a: b\r\nc: secret"] {
            let error = #expect(throws: PageError.self) { try PageHeaders([wrong], for: [URL(string: "https://a")!]) }
            #expect(wrong == "secret" || error?.description.contains("secret") == false)
        }
    }

    @Test(arguments: ["file:///etc/passwd", "ftp://a/b", "https:///a", "a/b", "https://user:secret@a/"])
    func `a URL of another kind, or with a password, is refused`(text: String) {
        let error = #expect(throws: PageError.self) { try PageClient.check(URL(string: text)!) }
        #expect(error?.description.contains("secret") == false)
    }
}
