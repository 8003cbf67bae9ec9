package import Broker
package import BrokerWire

extension Query {
    /// The members of the message.
    ///
    /// - Parameter isStreamed: the objects come in several answers.
    /// - Throws: ``BrokerError/Code/invalidJSON`` when an argument or a key is not exactly one JSON value; for what the server
    ///   would refuse whatever its model is, the server's code.
    package func members(isStreamed: Bool = false) throws(BrokerError) -> [(key: String, value: ProvenJSON)] {
        try check(isStreamed: isStreamed)
        var members: [(key: String, value: ProvenJSON)] = [("entity", .string(entity))]
        if let predicate {
            try predicate.check()
            members.append(("where", .string(predicate.format)))
            if !predicate.arguments.isEmpty {
                members.append(("arguments", try RawJSON.proven(predicate.arguments, at: "/arguments")))
            }
        }
        if let object { members.append(("object", try object.proven(at: "/object"))) }
        if let after { members.append(("after", try after.proven(at: "/after"))) }
        for (key, texts) in [("sort", sort), ("include", include), ("select", select)] where !texts.isEmpty {
            members.append((key, .array(texts.map(ProvenJSON.string))))
        }
        if let limit { members.append(("limit", .integer(limit))) }
        if offset != 0 { members.append(("offset", .integer(offset))) }
        if names != .remote { members.append(("names", .string(names.rawValue))) }
        if dates != .model, names == .remote { members.append(("dates", .string(dates.rawValue))) }
        if form != .collection { members.append(("result", .string(form.rawValue))) }
        if isStreamed { members.append(("stream", .true)) }
        if let afterSequence { members.append(("afterSequence", .integer(Int(afterSequence)))) }
        return members
    }

    /// Objects of one answer.
    private static let limits = 0...100_000
    private static let maximumSortTerms = 64

    private func check(isStreamed: Bool) throws(BrokerError) {
        func refuse(_ message: String) -> BrokerError { .refused(.unsupportedMessage, message) }
        if entity.isEmpty { throw .refused(.unknownEntity, "The entity's name is empty.") }
        if let limit, limit < 0 { throw refuse("A limit is 0 or more, not \(limit).") }
        if let limit, !isStreamed, form != .count, !Self.limits.contains(limit) {
            throw refuse(
                "One answer has at most \(Self.limits.upperBound) objects, and the limit is \(limit). Fetch the rest with "
                    + "`after`, or all with `results(of:)`.")
        }
        if offset < 0 { throw refuse("An offset is 0 or more, not \(offset).") }
        if after != nil, !sort.isEmpty {
            throw refuse(
                "`after` continues in the order of the keys, and `sort` asks for another order. Omit one of them.")
        }
        if sort.count > Self.maximumSortTerms {
            throw refuse("At most \(Self.maximumSortTerms) attributes can be sorted by, and there are \(sort.count).")
        }
        if ![.remote, .local].contains(names) { throw .unknownWord(names.rawValue, of: "names") }
        if ![.model, .iso8601].contains(dates) { throw .unknownWord(dates.rawValue, of: "dates") }
        if !include.isEmpty, !select.isEmpty {
            throw refuse("`select` names all values of the objects, and `include` asks for more. Omit one of them.")
        }
        if ![.collection, .object, .dictionary, .count].contains(form) {
            throw .unknownWord(form.rawValue, of: "result")
        }
        if isStreamed, form != .collection {
            throw refuse(
                "Several answers are arrays of objects, and the form is \(form.rawValue). Omit it, or use `fetch`.")
        }
    }
}
