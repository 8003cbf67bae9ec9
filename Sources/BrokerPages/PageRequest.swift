internal import BrokerFastJSON
package import BrokerJSON
package import Foundation

/// What a page is requested by: a URL and, by POST, a body.
package struct PageRequest: Hashable, Sendable, CustomStringConvertible {
    package let url: URL
    /// Sent by POST; nil for GET.
    package let body: [UInt8]?

    package init(_ url: URL, body: [UInt8]? = nil) { (self.url, self.body) = (url, body) }

    package var description: String { body == nil ? url.absoluteString : "\(url.absoluteString) (POST)" }

    /// A value for a parameter: as JSON, and as the text of a query.
    package struct Value: Hashable, Sendable {
        let json: [UInt8]
        package let text: String

        /// Nil for null, false and the empty text.
        package init?(_ value: JSONValue) {
            text = String(decoding: value.bytes, as: UTF8.self)
            guard !value.isNull, value.kind != .false, !text.isEmpty else { return nil }
            var writer = JSONWriter()
            writer.value(value)
            json = writer.bytes
        }

        package init(_ number: Int) { (json, text) = (Array("\(number)".utf8), "\(number)") }

        package init(_ text: String) {
            var writer = JSONWriter()
            writer.string(text)
            (json, self.text) = (writer.bytes, text)
        }
    }

    /// Where the parameters of the request are.
    private enum Place { case query, form, object }

    private var place: Place {
        guard let body, let first = body.first(where: { $0 > UInt8(ascii: " ") }) else { return .query }
        return first == UInt8(ascii: "{") ? .object : first == UInt8(ascii: "[") ? .query : .form
    }

    /// The media type of the body.
    var contentType: String? {
        body == nil ? nil : place == .form ? "application/x-www-form-urlencoded" : "application/json"
    }

    /// The value that a parameter has; of several the first.
    package func value(of parameter: String) -> String? {
        guard place == .object else {
            guard let item = Self.items(of: query).first(where: { $0.name == parameter }) else { return nil }
            let value = String(item.text.drop { $0 != "=" }.dropFirst()).replacing("+", with: " ")
            return value.removingPercentEncoding ?? value
        }
        return object?.withRoot { root in
            let value = parameter.split(separator: ".").reduce(Optional(root)) { $0?[String($1)] }
            return value.flatMap { Value($0)?.text }
        }
    }

    /// The names of the parameters of the query or the form; of a JSON object, of its own members.
    var parameters: [String] {
        guard place == .object else { return Self.items(of: query).map(\.name) }
        return object?.withRoot { $0.members.map { $0.key.string ?? "" } } ?? []
    }

    /// The same request with other values of these parameters: items of the query, or of a form that is sent; members of a JSON
    /// object that is sent, whose names are key paths.
    package func setting(_ parameters: [(name: String, value: Value)]) -> PageRequest {
        parameters.reduce(self) { $0.setting($1.name, $1.value) }
    }

    private func setting(_ parameter: String, _ value: Value) -> PageRequest {
        if place == .object {
            guard let document = object else { return self }
            var writer = JSONWriter()
            let path = parameter.split(separator: ".").map(String.init)[...]
            document.withRoot { Self.write($0, value.json, at: path, to: &writer) }
            return PageRequest(url, body: writer.bytes)
        }
        let others = Self.items(of: query).filter { $0.name != parameter }.map(\.text)
        let text = (others + ["\(Self.escaped(parameter))=\(Self.escaped(value.text))"]).joined(separator: "&")
        if place == .form { return PageRequest(url, body: Array(text.utf8)) }
        guard var components = URLComponents(url: url, resolvingAgainstBaseURL: true) else { return self }
        components.percentEncodedQuery = text
        return PageRequest(components.url ?? url, body: body)
    }

    // MARK: - Forms

    private var query: String {
        place == .form
            ? String(decoding: body ?? [], as: UTF8.self)
            : URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedQuery ?? ""
    }

    /// The items of a query with their names, as they are written.
    private static func items(of query: String) -> [(name: String, text: String)] {
        query.split(separator: "&").map { item in
            let name = String(item.prefix { $0 != "=" }).replacing("+", with: " ")
            return (name.removingPercentEncoding ?? name, String(item))
        }
    }

    /// All but the unreserved characters of RFC 3986 (section 2.3) is escaped.
    private static func escaped(_ text: String) -> String {
        let unreserved = CharacterSet(
            charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
        return text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? text
    }

    // MARK: - JSON

    private var object: JSONDocument? { body.flatMap { try? JSONDocument(fast: JSONText(copying: $0)) } }

    private static func write(
        _ object: JSONValue?, _ value: [UInt8], at path: ArraySlice<String>, to writer: inout JSONWriter
    ) {
        guard let name = path.first else { return writer.raw(value) }
        writer.object { writer in
            if let object {
                for (key, member) in object.members where key.string != name {
                    writer.member(key.string ?? "", member)
                }
            }
            writer.key(name)
            write(object?[name], value, at: path.dropFirst(), to: &writer)
        }
    }
}
