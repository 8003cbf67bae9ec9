package import BrokerJSON

/// The position of the records in a value: keys with dots between them, or a JSON Pointer (RFC 6901).
package struct RecordRoot: Sendable {
    /// The root as given.
    package let text: String
    package let tokens: [String]
    /// Numbers among the tokens may be indices of arrays.
    let isPointer: Bool

    /// Nil when it is no JSON Pointer but begins like one.
    package init?(_ text: String) {
        self.text = text
        isPointer = text.hasPrefix("/")
        guard isPointer else {
            tokens = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
            return
        }
        var tokens: [String] = []
        for escaped in text.split(separator: "/", omittingEmptySubsequences: false).dropFirst() {
            guard let token = Self.unescape(escaped) else { return nil }
            tokens.append(token)
        }
        self.tokens = tokens
    }

    /// A last token `*`: each member of the object there is a record of its own, an object with that one key.
    private static let members = "*"

    /// Its records are the members of an object.
    package var isMap: Bool { tokens.last == Self.members }

    /// Passes on the values at this position: one, or those in the elements of arrays on the way there.
    ///
    /// - Parameter body: gets a value, and its key if it is a member of the object at the position.
    /// - Throws: a description of the missing part and of the value instead; or what `body` throws.
    package func forEachValue(
        in value: JSONValue, _ body: (JSONValue, _ key: JSONValue?) throws(InputFault) -> Void
    ) throws(InputFault) {
        try forEachValue(in: value, at: 0, body)
    }

    private func forEachValue(
        in value: JSONValue, at depth: Int, _ body: (JSONValue, _ key: JSONValue?) throws(InputFault) -> Void
    ) throws(InputFault) {
        guard depth < tokens.count else { return try body(value, nil) }
        let token = tokens[depth]
        if let next = child(token, of: value) { return try forEachValue(in: next, at: depth + 1, body) }
        if token == Self.members, depth == tokens.count - 1, value.kind == .object {
            for (key, member) in value.members { try body(member, key) }
            return
        }
        if !isPointer, depth > 0, value.kind == .array {
            for element in value.elements { try forEachValue(in: element, at: depth, body) }
            return
        }
        let where_ = depth == 0 ? "" : " at \(path(tokens[..<depth]))"
        throw InputFault(reason: "there is no \"\(token)\"\(where_)\(Self.remedy(value))", place: nil)
    }

    private func child(_ token: String, of value: JSONValue) -> JSONValue? {
        guard isPointer, value.kind == .array else { return value[token] }
        guard let index = Int(token), index >= 0, String(index) == token else { return nil }
        return value.elements.dropFirst(index).first { _ in true }
    }

    private func path(_ tokens: ArraySlice<String>) -> String {
        isPointer ? tokens.map { "/" + $0.asPointerToken }.joined() : "\"\(tokens.joined(separator: "."))\""
    }

    /// The maximum number of an object's keys in a message.
    private static let namedKeys = 10

    private static func remedy(_ value: JSONValue) -> String {
        switch value.kind {
        case .object:
            let keys = value.members.prefix(namedKeys).map { "\"\($0.key.string ?? "")\"" }
            guard !keys.isEmpty else { return ", only an empty object" }
            return "; there \(keys.count == 1 ? "is" : "are") \(keys.joined(separator: ", "))"
        default: return ", only \(value.kind.phrase)"
        }
    }

    /// Nil when a tilde is followed by neither 0 nor 1.
    private static func unescape(_ token: Substring) -> String? {
        var unescaped = String.UnicodeScalarView()
        var isEscaped = false
        for scalar in token.unicodeScalars {
            switch (isEscaped, scalar) {
            case (true, "0"): unescaped.append("~")
            case (true, "1"): unescaped.append("/")
            case (true, _): return nil
            case (false, "~"):
                isEscaped = true
                continue
            case (false, _): unescaped.append(scalar)
            }
            isEscaped = false
        }
        return isEscaped ? nil : String(unescaped)
    }
}
