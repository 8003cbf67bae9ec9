package import BrokerJSON

extension Job {
    /// The content of the message: the fields that differ from the defaults, then the operations. The same job gives the same
    /// bytes, so that it is known as the same when sent again.
    ///
    /// - Parameter id: nil asks the server to make one.
    /// - Throws: ``BrokerError/Code/invalidJSON`` when a text of an operation is not exactly one JSON value; for what the server
    ///   would refuse whatever its model is, the server's code.
    package func content(id: JobID?, wantsAcceptance: Bool) throws(BrokerError) -> [UInt8] {
        try checkOptions(id: id)
        var writer = JSONWriter(capacity: 320 + operations.reduce(0) { $0 + $1.byteCount })
        try writer.object { writer throws(BrokerError) in
            writer.member("id", id?.text)
            if onInvalid != .fail { writer.member("onInvalid", onInvalid.rawValue) }
            if effectiveUnknownKeys != .warn { writer.member("unknown", effectiveUnknownKeys.rawValue) }
            if isDryRun { writer.member("dryRun", true) }
            maximumDeletions?.write(to: &writer)
            bookmark?.write(to: &writer)
            if reply != .summary { writer.member("reply", reply.rawValue) }
            if reply == .objects, dates != .model { writer.member("dates", dates.rawValue) }
            if wantsAcceptance { writer.words("notify", ["accepted", "completed"]) }
            if isLenient { writer.member("lenient", true) }
            writer.member("trace", trace)
            try writeOperations(to: &writer)
        }
        return writer.bytes
    }

    /// - Throws: for what the server would refuse of a job whatever its operations and its model are, the server's code.
    package func checkOptions(id: JobID?) throws(BrokerError) {
        if let id, id.text.utf8.starts(with: JobID.reservedPrefix.utf8) {
            throw .refused(.unsupportedMessage, "Ids that begin with \"\(JobID.reservedPrefix)\" are the server's own.")
        }
        if let count = trace?.utf8.count, count > Self.longestTrace {
            throw .refused(
                .unsupportedMessage, "A trace has at most \(Self.longestTrace) bytes; this one has \(count).")
        }
        try onInvalid.check(among: OnInvalid.known, as: "onInvalid")
        try effectiveUnknownKeys.check(among: UnknownKeys.known, as: "unknownKeys")
        try maximumDeletions?.check()
        try bookmark?.check()
        try reply.check(among: Reply.known, as: "reply")
        if reply == .objects { try dates.check(among: Query.Dates.known, as: "dates") }
    }

    /// Writes the members of the only operation, or the array of several.
    ///
    /// - Throws: as ``content(id:wantsAcceptance:)``.
    package func writeOperations(to writer: inout JSONWriter) throws(BrokerError) {
        guard !operations.isEmpty else { throw .refused(.unsupportedMessage, "The job has no operations.") }
        if operations.count == 1 {
            try operations[0].write(to: &writer, JSONPlace(isLenient: isLenient))
            return
        }
        try writer.array("operations") { writer throws(BrokerError) in
            for (index, operation) in operations.enumerated() {
                // A value of an operation is inside the message, the array `operations` and the operation.
                let place = JSONPlace(path: "/operations/\(index)", isLenient: isLenient, levels: 3)
                try writer.object { writer throws(BrokerError) in try operation.write(to: &writer, place) }
            }
        }
    }

    /// With the default that depends on the operations.
    package var effectiveUnknownKeys: UnknownKeys {
        unknownKeys ?? (operations.contains { $0.records?.hasEncodedMembers == true } ? .fail : .warn)
    }
}

extension RawRepresentable<String> where Self: Equatable {
    /// - Throws: the server's code for a word that it would refuse.
    func check(among known: [Self], as name: String) throws(BrokerError) {
        guard known.contains(self) else { throw .unknownWord(rawValue, of: name) }
    }
}

extension JSONWriter {
    mutating func words(_ key: String, _ words: some Sequence<String>) {
        array(key) { writer in for word in words { writer.string(word) } }
    }
}

extension Job.Bookmark {
    /// - Throws: the server's code for a name that it would refuse.
    package static func check(name: String) throws(BrokerError) {
        guard !nameCounts.contains(name.utf8.count) else { return }
        throw .refused(
            .unsupportedMessage,
            "The name of a bookmark has \(nameCounts.lowerBound) to \(nameCounts.upperBound) bytes; this one has "
                + "\(name.utf8.count).")
    }

