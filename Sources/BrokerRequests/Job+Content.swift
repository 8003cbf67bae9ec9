package import Broker
internal import BrokerJSON
internal import BrokerWire

extension Job {
    /// The content of the message: the fields that differ from the defaults, then the operations. The same job gives the same
    /// bytes, so that it is known as the same when sent again.
    ///
    /// - Parameter id: nil asks the server to make one.
    /// - Throws: ``BrokerError/Code/invalidJSON`` when a text of an operation is not exactly one JSON value; for what the server
    ///   would refuse whatever its model is, the server's code.
    package func content(id: JobID?, wantsAcceptance: Bool) throws(BrokerError) -> [UInt8] {
        if let id, id.text.utf8.starts(with: JobMessage.reservedIDPrefix.utf8) {
            throw .refused(
                .unsupportedMessage, "Ids that begin with \"\(JobMessage.reservedIDPrefix)\" are the server's own.")
        }
        if let count = trace?.utf8.count, count > JobMessage.longestTrace {
            throw .refused(
                .unsupportedMessage, "A trace has at most \(JobMessage.longestTrace) bytes; this one has \(count).")
        }
        let operations = try operationMembers()
        let unknownKeys = unknownKeys ?? defaultUnknownKeys
        try Self.check(onInvalid, [.fail, .skip], "onInvalid")
        try Self.check(unknownKeys, [.warn, .fail], "unknownKeys")
        try maximumDeletions?.check()
        try bookmark?.check()
        try Self.check(reply, [.none, .summary, .keys, .objects], "reply")
        if reply == .objects { try Self.check(dates, [.model, .iso8601], "dates") }
        var writer = JSONWriter(
            capacity: 320 + operations.joined().reduce(0) { $0 + $1.value.bytes.count })
        writer.object { writer in
            writer.member("id", id?.text)
            if onInvalid != .fail { writer.member("onInvalid", onInvalid.rawValue) }
            if unknownKeys != .warn { writer.member("unknown", unknownKeys.rawValue) }
            if isDryRun { writer.member("dryRun", true) }
            maximumDeletions?.write(to: &writer)
            bookmark?.write(to: &writer)
            if reply != .summary { writer.member("reply", reply.rawValue) }
            if reply == .objects, dates != .model { writer.member("dates", dates.rawValue) }
            if wantsAcceptance {
                writer.key("notify")
                writer.raw(#"["accepted","completed"]"#.utf8)
            }
            if isLenient { writer.member("lenient", true) }
            writer.member("trace", trace)
            if operations.count == 1 {
                writer.members(operations[0])
            } else {
                writer.array("operations") { writer in
                    for operation in operations { writer.object { $0.members(operation) } }
                }
            }
        }
        return writer.bytes
    }

    private var defaultUnknownKeys: UnknownKeys {
        operations.contains { $0.records?.hasEncodedMembers == true } ? .fail : .warn
    }

    private static func check<Word: RawRepresentable<String> & Equatable>(
        _ word: Word, _ known: [Word], _ name: String
    ) throws(BrokerError) {
        guard known.contains(word) else { throw .unknownWord(word.rawValue, of: name) }
    }

    private func operationMembers() throws(BrokerError) -> [[(key: String, value: ProvenJSON)]] {
        guard !operations.isEmpty else { throw .refused(.unsupportedMessage, "The job has no operations.") }
        if let only = operations.first, operations.count == 1 {
            return [try only.members(at: "", isLenient: isLenient, levels: 1)]
        }
        // A value of an operation is inside the message, the array `operations` and the operation.
        var members: [[(key: String, value: ProvenJSON)]] = []
        for (index, operation) in operations.enumerated() {
            members.append(try operation.members(at: "/operations/\(index)", isLenient: isLenient, levels: 3))
        }
        return members
    }
}

extension JSONWriter {
    fileprivate mutating func members(_ members: [(key: String, value: ProvenJSON)]) {
        for (key, value) in members {
            self.key(key)
            raw(value.bytes)
        }
    }
}

extension Job.Bookmark {
    fileprivate func check() throws(BrokerError) {
        let (names, values) = (JobMessage.Bookmark.nameCounts, JobMessage.Bookmark.valueCounts)
        guard names.contains(name.utf8.count), values.contains(value?.utf8.count ?? 0) else {
            throw .refused(
                .unsupportedMessage,
                "The name of a bookmark has \(names.lowerBound) to \(names.upperBound) bytes, and its value at most "
                    + "\(values.upperBound); these have \(name.utf8.count) and \(value?.utf8.count ?? 0).")
        }
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
            let thousandths = Int((percent * 1_000).rounded())
            let fraction = String(String(thousandths % 1_000 + 1_000).dropFirst())
            writer.member(
                "maximumDeletions",
                "\(thousandths / 1_000)" + (thousandths % 1_000 == 0 ? "%" : ".\(fraction)%"))
        }
    }
}

