package import BrokerJSON

/// A `fetch` as the client sent it. Valid as long as its document.
package struct FetchMessage {
    package enum Names: String, Sendable, CaseIterable { case remote, local }
    package enum Dates: String, Sendable, CaseIterable { case model, iso8601 }
    package enum ResultForm: String, Sendable, CaseIterable { case collection, object, dictionary }

    package let entity: String
    /// A predicate.
    package let condition: String?
    /// The client's value of any kind.
    package let arguments: JSONValue?
    /// The key of one object: the client's value of any kind.
    package let object: JSONValue?
    /// The key after which the objects come: the client's value of any kind.
    package let after: JSONValue?
    package let sort: [String]
    /// Nil for the server's default.
    package let limit: Int?
    package let offset: Int
    package let include: [String]
    package let names: Names
    package let dates: Dates
    package let result: ResultForm
    /// The answer may consist of several messages.
    package let isStreamed: Bool
}

extension FetchMessage {
    init(_ root: JSONValue) throws(WireError) {
        guard let entity = try root.optionalString("entity", in: "") else {
            throw WireError(
                .unsupportedMessage, "A `fetch` needs `entity`: the name of the objects' entity in the model.",
                path: "/entity")
        }
        self.entity = entity
        condition = try root.optionalString("where", in: "")
        arguments = root["arguments"]
        guard arguments == nil || condition != nil else {
            throw WireError(
                .unsupportedMessage, "There are `arguments`, and no `where` that they could be filled in.",
                path: "/arguments")
        }
        object = root["object"]
        after = root["after"]
        sort = try root.optionalStrings("sort", of: "attribute names")
        limit = try root.optionalCount("limit")
        offset = try root.optionalCount("offset") ?? 0
        include = try root.optionalStrings("include", of: "relationship paths")
        names = try root.optionalWord("names", Names.self) ?? .remote
        dates = try root.optionalWord("dates", Dates.self) ?? .model
        result = try root.optionalWord("result", ResultForm.self) ?? .collection
        isStreamed = try root.optionalBool("stream") ?? false
    }
}

extension JSONValue {
    /// Returns a member that is an array of strings; an empty array when it is missing.
    fileprivate func optionalStrings(_ key: String, of what: String) throws(WireError) -> [String] {
        guard let list = self[key] else { return [] }
        guard list.kind == .array else { throw list.isNo("an array of \(what)", at: "/\(key)") }
        var strings: [String] = []
        for element in list.elements {
            guard let string = element.string else {
                throw WireError(
                    .unsupportedMessage, "`\(key)` is an array of \(what), and \(element.kind.phrase) is none.",
                    path: "/\(key)/\(strings.count)")
            }
            strings.append(string)
        }
        return strings
    }

    /// Returns a member that is a whole number from 0; nil when it is missing.
    fileprivate func optionalCount(_ key: String) throws(WireError) -> Int? {
        guard let value = self[key] else { return nil }
        guard value.kind == .number else { throw value.isNo("a whole number", at: "/\(key)") }
        guard let number = value.wholeNumber, number >= 0 else {
            let text = String(decoding: value.bytes.prefix(20), as: UTF8.self)
            throw WireError(
                .unsupportedMessage, "`\(key)` is a whole number from 0, not \(text).", path: "/\(key)")
        }
        return Int(number)
    }
}