    fileprivate func check() throws(BrokerError) {
        try Self.check(name: name)
        guard let count = value?.utf8.count, !Self.valueCounts.contains(count) else { return }
        throw .refused(
            .unsupportedMessage,
            "The value of a bookmark has at most \(Self.valueCounts.upperBound) bytes; this one has \(count).")
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.object("bookmark") { writer in
            writer.member("name", name)
            writer.key("value")
            if let value { writer.string(value) } else { writer.null() }
        }
    }
}

extension Job.DeletionLimit {
    fileprivate func check() throws(BrokerError) {
        switch self {
        case .objects(let count) where count >= 0: return
        case .percent(let percent) where (0...100).contains(percent): return
        case .objects, .percent:
            throw .refused(
                .unsupportedMessage,
                "A limit of deletions is a number from 0, or a percentage from 0 to 100, not \(self).")
        }
    }

    fileprivate func write(to writer: inout JSONWriter) {
        switch self {
        case .objects(let count): writer.member("maximumDeletions", count)
        case .percent(let percent):
            let thousandths = Self.thousandths(percent)
            let fraction = String(String(thousandths % 1_000 + 1_000).dropFirst())
            writer.member(
                "maximumDeletions",
                "\(thousandths / 1_000)" + (thousandths % 1_000 == 0 ? "%" : ".\(fraction)%"))
        }
    }

    /// The thousandths of a percentage.
    package static func thousandths(_ percent: Double) -> Int { Int((percent * 1_000).rounded()) }
}

// MARK: - Operations

extension Job.Operation {
    /// Writes the members of the operation in the message. A `process`, the default, has no name.
    ///
    /// - Parameter place: that of the operation's fields in the message.
    /// - Throws: ``BrokerError/Code/invalidJSON``, or the code by which the server would refuse the operation.
    fileprivate func write(to writer: inout JSONWriter, _ place: JSONPlace) throws(BrokerError) {
        try checkNames()
        writer.member("op", word)
        if word != "map" { writer.member("entity", entity) }
        switch action {
        case .process(let json, let object):
            if let object { try writer.member("object", object, in: place) }
            try writer.member("json", json, in: place)
        case .relate(let json, let relationship, let object):
            try writer.member("object", object, in: place)
            writer.member("relationship", relationship)
            try writer.member("json", json, in: place)
        case .sync(let json, let predicate, let actions, let part):
            if let predicate { try writer.member(predicate, in: place) }
            if actions != .all { writer.words("actions", try Self.known(actions).map(\.rawValue)) }
            if let part {
                writer.object("part") { writer in
                    writer.member("id", part.id)
                    writer.member("last", part.isLast)
                }
            }
            try writer.member("json", json, in: place)
        case .map(let json, let reading):
            writer.member("mapping", reading.mapping)
            writer.member("path", reading.path)
            try writer.member("json", json, in: place)
        case .delete(let keys): try writer.member("objects", keys, in: place)
        case .deleteMatching(let predicate): try writer.member(predicate, in: place)
        }
        // After the proof, so that a text that is no JSON is reported as that.
        try checkKind()
    }

    private var word: String? {
        switch action {
        case .process: nil
        case .relate: "relate"
        case .sync: "sync"
        case .map: "map"
        case .delete, .deleteMatching: "delete"
        }
    }

    private static func known(_ actions: Set<SyncAction>) throws(BrokerError) -> [SyncAction] {
        for action in actions { try action.check(among: SyncAction.known, as: "the actions of a sync") }
        return SyncAction.known.filter(actions.contains)
    }

    /// The records; nil when there are only keys or a predicate.
    fileprivate var records: RawJSON? {
        switch action {
        case .process(let json, _), .relate(let json, _, _), .sync(let json, _, _, _), .map(let json, _): json
        case .delete, .deleteMatching: nil
        }
    }

    /// About the bytes that it has in a message.
    fileprivate var byteCount: Int {
        if case .delete(let keys) = action { return keys.bytes.count + 64 }
        return (records?.bytes.count ?? 0) + entity.utf8.count + 64
    }

    // Faults that the server would refuse whatever its model is.

