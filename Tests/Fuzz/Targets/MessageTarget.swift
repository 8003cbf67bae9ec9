import BrokerJSON
import BrokerMessages
import BrokerWire

/// The content of a frame, read as a server reads it and as a client does: a message within the protocol's limits, or an
/// error that has a code and does not end the connection.
final class MessageTarget: FuzzTarget {
    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        let text = JSONText(copying: input)
        try readAsServer(text)
        try readAsClient(text)
    }

    private func readAsServer(_ text: JSONText) throws {
        do {
            try check(try ClientEnvelope.decode(parsing: text, allowance: CountingAllowance()))
        } catch let refusal as FrameRefusal {
            guard case .fault(let error) = refusal else {
                throw FuzzFinding(description: "an allowance without a limit was refused")
            }
            try require(!error.endsConnection, "\(error) ends the connection")
            let codes: [WireCode] = [.malformedJSON, .unsupportedMessage, .unsupportedVersion]
            try require(codes.contains(error.code), "\(error) is no error of a message")
            try requireSound(error)
        }
    }

    private func check(_ envelope: ClientEnvelope) throws {
        defer { withExtendedLifetime(envelope) {} }
        if let tag = envelope.tag {
            try require(tag.count <= ClientEnvelope.maximumTagCount, "a tag has \(tag.count) bytes")
            try require(
                tag.withUnsafeBytes { JSONGrammar.accepts($0, maximumDepth: JSONDocument.defaultMaximumDepth) },
                "a tag is no JSON")
        }
        switch envelope.message {
        case .job(let job):
            if let id = job.id { try require(JobMessage.idCounts.contains(id.utf8.count), "an id of \(id.utf8.count)") }
            try require(!job.operations.isEmpty, "a job has no operation")
            if let bookmark = job.bookmark {
                try requireBookmark(bookmark.name)
                try require(bookmark.value?.utf8.count ?? 0 <= 8_192, "a bookmark of \(bookmark)")
            }
        case .bookmark(let name): try requireBookmark(name)
        case .await(let id, _), .cancel(let id):
            try require(JobMessage.idCounts.contains(id.utf8.count), "an id of \(id.utf8.count)")
        case .backup(let backup): try require(backup.file.utf8.first == UInt8(ascii: "/"), "a copy without a folder")
        case .subscribe(let subscription):
            let count = subscription.entities?.count ?? 1
            try require((1...SubscribeMessage.maximumEntities).contains(count), "\(count) entities are followed")
            try require(subscription.after ?? 0 >= 0, "the feed begins before 0")
        case .hello, .admin, .migrate, .fetch, .ping, .stats, .jobs, .model: break
        }
    }

    private func requireBookmark(_ name: String) throws {
        try require(JobMessage.Bookmark.nameCounts.contains(name.utf8.count), "a bookmark of \(name.utf8.count)")
    }

    private func readAsClient(_ text: JSONText) throws {
        do throws(WireError) {
            _ = try ServerEnvelope.decode(parsing: text)
        } catch {
            try require(
                [.malformedJSON, .unsupportedMessage].contains(error.code), "\(error) is no error of a message")
            try requireSound(error)
        }
    }
}
