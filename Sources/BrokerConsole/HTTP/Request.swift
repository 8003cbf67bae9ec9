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
        var bytes: [UInt8] = []
        var rest = Substring(text).utf8[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%") {
                guard let high = rest.popFirst().flatMap(hexadecimal), let low = rest.popFirst().flatMap(hexadecimal)
                else {
                    return nil
                }
                bytes.append(high << 4 | low)
            } else {
                bytes.append(plusIsSpace && byte == UInt8(ascii: "+") ? UInt8(ascii: " ") : byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func hexadecimal(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map(UInt8.init)
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

    static func encoded(_ text: String) -> String {
        let plain = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~".utf8)
        let digits = Array("0123456789ABCDEF".utf8)
        return String(
            decoding: text.utf8.flatMap { byte in
                plain.contains(byte)
                    ? [byte] : [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }, as: UTF8.self)
    }

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