// MARK: - Operations

extension Job.Operation {
    /// The members of the operation in the message. A `process`, the default, has no name.
    ///
    /// - Parameters:
    ///   - pointer: a JSON Pointer to the operation's fields in the message.
    ///   - isLenient: the message has `lenient`.
    ///   - levels: objects and arrays of the message around a value of the operation.
    /// - Throws: ``BrokerError/Code/invalidJSON``, or the code by which the server would refuse the operation.
    fileprivate func members(
        at pointer: String, isLenient: Bool, levels: Int
    ) throws(BrokerError) -> [(key: String, value: ProvenJSON)] {
        var members: [(key: String, value: ProvenJSON)] = []
        func text(_ key: String, _ text: String) { members.append((key, .string(text))) }
        func proven(_ key: String, _ json: RawJSON) throws(BrokerError) {
            members.append(
                (key, try json.proven(at: "\(pointer)/\(key)", isLenient: isLenient, enclosingLevels: levels)))
        }
        func selection(_ predicate: BrokerPredicate) throws(BrokerError) {
            try predicate.check()
            text("where", predicate.format)
            guard !predicate.arguments.isEmpty else { return }
            let arguments = try RawJSON.proven(
                predicate.arguments, at: "\(pointer)/arguments", isLenient: isLenient, enclosingLevels: levels)
            members.append(("arguments", arguments))
        }
        try checkNames()
        if let word { text("op", word) }
        if word != "map" { text("entity", entity) }
        switch action {
        case .process(let json, let object):
            if let object { try proven("object", object) }
            try proven("json", json)
        case .relate(let json, let relationship, let object):
            try proven("object", object)
            text("relationship", relationship)
            try proven("json", json)
        case .sync(let json, let predicate, let actions, let part):
            if let predicate { try selection(predicate) }
            if actions != .all { members.append(("actions", try Self.words(of: actions))) }
            if let part { members.append(("part", part.json)) }
            try proven("json", json)
        case .map(let json, let reading):
            if let mapping = reading.mapping { text("mapping", mapping) }
            if let path = reading.path { text("path", path) }
            try proven("json", json)
        case .delete(let keys): try proven("objects", keys)
        case .deleteMatching(let predicate): try selection(predicate)
        }
        // After the proof, so that a text that is no JSON is reported as that.
        try checkKind()
        return members
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

    private static func words(of actions: Set<SyncAction>) throws(BrokerError) -> ProvenJSON {
        let known: [SyncAction] = [.insert, .update, .delete]
        if let other = actions.first(where: { !known.contains($0) }) {
            throw .unknownWord(other.rawValue, of: "the actions of a sync")
        }
        return .array(known.filter(actions.contains).map { .string($0.rawValue) })
    }

    /// The records; nil when there are only keys or a predicate.
    fileprivate var records: RawJSON? {
        switch action {
        case .process(let json, _), .relate(let json, _, _), .sync(let json, _, _, _), .map(let json, _): json
        case .delete, .deleteMatching: nil
        }
    }

    // Faults that the server would refuse whatever its model is.

    private func checkNames() throws(BrokerError) {
        if case .map(_, let reading) = action {
            if reading.mapping == "" { throw .refused(.unknownMapping, "The mapping's name is empty.") }
            guard let count = reading.path?.utf8.count, count > OperationMessage.maximumPathCount else { return }
            throw .refused(
                .unsupportedMessage,
                "The path of a payload has at most \(OperationMessage.maximumPathCount) bytes; this one has \(count). Give "
                    + "the path of the resource without the host.")
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

extension Job.Operation.SyncPart {
    fileprivate var json: ProvenJSON {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("id", id)
            writer.member("last", isLast)
        }
        return ProvenJSON(unchecked: writer.bytes)
    }
}

extension RawJSON {
    /// Whether the first byte that is no white space is one of these.
    fileprivate func begins(with signs: Unicode.Scalar...) -> Bool {
        let first = bytes.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        return signs.contains { UInt8(ascii: $0) == first }
    }
}
