package import BrokerJSON

extension Job {
    /// The content of the message: the fields that differ from the defaults, then the operations. The same job gives the same
    /// bytes, so that it is known as the same when sent again.
    ///
    /// - Parameter id: nil asks the server to make one.
    /// - Throws: ``BrokerError/Code/invalidJSON`` when a text of an operation is not exactly one JSON value, or
    ///   ``BrokerError/Code/notEncodable``. What the values mean is for the server to judge.
    package func content(id: JobID?, wantsAcceptance: Bool) throws(BrokerError) -> [UInt8] {
        let names = try effectiveNames
        var writer = JSONWriter(capacity: 320 + operations.reduce(0) { $0 + $1.byteCount })
        try writer.object { writer throws(BrokerError) in
            writer.member("id", id?.text)
            if onInvalid != .fail { writer.member("onInvalid", onInvalid.rawValue) }
            if effectiveUnknownKeys != .warn { writer.member("unknown", effectiveUnknownKeys.rawValue) }
            if names != .payload { writer.member("names", names.rawValue) }
            if isDryRun { writer.member("dryRun", true) }
            maximumDeletions?.write(to: &writer)
            bookmark?.write(to: &writer)
            if reply != .summary { writer.member("reply", reply.rawValue) }
            if reply == .objects, dates != .model, names == .payload { writer.member("dates", dates.rawValue) }
            if wantsAcceptance { writer.words("notify", ["accepted", "completed"]) }
            if allowsTrailingCommas { writer.member("lenient", true) }
            writer.member("trace", trace)
            try writeOperations(to: &writer)
        }
        return writer.bytes
    }

    /// Writes the members of the only operation, or the array of several.
    ///
    /// - Throws: as ``content(id:wantsAcceptance:)``.
    package func writeOperations(to writer: inout JSONWriter) throws(BrokerError) {
        if operations.count == 1 {
            try operations[0].write(to: &writer, JSONPlace(isLenient: allowsTrailingCommas))
            return
        }
        try writer.array("operations") { writer throws(BrokerError) in
            for (index, operation) in operations.enumerated() {
                // A value of an operation is inside the message, the array `operations` and the operation.
                let place = JSONPlace(path: "/operations/\(index)", isLenient: allowsTrailingCommas, levels: 3)
                try writer.object { writer throws(BrokerError) in try operation.write(to: &writer, place) }
            }
        }
    }

    /// With the default that depends on the operations.
    ///
    /// - Throws: ``BrokerError/Code/notEncodable`` when the types of the records have different names.
    package var effectiveNames: Query.Names {
        get throws(BrokerError) {
            let known = Set(operations.compactMap(\.names))
            guard known.count < 2 else {
                throw .notEncodable(
                    "the types of the job's records have keys of both kinds, of payloads and of the model (`names`). Send two jobs"
                )
            }
            return names ?? known.first ?? .payload
        }
    }

    /// With the default that depends on the operations.
    package var effectiveUnknownKeys: UnknownKeys {
        unknownKeys ?? (operations.contains { $0.records?.hasEncodedMembers == true } ? .fail : .warn)
    }
}

extension JSONWriter {
    mutating func words(_ key: String, _ words: some Sequence<String>) {
        array(key) { writer in for word in words { writer.string(word) } }
    }
}

extension Job.Bookmark {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.object("bookmark") { writer in
            writer.member("name", name)
            writer.key("value")
            if let value { writer.string(value) } else { writer.null() }
        }
    }
}

extension Job.DeletionLimit {
    fileprivate func write(to writer: inout JSONWriter) {
        switch bound {
        case .objects(let count): writer.member("maximumDeletions", count)
        case .percent(let percent):
            // To three digits, without those that are 0; what is no such percentage is refused as it is.
            let thousandths = (percent * 1_000).rounded()
            guard let whole = Int(exactly: thousandths), whole >= 0 else {
                return writer.member("maximumDeletions", "\(percent)%")
            }
            let fraction = String(String(whole % 1_000 + 1_000).dropFirst())
            writer.member("maximumDeletions", "\(whole / 1_000)" + (whole % 1_000 == 0 ? "%" : ".\(fraction)%"))
        }
    }
}

// MARK: - Operations

/// A field of a message, with its value in the form in which it is sent.
package struct MessageField: Sendable, Equatable {
    package enum Value: Sendable, Equatable {
        case json(RawJSON), predicate(BrokerPredicate), text(String), texts([String]), bool(Bool)
        case members([MessageField])
    }

    package let key: String
    package let value: Value

    package init(_ key: String, _ value: Value) { (self.key, self.value) = (key, value) }

    /// `where`, and its arguments.
    package init(_ predicate: BrokerPredicate) { self.init("where", .predicate(predicate)) }

    /// The object that an operation is about.
    package static func object(_ key: RawJSON) -> MessageField { MessageField("object", .json(key)) }

    /// - Throws: ``BrokerError/Code/invalidJSON``.
    func write(to writer: inout JSONWriter, _ place: JSONPlace) throws(BrokerError) {
        switch value {
        case .json(let json): try writer.member(key, json, in: place)
        case .predicate(let predicate): try writer.member(predicate, in: place)
        case .text(let text): writer.member(key, text)
        case .texts(let texts): writer.words(key, texts)
        case .bool(let bool): writer.member(key, bool)
        case .members(let fields):
            writer.key(key)
            let inner = JSONPlace(path: "\(place.path)/\(key)", isLenient: place.isLenient, levels: place.levels + 1)
            try writer.object { writer throws(BrokerError) in
                for field in fields { try field.write(to: &writer, inner) }
            }
        }
    }
}

extension Job.Operation {
    /// Writes the fields of the operation in the message.
    ///
    /// - Parameter place: that of the fields in the message.
    /// - Throws: ``BrokerError/Code/invalidJSON``.
    fileprivate func write(to writer: inout JSONWriter, _ place: JSONPlace) throws(BrokerError) {
        writer.member("op", word)
        if word != "map" { writer.member("entity", entity) }
        try expectation?.field.write(to: &writer, place)
        for field in fields { try field.write(to: &writer, place) }
    }

    private func json(_ key: String) -> RawJSON? {
        for field in fields where field.key == key { if case .json(let json) = field.value { return json } }
        return nil
    }

    /// The records; nil when there are only keys or a predicate.
    fileprivate var records: RawJSON? { json("json") }

    /// About the bytes that it has in a message.
    fileprivate var byteCount: Int {
        ((records ?? json("objects"))?.bytes.count ?? 0) + entity.utf8.count + 64
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
        if let fault = predicate.fault { throw fault }
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
