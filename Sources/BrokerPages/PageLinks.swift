package import Foundation

/// The next page according to the field `Link` of a response (RFC 8288, section 3).
package enum LinkHeader: Equatable, Sendable {
    /// No link has the relation `next`.
    case none
    case next(URL)
    /// The field is not of the form of RFC 8288 up to the link to the next page, or that is no URL: a page may follow.
    case unreadable(String)

    init(_ field: String, of url: URL) {
        var rest = field[...]
        while true {
            rest = rest.drop { $0 == "," || $0.isWhitespace }
            guard !rest.isEmpty else {
                self = .none
                return
            }
            guard let (target, relations) = Self.takeLink(&rest) else { break }
            guard relations.contains("next") else { continue }
            guard let next = URL(string: target, relativeTo: url)?.absoluteURL, (try? PageClient.check(next)) != nil
            else { break }
            self = .next(next)
            return
        }
        self = .unreadable(field)
    }

    /// The target and the relations of a link; nil for any other text.
    private static func takeLink(_ rest: inout Substring) -> (target: String, relations: [String])? {
        guard rest.first == "<", let end = rest.firstIndex(of: ">") else { return nil }
        let target = rest[rest.index(after: rest.startIndex)..<end]
        // No URL has these, but a link whose bracket is not closed, with its parameters or the link after it.
        let hasBlank = target.contains(where: \.isWhitespace)
        guard !target.contains(where: { $0 == "<" || $0 == "\"" || $0 == ";" && hasBlank }) else { return nil }
        rest = rest[rest.index(after: end)...].drop(while: \.isWhitespace)
        var relations: [String]?
        while rest.first == ";" {
            guard let (name, value) = takeParameter(&rest) else { return nil }
            // The first one of several counts (section 3.3).
            if name.lowercased() == "rel", relations == nil {
                relations = value.split(whereSeparator: \.isWhitespace).map { $0.lowercased() }
                if relations == [] { return nil }
            }
        }
        // Servers forget the comma, too.
        return rest.isEmpty || rest.first == "," || rest.first == "<" ? (String(target), relations ?? []) : nil
    }

    /// `;name`, `;name=value` or `;name="value"`, and the blanks after it; nil for any other text.
    private static func takeParameter(_ rest: inout Substring) -> (name: String, value: String)? {
        rest = rest.dropFirst().drop(while: \.isWhitespace)
        let name = rest.prefix { !"=;,\"<>".contains($0) && !$0.isWhitespace }
        rest = rest[name.endIndex...].drop(while: \.isWhitespace)
        guard rest.first == "=" else { return (String(name), "") }
        rest = rest.dropFirst().drop(while: \.isWhitespace)
        var value = ""
        // Servers send single quotes, too.
        if let quote = rest.first, quote == "\"" || quote == "'" {
            rest = rest.dropFirst()
            while true {
                guard let character = rest.popFirst() else { return nil }
                if character == quote { break }
                guard character == "\\", quote == "\"" else {
                    value.append(character)
                    continue
                }
                // A quoted pair (RFC 9110, section 5.6.4).
                guard let escaped = rest.popFirst() else { return nil }
                value.append(escaped)
            }
        } else {
            value = String(rest.prefix { !";,\"<>".contains($0) && !$0.isWhitespace })
            rest = rest[rest.index(rest.startIndex, offsetBy: value.count)...]
            if value.isEmpty { return nil }
        }
        rest = rest.drop(while: \.isWhitespace)
        return name.isEmpty ? nil : (String(name), value)
    }
}
