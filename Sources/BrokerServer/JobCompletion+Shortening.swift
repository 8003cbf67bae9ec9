internal import BrokerCoordinator
internal import BrokerFastJSON
internal import BrokerJSON
internal import BrokerModel
internal import BrokerWire

extension JobCompletion {
    /// Bytes of it that grow with the job.
    var byteCount: Int {
        switch result {
        case .completed(let members, _): members.count + (objects?.json?.count ?? 0)
        case .failed(let error): error.count
        }
    }

    /// The same outcome without the objects that were asked for, and a warning that they are missing.
    func withoutObjects() -> JobCompletion {
        guard let objects, case .completed(let members, let isDuplicate) = result else { return self }
        var outcome = self
        outcome.objects = nil
        outcome.result = .completed(
            members: ShortenedOutcome.members(members, lacking: objects.count, isDryRun: isDryRun),
            isDuplicate: isDuplicate)
        return outcome
    }

    /// How much of an answer is left.
    enum Shortening {
        /// Less than two megabytes: it fits every frame.
        case frame
        /// Some kilobytes, for a client that does not take its answers.
        case brief
    }

    /// The same outcome, shorter: what happened is there, and what is missing is named.
    func shortened(_ shortening: Shortening = .frame) -> JobCompletion {
        var outcome = self
        outcome.objects = nil
        switch result {
        case .completed(let members, let isDuplicate):
            outcome.result = .completed(
                members: ShortenedOutcome(shortening, isDryRun: isDryRun).members(of: members), isDuplicate: isDuplicate
            )
        case .failed(let error):
            outcome.result = .failed(error: ShortenedOutcome.error(error))
        }
        return outcome
    }

    /// The outcome of a job of which only the COMMIT is known.
    static func committed(_ id: String, sequence: Int64?, isDuplicate: Bool) -> JobCompletion {
        JobCompletion(
            id: id, owner: nil, sequence: sequence,
            result: .completed(
                members: ShortenedOutcome(.frame, isDryRun: false).members(of: []), isDuplicate: isDuplicate))
    }
}

/// Shortens answers that fit no frame.
private struct ShortenedOutcome {
    /// Bytes of the beginning of each list that are retained.
    private let listBytes: Int
    /// Bytes of any other member that are retained.
    private let valueBytes: Int
    private let isDryRun: Bool

    init(_ shortening: JobCompletion.Shortening, isDryRun: Bool) {
        (listBytes, valueBytes) = shortening == .frame ? (64 << 10, 1 << 20) : (1 << 10, 2 << 10)
        self.isDryRun = isDryRun
    }

    /// Bytes of a text that are retained.
    private static let textBytes = 1_000

    /// The members as they are, and a warning with the number of missing objects.
    static func members(_ members: [UInt8], lacking objects: Int, isDryRun: Bool) -> [UInt8] {
        let document = parse([UInt8(ascii: "{")] + members + [UInt8(ascii: "}")])
        guard let document else { return members }
        return withExtendedLifetime(document) {
            var writer = JSONWriter(capacity: members.count + 300)
            for (key, value) in document.root.members {
                let name = String(decoding: key.bytes, as: UTF8.self)
                writer.key(name)
                guard name == "warnings" else {
                    writer.value(value)
                    continue
                }
                writer.array { writer in
                    warn("objects", max(1, objects), isDryRun: isDryRun, &writer)
                    for warning in value.elements { writer.value(warning) }
                }
            }
            return writer.bytes
        }
    }

