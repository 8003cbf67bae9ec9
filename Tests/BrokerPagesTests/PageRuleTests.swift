import Foundation
import Testing

@testable import BrokerPages

/// The rules of a polite client, without a server.
@Suite(.timeLimit(.minutes(5))) struct PageRuleTests {
    @Test(arguments: [
        (#"<https://a/2>; rel="next""#, "https://a/2"),
        (#"<https://a/9>; rel="last", <https://a/2?a=1,2>; title="a, b; c\"d"; rel=next"#, "https://a/2?a=1,2"),
        (#"</2> ; REL = "prev Next""#, "/2"), (#"<a>;rel=prev;rel=next,<b>;rel=next"#, "b"), ("", nil), ("next", nil),
        ("<a", nil), (#"<a>; rel="next"#, "a"), ("<a>; rel", nil), (",, <a>;;rel=next", "a"),
        ("<a>,<b>;rel=next;", "b"),
    ])
    func `the next page is the target of the link with that relation`(header: String, target: String?) {
        #expect(LinkHeader.target(of: "next", in: header) == target)
    }

    private func page(_ body: String) throws -> PageBody {
        let page = try PageBody()
        try page.append(Data(body.utf8))
        return page
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
        #expect(throws: PageError.self) { try next.url(in: page("{"), of: url) }
    }

    @Test func `the wait that a server asks for is seconds or a date`() {
        let now = Date(timeIntervalSince1970: 784_111_770)
        #expect(RetryAfter("120")?.seconds(from: now) == 120)
        #expect(RetryAfter("Sun, 06 Nov 1994 08:49:37 GMT")?.seconds(from: now) == 7)
        #expect(RetryAfter("Sun, 06 Nov 1994 08:49:00 GMT")?.seconds(from: now) == 0)
        #expect(RetryAfter("soon") == nil && RetryAfter("-1") == nil && RetryAfter("") == nil)
        #expect(RetryAfter(String(repeating: "9", count: 400))?.seconds(from: now) == .infinity)
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
        #expect(wait(PageError("busy", isTemporary: true, retryAfter: .seconds(6)), 1) == .wait(seconds: 6))
        let long = PageError("busy", isTemporary: true, retryAfter: .seconds(3_600))
        #expect(wait(long, 1) == .giveUp(reason: " It asks to wait 3600 seconds; --max-wait allows 6."))
        #expect(
            wait(PageError("busy", isTemporary: true, retryAfter: .seconds(.infinity)), 1) != .wait(seconds: .infinity))
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
