internal import Foundation
internal import Synchronization

/// Who gets a page: a browser that was opened with the address that the console printed, and asks for pages of this console by its
/// own name. Another site that a browser shows cannot ask in its name, and no other program of this machine knows the address.
final class Gate: Sendable {
    /// In the address that is opened, then in a cookie.
    let token = Gate.random()
    /// In each form.
    let formToken = Gate.random()
    /// As it stands in the address; empty before the console listens.
    private let authority = Mutex("")

    func open(_ authority: String) { self.authority.withLock { $0 = authority } }

    /// What the user opens.
    var address: String { "http://\(authority.withLock { $0 })/?token=\(token)" }

    /// 128 bits, in hexadecimal digits.
    static func random() -> String {
        String(format: "%016llx%016llx", UInt64.random(in: 0 ... .max), UInt64.random(in: 0 ... .max))
    }

    /// In a time that does not depend on what is equal.
    static func areEqual(_ one: String, _ other: String) -> Bool {
        let (one, other) = (Array(one.utf8), Array(other.utf8))
        guard one.count == other.count else { return false }
        var difference: UInt8 = 0
        for index in one.indices { difference |= one[index] ^ other[index] }
        return difference == 0
    }

    /// Other consoles of this machine have cookies of their own: a browser sends those of all ports.
    private func cookieName(_ authority: String) -> String {
        "broker-\(authority.split(separator: ":").last.map(String.init) ?? "")"
    }

    /// The answer to a request that gets no page: a refusal, or the cookie for the token.
    func answer(to request: Request) -> Answer? {
        let authority = authority.withLock { $0 }
        let port = authority.split(separator: ":").last.map { ":\($0)" } ?? ""
        var names = authority == "localhost" ? [authority] : [authority, "localhost\(port)"]
        // Browsers omit the port of HTTP.
        if port == ":80" { names += names.map { String($0.dropLast(port.count)) } }
        guard let host = request.host, names.contains(host) else {
            return Self.refused("This console is \(authority). Use that name.")
        }
        guard let method = request.method else {
            var answer = Answer.text("Only GET and POST are answered.\n", status: 405)
            answer.headers.append(("Allow", "GET, POST"))
            return answer
        }
        if method == .get, let given = request.query["token"] {
            guard Self.areEqual(given, token) else { return Self.refused(Self.remedy) }
            var query = request.query
            query["token"] = nil
            var answer = Answer.redirection(URLText.link(request.path, query.sorted { $0.key < $1.key }))
            answer.headers.append(
                ("Set-Cookie", "\(cookieName(authority))=\(token); Path=/; HttpOnly; SameSite=Strict"))
            return answer
        }
        guard let given = request.cookie(cookieName(authority)), Self.areEqual(given, token) else {
            return Self.refused(Self.remedy)
        }
        guard method == .post else { return nil }
        // A page without a referrer posts with the origin null: then the browser itself must say that the page is of this console.
        let isOwn =
            switch request.origin {
            case nil, "null": request.fetchSite == "same-origin"
            case let origin?: names.contains { origin == "http://\($0)" }
            }
        guard isOwn, Self.areEqual(request.form["form"] ?? "", formToken) else {
            return Self.refused("The form is not one of this console's pages. Reload the page, and send it again.")
        }
        return nil
    }

    private static let remedy =
        "Open the address that `broker console` has printed: it has a token, which this one lacks."

    private static func refused(_ reason: String) -> Answer { .text(reason + "\n", status: 403) }

    /// The headers of every answer.
    static let headers: [(name: String, value: String)] = [
        (
            "Content-Security-Policy",
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
                + "base-uri 'none'; frame-ancestors 'none'"
        ), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store"),
    ]
}