    private func checkNames() throws(BrokerError) {
        if case .map(_, let reading) = action {
            if reading.mapping == "" { throw .refused(.unknownMapping, "The mapping's name is empty.") }
            guard let count = reading.path?.utf8.count, count > Self.longestPath else { return }
            throw .refused(
                .unsupportedMessage,
                "The path of a payload has at most \(Self.longestPath) bytes; this one has \(count). Give the path of the "
                    + "resource without the host.")
        }
        if entity.isEmpty { throw .refused(.unknownEntity, "The entity's name is empty.") }
        switch action {
        case .relate(_, "", _): throw .refused(.unknownRelationship, "The relationship's name is empty.")
        case .sync(_, _, _, let part?) where !JobID.byteCounts.contains(part.id.utf8.count):
            throw .refused(
                .unsupportedMessage, "The id of a sync's part has 1 to 128 bytes; this one has \(part.id.utf8.count).")
        default: break
        }
    }

    private func checkKind() throws(BrokerError) {
        switch action {
        case .process(let json, _) where !json.begins(with: "{", "["):
            throw .refused(.invalidValue, "A record is a JSON object; give one, or an array of them.")
        case .sync(let json, _, _, _) where !json.begins(with: "["):
            throw .refused(.unsupportedMessage, "A sync takes an array of records: all that there are to be.")
        default: break
        }
    }
}

extension RawJSON {
    /// Whether the first byte that is no white space is one of these.
    fileprivate func begins(with signs: Unicode.Scalar...) -> Bool {
        let first = bytes.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        return signs.contains { UInt8(ascii: $0) == first }
    }
}

// MARK: - JSON text in a message

/// Where JSON text becomes a part of a message.
struct JSONPlace {
    /// A JSON Pointer to the object whose members are written.
    var path = ""
    /// The message has `lenient`.
    var isLenient = false
    /// Objects and arrays of the message around a value; the depth limit counts them.
    var levels = 1
}

extension JSONWriter {
    /// Writes a member that is a text of the caller, proven to be exactly one value, so that it stays that one value in the message.
    ///
    /// Without the proof, a text such as `[],"op":"delete"` adds members to the message, and the last one of two equal keys counts.
    ///
    /// - Throws: ``BrokerError/Code/invalidJSON`` when it is not exactly one value.
    mutating func member(_ key: String, _ json: RawJSON, in place: JSONPlace) throws(BrokerError) {
        self.key(key)
        try proven(json, in: place, at: key)
    }

    /// Writes `where` and `arguments`; each of these is proven on its own.
    mutating func member(_ predicate: BrokerPredicate, in place: JSONPlace) throws(BrokerError) {
        try predicate.check()
        member("where", predicate.format)
        guard !predicate.arguments.isEmpty else { return }
        var place = place
        place.levels += 1
        try array("arguments") { [place] writer throws(BrokerError) in
            for (index, argument) in predicate.arguments.enumerated() {
                try writer.proven(argument, in: place, at: "arguments/\(index)")
            }
        }
    }

    private mutating func proven(_ json: RawJSON, in place: JSONPlace, at key: String) throws(BrokerError) {
        let depth = JSONDocument.defaultMaximumDepth - place.levels
        if json.knownDepth.map({ $0 >= depth }) ?? true {
            do throws(JSONError) {
                try json.prove(maximumDepth: depth, isLenient: place.isLenient)
            } catch {
                var fault = BrokerError.Fault(
                    code: .malformedJSON,
                    message:
                        "The text is not exactly one JSON value: \(error). Nothing was sent. Give one value in UTF-8, with "
                        + "nothing after it.", path: "\(place.path)/\(key)")
                fault.line = error.position.line
                fault.column = error.position.column
                fault.offset = error.position.offset
                throw .invalidJSON(fault)
            }
        }
        raw(json.bytes)
    }
}

extension RawJSON {
    /// Parses the text and discards the parsed result.
    ///
    /// - Parameter isLenient: commas before a closing bracket are accepted, as the server accepts them in a message with `lenient`.
    /// - Throws: ``JSONError`` when the text is not one value, or is nested too deeply.
    package func prove(
        maximumDepth: Int = JSONDocument.defaultMaximumDepth - 1, isLenient: Bool = false
    ) throws(JSONError) {
        let text = JSONText(copying: bytes)
        do throws(JSONError) {
            _ = try JSONDocument(parsing: text, maximumDepth: maximumDepth)
        } catch {
            // A text that is not even lenient JSON is reported by its first, strict error.
            guard isLenient, let strict = text.blankingTrailingCommas(),
                (try? JSONDocument(parsing: strict, maximumDepth: maximumDepth)) != nil
            else { throw error }
        }
    }
}
