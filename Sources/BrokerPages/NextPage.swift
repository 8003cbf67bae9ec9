internal import BrokerInput
internal import BrokerJSON
package import Foundation

/// Where the body of a page says which page is the next one.
package struct NextPage: Sendable {
    private let keys: [String]
    /// The query item that takes a cursor; nil when the value is a URL.
    private let parameter: String?

    /// - Parameter path: keys with dots between them, or a JSON Pointer.
    package init(path: String, parameter: String?) {
        keys = RecordRoot(path)?.tokens ?? [path]
        self.parameter = parameter
    }

    /// The path may lead into an array.
    var readsElements: Bool { keys.contains { Int($0) != nil } }

    /// - Parameter url: where the page came from.
    /// - Returns: nil when it is the last page: the value is not there, null, false or an empty text.
    package func url(in page: PageEnvelope, of url: URL) throws(PageError) -> URL? {
        let found = try page.read { root throws(PageError) in try text(in: root, of: url) }
        guard let found, !found.isEmpty else { return nil }
        return try next(found, after: url)
    }

    private func text(in root: JSONValue, of url: URL) throws(PageError) -> String? {
        var value: JSONValue? = root
        for key in keys {
            guard let current = value else { return nil }
            if current.kind == .array, let index = Int(key), index >= 0 {
                value = current.elements.dropFirst(index).first { _ in true }
            } else {
                value = current[key]
            }
        }
        guard let value else { return nil }
        switch value.kind {
        case .string: return value.string
        case .null: return nil
        case .object, .array:
            throw PageError(
                "--next leads to an object or an array in \(url.absoluteString); give the path of a URL or a cursor.")
        default:
            let text = String(decoding: value.bytes, as: UTF8.self)
            return text == "false" ? nil : text
        }
    }

    private func next(_ text: String, after url: URL) throws(PageError) -> URL {
        guard let parameter else {
            guard let next = URL(string: text, relativeTo: url)?.absoluteURL else {
                throw PageError("--next leads to \"\(text.prefix(100))\" in \(url.absoluteString), which is no URL.")
            }
            return next
        }
        guard var components = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
            throw PageError("\(url.absoluteString) takes no query item, so --next-parameter cannot be used with it.")
        }
        let others = components.queryItems?.filter { $0.name != parameter } ?? []
        components.queryItems = others + [URLQueryItem(name: parameter, value: text)]
        // URLComponents leaves a plus as it is, which servers read as a space.
        components.percentEncodedQuery = components.percentEncodedQuery?.replacing("+", with: "%2B")
        return components.url ?? url
    }
}
