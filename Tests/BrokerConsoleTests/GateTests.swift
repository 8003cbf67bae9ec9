import Testing

@testable import BrokerConsole

/// Who gets a page.
@Suite(.timeLimit(.minutes(5))) struct GateTests {
    private let gate = Gate()

    init() { gate.open("127.0.0.1:8080") }

    private var page: Request {
        var request = Request(method: .get)
        request.host = "127.0.0.1:8080"
        request.cookies = "other=1; broker-8080=\(gate.token)"
        return request
    }

    private var form: Request {
        var request = page
        request.method = .post
        request.origin = "http://127.0.0.1:8080"
        request.form["form"] = gate.formToken
        return request
    }

    private func status(_ request: Request, _ change: (inout Request) -> Void) -> Int? {
        var request = request
        change(&request)
        return gate.answer(to: request)?.status
    }

    @Test func `a token has 128 bits, and is another one each time`() {
        let tokens = (0..<100).map { _ in Gate.random() }
        #expect(Set(tokens).count == 100 && tokens.allSatisfy { $0.wholeMatch(of: /[0-9a-f]{32}/) != nil })
        #expect(Gate.areEqual("abc", "abc") && !Gate.areEqual("abc", "abd") && !Gate.areEqual("abc", "ab"))
        #expect(!Gate.areEqual("", "a") && Gate.areEqual("", ""))
    }

    @Test func `the printed address gives a cookie, and the token is not in the address any more`() throws {
        var request = Request(method: .get, path: ["data", "A B"], query: ["token": gate.token, "where": "a == 1"])
        request.host = "localhost:8080"
        let answer = try #require(gate.answer(to: request))
        #expect(answer.status == 303)
        let headers = Dictionary(answer.headers.map { ($0.name, $0.value) }) { $1 }
        #expect(headers["Location"] == "/data/A%20B?where=a%20%3D%3D%201")
        #expect(headers["Set-Cookie"] == "broker-8080=\(gate.token); Path=/; HttpOnly; SameSite=Strict")
        request.query["token"] = String(gate.token.reversed())
        #expect(gate.answer(to: request)?.status == 403)
        #expect(gate.address == "http://127.0.0.1:8080/?token=\(gate.token)")
    }

    @Test func `pages are for this console's own name, method and cookie`() {
        #expect(status(page) { _ in } == nil)
        #expect(status(page) { $0.host = "localhost:8080" } == nil)
        for host in [nil, "", "evil.example", "evil.example:8080", "127.0.0.1", "127.0.0.1:8081", "localhost"] {
            #expect(status(page) { $0.host = host } == 403, "\(host ?? "nil")")
        }
        #expect(status(page) { $0.method = nil } == 405)
        let cookies = [
            nil, "", "broker-8080=", "broker-8080=x", "broker-8081=\(gate.token)", "broker-8080=\(gate.token)x",
        ]
        for cookie in cookies { #expect(status(page) { $0.cookies = cookie } == 403, "\(cookie ?? "nil")") }
        // A form's token opens no page.
        let cookie = "broker-8080=\(gate.formToken)"
        #expect(status(page) { $0.cookies = cookie } == 403)
    }

    @Test func `forms are of this console's own pages`() {
        #expect(status(form) { _ in } == nil)
        #expect(status(form) { $0.origin = "http://localhost:8080" } == nil)
        for origin in ["http://evil.example", "https://127.0.0.1:8080", "http://127.0.0.1:8081", "null", nil] {
            #expect(status(form) { $0.origin = origin } == 403, "\(origin ?? "nil")")
        }
        for site in ["cross-site", "same-site", "none"] {
            #expect(
                status(form) {
                    $0.origin = "null"
                    $0.fetchSite = site
                } == 403, "\(site)")
        }
        // A page without a referrer has the origin null; the browser vouches for it.
        let own: (inout Request) -> Void = {
            $0.origin = "null"
            $0.fetchSite = "same-origin"
        }
        #expect(status(form, own) == nil)
        for token in [nil, "", gate.token] { #expect(status(form) { $0.form["form"] = token } == 403) }
    }

    @Test func `the port of HTTP is not in names, and a Unix socket is localhost`() {
        for (authority, hosts) in [
            ("127.0.0.1:80", ["127.0.0.1", "localhost", "127.0.0.1:80"]), ("localhost", ["localhost"]),
        ] {
            let gate = Gate()
            gate.open(authority)
            for host in hosts {
                var request = Request(method: .get, query: ["token": gate.token])
                request.host = host
                #expect(gate.answer(to: request)?.status == 303, "\(authority) \(host)")
            }
        }
    }
}
