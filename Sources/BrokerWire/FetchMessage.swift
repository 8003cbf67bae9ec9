package import BrokerJSON

/// A `fetch` as the client sent it. Valid as long as its document.
package struct FetchMessage {
    package enum Names: String, Sendable, CaseIterable { case remote, local }
    package enum Dates: String, Sendable, CaseIterable { case model, iso8601 }
    package enum ResultForm: String, Sendable, CaseIterable { case collection, object, dictionary, count }

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
    /// Attributes, to-one relationships, or key paths to them; empty for whole objects.
    package let select: [String]
    package let names: Names
    package let dates: Dates
    package let result: ResultForm
    /// The answer may consist of several messages.
    package let isStreamed: Bool
    /// A sequence that the server is to have applied before it reads.
    package let afterSequence: Int64?
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
        select = try root.optionalStrings("select", of: "names of attributes and relationships")
        names = try root.optionalWord("names", Names.self) ?? .remote
        dates = try root.optionalWord("dates", Dates.self) ?? .model
        result = try root.optionalWord("result", ResultForm.self) ?? .collection
        isStreamed = try root.optionalBool("stream") ?? false
        afterSequence = try root.optionalCount("afterSequence").map { Int64($0) }
    }
}
