import Foundation

/// What a browser asks for, without the connection.
struct Request: Sendable {
    enum Method: String {
        case get = "GET"
        case post = "POST"
    }

    /// Nil for another one.
    var method: Method?
    /// The parts of the path, decoded.
    var path: [String] = []
    var query: [String: String] = [:]
    var host: String?
    var origin: String?
    /// `Sec-Fetch-Site`: what a browser says of the page that asks, and no page can change.
    var fetchSite: String?
    var cookies: String?
    var form: [String: String] = [:]

    subscript(_ name: String) -> String? { query[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// The value of a cookie.
    func cookie(_ name: String) -> String? {
        let pairs = (cookies ?? "").split(separator: ";").map { $0.drop { $0 == " " } }
        return pairs.first { $0.hasPrefix(name + "=") }.map { String($0.dropFirst(name.count + 1)) }
    }
}

/// The form of a path and a query in an address (RFC 3986), and of a form that is sent.
enum URLText {
    /// Nil for a text that is not encoded right, or is no UTF-8.
    static func decoded(_ text: some StringProtocol, plusIsSpace: Bool = false) -> String? {
        let text = String(text)
        return (plusIsSpace ? text.replacing("+", with: " ") : text).removingPercentEncoding
    }

    static func path(_ text: String) -> [String]? {
        var parts: [String] = []
        for part in text.split(separator: "/") {
            guard let part = decoded(part) else { return nil }
            parts.append(part)
        }
        return parts
    }

    /// The last of several values of a name counts.
    static func form(_ text: some StringProtocol) -> [String: String]? {
        var values: [String: String] = [:]
        for pair in text.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = decoded(parts[0], plusIsSpace: true),
                let value = decoded(parts.count > 1 ? parts[1] : "", plusIsSpace: true)
            else { return nil }
            values[name] = value
        }
        return values
    }

    private static let plain = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

    static func encoded(_ text: String) -> String { text.addingPercentEncoding(withAllowedCharacters: plain) ?? "" }

    /// A path of this console, with a query of those parts that have a value.
    static func link(_ path: [String], _ query: KeyValuePairs<String, String?> = [:]) -> String {
        link(path, query.compactMap { name, value in value.map { (name, $0) } })
    }

    static func link(_ path: [String], _ query: [(key: String, value: String)]) -> String {
        let pairs = query.map { "\(encoded($0.key))=\(encoded($0.value))" }
        return "/" + path.map(encoded).joined(separator: "/")
            + (pairs.isEmpty ? "" : "?" + pairs.joined(separator: "&"))
    }
}
