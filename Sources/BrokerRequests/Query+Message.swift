package import Broker
package import BrokerWire

extension Query {
    /// The members of the message.
    ///
    /// - Parameter isStreamed: the objects come in several answers.
    /// - Throws: ``BrokerError/Code/invalidJSON`` when an argument or a key is not exactly one JSON value.
    package func members(isStreamed: Bool = false) throws(BrokerError) -> [(key: String, value: ProvenJSON)] {
        var members: [(key: String, value: ProvenJSON)] = [("entity", .string(entity))]
        if let predicate {
            if let fault = predicate.fault { throw fault }
            members.append(("where", .string(predicate.format)))
            if !predicate.arguments.isEmpty {
                members.append(("arguments", try RawJSON.proven(predicate.arguments, at: "/arguments")))
            }
        }
        if let object { members.append(("object", try object.proven(at: "/object"))) }
        if let after { members.append(("after", try after.proven(at: "/after"))) }
        for (key, texts) in [("sort", sort), ("include", include)] where !texts.isEmpty {
            members.append((key, .array(texts.map(ProvenJSON.string))))
        }
        if let limit { members.append(("limit", .integer(limit))) }
        if offset != 0 { members.append(("offset", .integer(offset))) }
        if names != .remote { members.append(("names", .string(names.rawValue))) }
        if form != .collection { members.append(("result", .string(form.rawValue))) }
        if isStreamed { members.append(("stream", .true)) }
        return members
    }
}
