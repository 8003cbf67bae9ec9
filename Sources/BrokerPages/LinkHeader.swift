/// The targets in a `Link` header by their relation (RFC 8288, section 3).
package enum LinkHeader {
    /// The target of the first link whose relations have this one; nil when there is none, or the header is malformed
    /// before it.
    package static func target(of relation: String, in header: String) -> String? {
        var rest = header[...]
        while true {
            rest = rest.drop { $0 == "," || $0.isWhitespace }
            guard rest.first == "<", let end = rest.firstIndex(of: ">") else { return nil }
            let target = String(rest[rest.index(after: rest.startIndex)..<end])
            rest = rest[rest.index(after: end)...]
            var relations: String?
            while let (name, value) = nextParameter(&rest) {
                // The first one of several counts (section 3.3).
                if name.lowercased() == "rel", relations == nil { relations = value }
            }
            let names = relations?.split(whereSeparator: \.isWhitespace).map { $0.lowercased() } ?? []
            if names.contains(relation) { return target }
        }
    }

    /// `;name=value` or `;name="value"`; nil at the end of the link.
    private static func nextParameter(_ rest: inout Substring) -> (name: String, value: String)? {
        rest = rest.drop(while: \.isWhitespace)
        guard rest.first == ";" else { return nil }
        rest = rest.dropFirst().drop(while: \.isWhitespace)
        let name = rest.prefix { $0 != "=" && $0 != ";" && $0 != "," && !$0.isWhitespace }
        rest = rest[name.endIndex...].drop(while: \.isWhitespace)
        guard rest.first == "=" else { return (String(name), "") }
        rest = rest.dropFirst().drop(while: \.isWhitespace)
        guard rest.first == "\"" else {
            let value = rest.prefix { $0 != ";" && $0 != "," && !$0.isWhitespace }
            rest = rest[value.endIndex...]
            return (String(name), String(value))
        }
        rest = rest.dropFirst()
        var value = ""
        while let character = rest.popFirst(), character != "\"" {
            // A quoted pair (RFC 9110, section 5.6.4).
            if character == "\\", let escaped = rest.popFirst() {
                value.append(escaped)
            } else {
                value.append(character)
            }
        }
        return (String(name), value)
    }
}
