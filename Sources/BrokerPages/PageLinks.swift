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
        guard let link = rest.prefixMatch(of: /<([^<>"]*)>\s*/) else { return nil }
        let target = String(link.1)
        // No URL has these, but a link whose bracket is not closed, with its parameters or the link after it.
        guard !target.contains(";") || !target.contains(where: \.isWhitespace) else { return nil }
        rest = rest[link.range.upperBound...]
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
        return rest.isEmpty || rest.first == "," || rest.first == "<" ? (target, relations ?? []) : nil
    }

    /// `;name`, `;name=value`, `;name="value"` or `;` alone, and the blanks after it; nil for any other text.
    ///
    /// Servers send single quotes, too. In the others there are quoted pairs (RFC 9110, section 5.6.4).
    private static func takeParameter(_ rest: inout Substring) -> (name: Substring, value: Substring)? {
        let form = /;\s*(?:([^=;,"<>\s]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^;,"'<>\s][^;,"<>\s]*)))?\s*)?/
        guard let parameter = rest.prefixMatch(of: form) else { return nil }
        rest = rest[parameter.range.upperBound...]
        let quoted = parameter.2?.replacing(/\\(.)/) { $0.1 }
        return (parameter.1 ?? "", quoted ?? parameter.3 ?? parameter.4 ?? "")
    }
}
