package import BrokerJSON

extension Query.Names {
    package static let known: [Self] = [.remote, .local]
}

extension Query.Dates {
    package static let known: [Self] = [.model, .iso8601]
}

extension Query.Form {
    package static let known: [Self] = [.collection, .object, .dictionary, .count]
}

extension CommitQuery.Reply {
    package static let known: [Self] = [.summary, .keys]
}

extension AdminAction {
    package static let known: [Self] = [.pause, .resume, .drain, .checkpoint, .reload]
}

extension RemovedParts {
    package static let known: [Self] = [.refuse, .keep, .drop]
}

extension Query {
    /// Objects of one answer.
    private static let limits = 0...100_000
    private static let maximumSortTerms = 64

    /// Writes the members of the message.
    ///
    /// - Parameter isStreamed: the objects come in several answers.
    /// - Throws: ``BrokerError/Code/invalidJSON`` when an argument or a key is not exactly one JSON value; for what the server
    ///   would refuse whatever its model is, the server's code.
    package func write(isStreamed: Bool = false, to writer: inout JSONWriter) throws(BrokerError) {
        try check(isStreamed: isStreamed)
        writer.member("entity", entity)
        if let predicate { try writer.member(predicate, in: JSONPlace()) }
        if let object { try writer.member("object", object, in: JSONPlace()) }
        if let after { try writer.member("after", after, in: JSONPlace()) }
        for (key, texts) in [("sort", sort), ("include", include), ("select", select)] where !texts.isEmpty {
            writer.words(key, texts)
        }
        if let limit { writer.member("limit", limit) }
        if offset != 0 { writer.member("offset", offset) }
        if names != .remote { writer.member("names", names.rawValue) }
        if dates != .model, names == .remote { writer.member("dates", dates.rawValue) }
        if form != .collection { writer.member("result", form.rawValue) }
        if isStreamed { writer.member("stream", true) }
        if let afterSequence { writer.member("afterSequence", afterSequence) }
    }

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
        try names.check(among: Names.known, as: "names")
        try dates.check(among: Dates.known, as: "dates")
        if !include.isEmpty, !select.isEmpty {
            throw refuse("`select` names all values of the objects, and `include` asks for more. Omit one of them.")
        }
        try form.check(among: Form.known, as: "result")
        if isStreamed, form != .collection {
            throw refuse(
                "Several answers are arrays of objects, and the form is \(form.rawValue). Omit it, or use `fetch`.")
        }
    }
}

extension CommitQuery {
    /// Names of one subscription: a model has no more entities.
    package static let maximumEntities = 5_000

    /// - Throws: for what the server would refuse whatever its model is, the server's code.
    package func check() throws(BrokerError) {
        if let entities {
            guard (1...Self.maximumEntities).contains(entities.count) else {
                throw .refused(
                    .unsupportedMessage,
                    "1 to \(Self.maximumEntities) entities can be followed, not \(entities.count). Give nil for all entities."
                )
            }
            guard !entities.contains("") else { throw .refused(.unknownEntity, "The name of an entity is empty.") }
        }
        if let after, after < 0 {
            throw .refused(.unsupportedMessage, "A feed begins after a sequence from 0, not after \(after).")
        }
        try reply.check(among: Reply.known, as: "reply")
    }

    /// Writes the members of the message.
    ///
    /// - Throws: as ``check()``.
    package func write(to writer: inout JSONWriter) throws(BrokerError) {
        try check()
        if let entities { writer.words("entities", entities) }
        if let after { writer.member("after", after) }
        if reply != .summary { writer.member("reply", reply.rawValue) }
    }
}

extension BrokerError {
    /// The error that a server would answer with.
    static func refused(_ code: Code, _ message: String) -> BrokerError {
        BrokerError(code, "\(message) Nothing was sent.")
    }

    static func unknownWord(_ word: String, of what: String) -> BrokerError {
        refused(.unsupportedMessage, "The protocol does not know the word \"\(word)\" for \(what).")
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

    package static func unknown(_ action: AdminAction) -> BrokerError {
        refused(.unsupportedMessage, "There is no action \"\(action.rawValue)\".")
    }
}