    /// Members of `completed` without the large ones, and a warning for each that is missing.
    func members(of members: [UInt8]) -> [UInt8] {
        let text = [UInt8(ascii: "{")] + members + [UInt8(ascii: "}")]
        let document = Self.parse(text)
        return withExtendedLifetime(document) {
            var leftOut: [(field: String, count: Int)] = []
            var writer = JSONWriter()
            copy("changes", of: document?.root, &writer, &leftOut) { $0.object { _ in } }
            let rejected = document?.root["rejected"]
            writer.key("rejected")
            writer.array { copyBeginning(of: rejected, "rejected", &$0, &leftOut) }
            if let keys = document?.root["keys"] {
                let count = keys.members.reduce(0) { $0 + $1.value.members.reduce(0) { $0 + $1.value.elementCount } }
                leftOut.append(("keys", max(1, count)))
            }
            if isDryRun, document?.root["examples"] != nil {
                copy("examples", of: document?.root, &writer, &leftOut) { $0.object { _ in } }
            }
            if document == nil { leftOut.append((field: "changes", count: 1)) }
            writer.key("warnings")
            writer.array { writer in
                copyBeginning(of: document?.root["warnings"], "warnings", &writer, &leftOut)
                for (field, count) in leftOut { Self.warn(field, count, isDryRun: isDryRun, &writer) }
            }
            return writer.bytes
        }
    }

    /// An `error` object whose texts are cut.
    static func error(_ error: [UInt8]) -> [UInt8] {
        let document = parse(error)
        return withExtendedLifetime(document) {
            var writer = JSONWriter()
            writer.object { writer in
                guard let document else { return }
                for (key, value) in document.root.members {
                    let name = String(decoding: key.bytes, as: UTF8.self)
                    if name == "message" {
                        writer.key(name)
                        writer.string(cut(value))
                    } else if value.bytes.count <= textBytes {
                        writer.key(name)
                        writer.value(value)
                    }
                }
            }
            return writer.bytes
        }
    }

    private static func parse(_ text: [UInt8]) -> JSONDocument? {
        // The server's own text is JSON; if it were not, only the facts known without it are sent.
        guard
            case .success(let document) = Result(catching: { () throws(JSONError) in
                try JSONDocument(fast: JSONText(copying: text))
            })
        else { return nil }
        return document.root["changes"] != nil || document.root["code"] != nil ? document : nil
    }

    private func copy(
        _ key: String, of root: JSONValue?, _ writer: inout JSONWriter, _ leftOut: inout [(field: String, count: Int)],
        orElse: (inout JSONWriter) -> Void
    ) {
        writer.key(key)
        guard let value = root?[key] else { return orElse(&writer) }
        guard value.bytes.count <= valueBytes else {
            leftOut.append((key, max(1, value.members.reduce(0) { count, _ in count + 1 })))
            return orElse(&writer)
        }
        writer.value(value)
    }

    private func copyBeginning(
        of list: JSONValue?, _ field: String, _ writer: inout JSONWriter,
        _ leftOut: inout [(field: String, count: Int)]
    ) {
        guard let list else { return }
        var room = listBytes
        var missing = 0
        for element in list.elements {
            room -= element.bytes.count
            if room >= 0 { writer.value(element) } else { missing += 1 }
        }
        if missing > 0 { leftOut.append((field, missing)) }
    }

    private static func warn(_ field: String, _ count: Int, isDryRun: Bool, _ writer: inout JSONWriter) {
        writer.object { writer in
            for (key, text) in [
                ("code", "answerShortened"), ("entity", ""), ("key", field),
                ("message", isDryRun ? dryRunMessage : message(field)),
            ] {
                writer.key(key)
                writer.string(text)
            }
            writer.key("count")
            writer.integer(count)
        }
    }

    private static let dryRunMessage =
        "The answer to this dry run is not whole: it fits no frame, or so much was waiting for the client already. Split "
        + "such jobs, and read the answers as they arrive."

    private static func message(_ field: String) -> String {
        guard field == "objects" else {
            return "The job is committed, but its whole answer fits no frame. Read the objects from the database, or "
                + "split such jobs."
        }
        return "The job is committed, but its objects are not sent: they are too large for an answer, or so much was "
            + "waiting for the client already. Fetch them, or split such jobs and read the answers as they arrive."
    }

    private static func cut(_ value: JSONValue) -> String {
        guard value.bytes.count > textBytes else { return value.string ?? "" }
        return String(decoding: value.bytes.prefix(textBytes), as: UTF8.self) + "…"
    }
}

extension JSONValue {
    fileprivate var elementCount: Int { elements.reduce(0) { count, _ in count + 1 } }
}
