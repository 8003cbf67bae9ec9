package import Broker
internal import BrokerJSON
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

extension CommitQuery {
    /// Names of one subscription.
    private static let maximumEntities = 5_000

    /// The members of the message.
    ///
    /// - Throws: for what the server would refuse whatever its model is, the server's code.
    package func members() throws(BrokerError) -> [(key: String, value: ProvenJSON)] {
        var members: [(key: String, value: ProvenJSON)] = []
        if let entities {
            guard (1...Self.maximumEntities).contains(entities.count) else {
                throw .refused(
                    .unsupportedMessage,
                    "1 to \(Self.maximumEntities) entities can be followed, not \(entities.count). Give nil for all entities."
                )
            }
            guard !entities.contains("") else { throw .refused(.unknownEntity, "The name of an entity is empty.") }
            members.append(("entities", .array(entities.map(ProvenJSON.string))))
        }
        if let after {
            guard after >= 0 else {
                throw .refused(.unsupportedMessage, "A feed begins after a sequence from 0, not after \(after).")
            }
            members.append(("after", .integer(Int(after))))
        }
        guard [.summary, .keys].contains(reply) else { throw .unknownWord(reply.rawValue, of: "reply") }
        if reply != .summary { members.append(("reply", .string(reply.rawValue))) }
        return members
    }
}

extension RawJSON {
    /// This text as a part of a message.
    ///
    /// - Parameters:
    ///   - path: a JSON Pointer to its place in the message.
    ///   - isLenient: the message has `lenient`.
    ///   - enclosingLevels: objects and arrays of the message around it.
    /// - Throws: ``BrokerError/Code/invalidJSON`` when it is not exactly one value.
    package func proven(
        at path: String, isLenient: Bool = false, enclosingLevels: Int = 1
    ) throws(BrokerError) -> ProvenJSON {
        if let knownDepth, knownDepth < JSONDocument.defaultMaximumDepth - enclosingLevels {
            return ProvenJSON(unchecked: bytes)
        }
        do throws(JSONError) {
            return try ProvenJSON(proving: bytes, isLenient: isLenient, enclosingLevels: enclosingLevels)
        } catch {
            var fault = BrokerError.Fault(
                code: .malformedJSON,
                message:
                    "The text is not exactly one JSON value: \(error). Nothing was sent. Give one value in UTF-8, with "
                    + "nothing after it.", path: path)
            fault.line = error.position.line
            fault.column = error.position.column
            fault.offset = error.position.offset
            throw .invalidJSON(fault)
        }
    }

    /// An array of texts as a part of a message; each of them is proven on its own.
    package static func proven(
        _ elements: [RawJSON], at path: String, isLenient: Bool = false, enclosingLevels: Int = 1
    ) throws(BrokerError) -> ProvenJSON {
        var proven: [ProvenJSON] = []
        for (index, element) in elements.enumerated() {
            proven.append(
                try element.proven(
                    at: "\(path)/\(index)", isLenient: isLenient, enclosingLevels: enclosingLevels + 1))
        }
        return .array(proven)
    }
}

extension BrokerError {
    /// The error that a server would answer with.
    static func refused(_ code: Code, _ message: String) -> BrokerError {
        BrokerError(code, "\(message) Nothing was sent.")
    }

    static func unknownWord(_ word: String, of what: String) -> BrokerError {
        BrokerError(
            .unsupportedMessage, "The protocol does not know the word \"\(word)\" for \(what). Nothing was sent.")
    }

    /// - Throws: ``BrokerError/Code/unsupportedMessage`` for a path that is not absolute: the server runs in another folder.
    package static func checkBackupPath(_ file: String) throws(BrokerError) {
        guard file.utf8.first == UInt8(ascii: "/") else {
            throw refused(.unsupportedMessage, "The file of a backup is an absolute path; \"\(file)\" is none.")
        }
    }

    package static func unknown(_ parts: RemovedParts) -> BrokerError {
        refused(.unsupportedMessage, "Removed parts cannot be \"\(parts.rawValue)\": refuse, keep or drop.")
    }

    package static func unknown(_ action: Broker.AdminAction) -> BrokerError {
        refused(.unsupportedMessage, "There is no action \"\(action.rawValue)\".")
    }
}
