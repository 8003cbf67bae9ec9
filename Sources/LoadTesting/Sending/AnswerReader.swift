internal import Broker
internal import BrokerJSON
internal import BrokerWire

/// Reads the messages of the server's that answer jobs.
///
/// A `completed` as the server writes it today is read by comparing bytes, which takes a fraction of what a JSON parser
/// takes; any other message goes through BrokerWire's decoder, so that nothing depends on the form.
struct AnswerReader: Sendable {
    private let idPrefix: String
    private let completedPrefix: [UInt8]

    /// - Parameter idPrefix: the prefix of the number in the ids.
    init(idPrefix: String) {
        self.idPrefix = idPrefix
        completedPrefix = Array("{\"type\":\"completed\",\"id\":\"\(idPrefix)".utf8)
    }

    func read(_ content: JSONText) throws(WireError) -> Answer {
        if let answer = quick(content.bytes) { return answer }
        return try slow(content)
    }

    // MARK: - By bytes

    private func quick(_ bytes: UnsafeRawBufferPointer) -> Answer? {
        var cursor = ByteCursor(bytes)
        guard cursor.skip(completedPrefix), let job = cursor.integer(), cursor.skip("\",\"sequence\":"),
            cursor.integer() != nil, cursor.skip(",\"duplicate\":")
        else { return nil }
        var answer = Answer(job: job, kind: .completed)
        if cursor.skip("true") {
            answer.isDuplicate = true
        } else {
            guard cursor.skip("false") else { return nil }
        }
        guard cursor.skip(",\"changes\":{"), readChanges(&cursor, into: &answer.objects) else { return nil }
        guard cursor.skip(",\"rejected\":[],\"warnings\":[],\"timing\":{\"queued\":") else { return nil }
        var stages = Answer.Stages()
        guard let queued = cursor.integer(), cursor.skip(",\"staged\":"), let staged = cursor.integer() else {
            return nil
        }
        if cursor.skip(",\"journalWaited\":") {
            guard let waited = cursor.integer(), cursor.skip(",\"journalSynced\":"), let synced = cursor.integer()
            else { return nil }
            (stages.journalWaited, stages.journalSynced) = (waited, synced)
        }
        guard cursor.skip(",\"waited\":"), let waited = cursor.integer(), cursor.skip(",\"merged\":"),
            let merged = cursor.integer(), cursor.skip(",\"committed\":"), let committed = cursor.integer(),
            cursor.skip("}}")
        else { return nil }
        (stages.queued, stages.staged, stages.waited) = (queued, staged, waited)
        (stages.merged, stages.committed) = (merged, committed)
        answer.stages = stages
        return answer
    }

    /// To the end of the object.
    private func readChanges(_ cursor: inout ByteCursor, into objects: inout ObjectCounts) -> Bool {
        while !cursor.skip("}") {
            _ = cursor.skip(",")
            guard cursor.skip("\""), cursor.skipWord(), cursor.skip("\":{\"inserted\":"),
                let inserted = cursor.integer(), cursor.skip(",\"updated\":"), let updated = cursor.integer(),
                cursor.skip(",\"unchanged\":"), let unchanged = cursor.integer(), cursor.skip(",\"deleted\":"),
                let deleted = cursor.integer(), cursor.skip(",\"rejected\":"), let rejected = cursor.integer(),
                cursor.skip("}")
            else { return false }
            objects.add(
                ObjectCounts(
                    inserted: inserted, updated: updated, unchanged: unchanged, deleted: deleted, rejected: rejected))
        }
        return true
    }

    // MARK: - By the decoder

    private func slow(_ content: JSONText) throws(WireError) -> Answer {
        switch try ServerEnvelope.decode(parsing: content).message {
        case .completed(let completed):
            var answer = Answer(
                job: job(completed.id.text), kind: .completed, isDuplicate: completed.isDuplicate)
            for changes in completed.changes.values {
                answer.objects.add(
                    ObjectCounts(
                        inserted: changes.inserted, updated: changes.updated, unchanged: changes.unchanged,
                        deleted: changes.deleted, rejected: changes.rejected))
            }
            answer.stages = completed.timing.map {
                Answer.Stages(
                    queued: $0.queued.microseconds, staged: $0.staged.microseconds,
                    journalWaited: $0.journalWaited.microseconds, journalSynced: $0.journalSynced.microseconds,
                    waited: $0.waited.microseconds, merged: $0.merged.microseconds,
                    committed: $0.committed.microseconds)
            }
            return answer
        case .accepted(let id, _): return Answer(job: job(id), kind: .accepted)
        case .failed(let error), .error(let error):
            return Answer(
                job: job(error.jobID?.text),
                kind: .failed(code: error.fault?.code.rawValue ?? "", message: error.fault?.description ?? ""))
        default: return Answer(kind: .other)
        }
    }

    private func job(_ id: String?) -> Int? {
        guard let id, id.hasPrefix(idPrefix) else { return nil }
        return Int(id.dropFirst(idPrefix.count))
    }
}

/// A place in some bytes.
private struct ByteCursor {
    private let bytes: UnsafeRawBufferPointer
    private var place = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Moves over the text if it is next.
    mutating func skip(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        return skip(UnsafeRawBufferPointer(start: text.utf8Start, count: count))
    }

    mutating func skip(_ text: [UInt8]) -> Bool { text.withUnsafeBytes { skip($0) } }

    private mutating func skip(_ text: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count - place >= text.count else { return false }
        for offset in 0..<text.count where bytes[place + offset] != text[offset] { return false }
        place += text.count
        return true
    }

    /// Goes to the next quotation mark; false when an escape is before it.
    mutating func skipWord() -> Bool {
        while place < bytes.count, bytes[place] != UInt8(ascii: "\"") {
            guard bytes[place] != UInt8(ascii: "\\") else { return false }
            place += 1
        }
        return place < bytes.count
    }

    /// A whole number without a sign.
    mutating func integer() -> Int? {
        var number = 0
        let start = place
        while place < bytes.count, place - start < 18 {
            let digit = bytes[place] &- UInt8(ascii: "0")
            guard digit <= 9 else { break }
            number = number * 10 + Int(digit)
            place += 1
        }
        return place > start ? number : nil
    }
}

extension Duration {
    fileprivate var microseconds: Int {
        Int(components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000)
    }
}
