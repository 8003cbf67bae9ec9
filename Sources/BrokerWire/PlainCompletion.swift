package import Broker

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

/// A server of this package writes the `completed` of almost every job in one form, which is read here in one pass,
/// without a document: it is the most frequent message.
extension Completion {
    /// Reads a `completed` with only counts and times, in the form of `MessageWriter`.
    ///
    /// - Returns: nil for every other message, which may be as valid.
    package init?(plainly message: UnsafeRawBufferPointer) {
        var text = PlainText(bytes: message)
        guard text.skip(#"{"type":"completed","id":""#), let id = text.string(), text.skip(#","sequence":"#),
            let sequence = text.integer()
        else { return nil }
        if text.skip("}") {
            guard text.isAtEnd else { return nil }
            self.init(id: JobID(id), sequence: sequence)
            return
        }
        guard text.skip(#","duplicate":"#), let isDuplicate = text.bool(), let changes = text.changes(),
            text.skip(#","rejected":[],"warnings":[],"timing":{"queued":"#), let timing = text.timing(),
            text.skip("}}"),
            text.isAtEnd
        else { return nil }
        self.init(id: JobID(id), sequence: sequence, isDuplicate: isDuplicate, changes: changes, timing: timing)
    }
}

/// Reads JSON of a known form.
private struct PlainText {
    let bytes: UnsafeRawBufferPointer
    private var index = 0

    init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { index == bytes.count }

    /// Moves over this text, if it is next.
    mutating func skip(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard let start = bytes.baseAddress, bytes.count - index >= count,
            memcmp(start + index, text.utf8Start, count) == 0
        else { return false }
        index += count
        return true
    }

    /// The rest of a string of plain ASCII, and its closing quote.
    mutating func string() -> String? {
        let start = index
        while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
            guard (0x20..<0x80).contains(bytes[index]), bytes[index] != UInt8(ascii: "\\") else { return nil }
            index += 1
        }
        guard index < bytes.count else { return nil }
        defer { index += 1 }
        return String(decoding: UnsafeRawBufferPointer(rebasing: bytes[start..<index]), as: UTF8.self)
    }

    mutating func bool() -> Bool? { skip("true") ? true : skip("false") ? false : nil }

    /// An integer from 0 on, of 18 digits at most.
    mutating func integer() -> Int64? {
        let start = index
        var value: Int64 = 0
        while index < bytes.count, bytes[index] &- UInt8(ascii: "0") <= 9 {
            guard index - start < 18 else { return nil }
            value = value &* 10 &+ Int64(bytes[index] &- UInt8(ascii: "0"))
            index += 1
        }
        guard index > start, bytes[start] != UInt8(ascii: "0") || index == start + 1 else { return nil }
        return value
    }

    /// A member whose value is an integer.
    private mutating func integer(behind key: StaticString) -> Int? { skip(key) ? integer().map { Int($0) } : nil }

    mutating func changes() -> [String: Completion.Changes]? {
        guard skip(#","changes":{"#) else { return nil }
        if skip("}") { return [:] }
        // Most jobs touch an entity, and one that it refers to.
        var changes = [String: Completion.Changes](minimumCapacity: 2)
        repeat {
            guard skip("\""), let entity = string(), let inserted = integer(behind: #":{"inserted":"#),
                let updated = integer(behind: #","updated":"#), let unchanged = integer(behind: #","unchanged":"#),
                let deleted = integer(behind: #","deleted":"#), let rejected = integer(behind: #","rejected":"#),
                skip("}")
            else { return nil }
            changes[entity] = .init(
                inserted: inserted, updated: updated, unchanged: unchanged, deleted: deleted, rejected: rejected)
        } while skip(",")
        return skip("}") ? changes : nil
    }

    /// The text after the key of the first time, up to the end of the last.
    mutating func timing() -> Completion.Timing? {
        guard let queued = integer(), let staged = integer(behind: #","staged":"#) else { return nil }
        var (journalWaited, journalSynced) = (0, 0)
        if skip(#","journalWaited":"#) {
            guard let waited = integer(), let synced = integer(behind: #","journalSynced":"#) else { return nil }
            (journalWaited, journalSynced) = (Int(waited), synced)
        }
        guard let waited = integer(behind: #","waited":"#), let merged = integer(behind: #","merged":"#),
            let committed = integer(behind: #","committed":"#)
        else { return nil }
        return .init(
            queued: .microseconds(queued), staged: .microseconds(staged), journalWaited: .microseconds(journalWaited),
            journalSynced: .microseconds(journalSynced), waited: .microseconds(waited), merged: .microseconds(merged),
            committed: .microseconds(committed))
    }
}
