internal import BrokerFastJSON
package import BrokerJSON
import Dispatch
import Synchronization

/// The records of an input, read on a thread of its own: the next ones while those before them are used.
package final class RecordStream: Sendable {
    /// Some records, one after the other.
    package struct Batch: Sendable {
        package fileprivate(set) var records: [InputRecord] = []
        /// An array of the records, where the stream parses them, and all of them are valid.
        package fileprivate(set) var document: JSONDocument?
        /// What was skipped, since it is no record.
        package fileprivate(set) var rejects: [InputReject] = []
        /// What a person should know about the reading.
        package fileprivate(set) var notes: [String] = []
        /// No bytes came for a while.
        package fileprivate(set) var isIdle = false
        /// The number of bytes of the file that were read for them and those before.
        package fileprivate(set) var bytesRead = 0

        fileprivate var isEmpty: Bool { records.isEmpty && rejects.isEmpty && notes.isEmpty && !isIdle }

        fileprivate mutating func parse() {
            // One may be large: no copies of it.
            guard records.count > 1 else { return }
            var writer = JSONWriter(capacity: records.reduce(2) { $0 + $1.json.count + 1 })
            writer.array { writer in
                for record in records { writer.raw(record.json) }
            }
            document = try? JSONDocument(fast: JSONText(copying: writer.bytes))
        }
    }

    private typealias Reading = Task<Result<Batch?, InputFault>, Never>

    private let open: @Sendable () throws(InputFault) -> InputReader
    private let queue = DispatchQueue(label: "input")
    // Used on the queue alone.
    nonisolated(unsafe) private var reader: InputReader?
    // That of the reader, which follows the records before it; used on the queue alone.
    nonisolated(unsafe) private var fault: InputFault?
    /// The next batch.
    private let ahead = Mutex<Reading?>(nil)

    /// The time after which a batch without records is handed over when no bytes come; nil waits for them.
    private let patience: Int32?
    private let parses: Bool

    /// - Parameters:
    ///   - maximumBytes: more, unpacked, are a fault.
    ///   - patience: milliseconds after which an idle batch is handed over when no bytes come; nil waits for them.
    ///   - parses: the batches have documents.
    package init(
        path: String, _ reading: InputReading, maximumBytes: Int = .max, patience: Int32? = nil, parses: Bool = false
    ) {
        self.patience = patience
        self.parses = parses
        open = { () throws(InputFault) in
            var reading = reading
            reading.format = reading.format(atPath: path)
            guard reading.format != .xml || reading.encoding == nil else {
                throw InputFault(reason: "is XML, which declares its encoding itself; take --encoding out", place: nil)
            }
            return InputReader(UnpackedBytes(try FileBytes(path), maximumBytes: maximumBytes), reading)
        }
        readAhead()
    }

    /// The next records; nil at the end. One task requests them.
    ///
    /// - Throws: the fault of the input, after all records before it were taken.
    package func next() async throws(InputFault) -> Batch? {
        guard let reading = ahead.withLock({ $0 }), let batch = try await reading.value.get() else { return nil }
        readAhead()
        return batch
    }

    private func readAhead() {
        let reading = Reading {
            await withCheckedContinuation { continuation in
                self.queue.async { continuation.resume(returning: self.read()) }
            }
        }
        ahead.withLock { $0 = reading }
    }

    private func read() -> Result<Batch?, InputFault> {
        var batch = Batch()
        do throws(InputFault) {
            if let fault { throw fault }
            let reader = if let reader { reader } else { try open() }
            self.reader = reader
            defer {
                batch.rejects = reader.takeRejects()
                batch.notes = reader.takeNotes()
            }
            while batch.records.isEmpty {
                if let patience, !reader.isReady(within: patience) {
                    try reader.flush { batch.records.append($0) }
                    batch.isIdle = true
                    break
                }
                guard try reader.next({ batch.records.append($0) }) else { break }
            }
        } catch {
            fault = error
            if batch.isEmpty { return .failure(error) }
        }
        if parses { batch.parse() }
        batch.bytesRead = reader?.bytesRead ?? 0
        return .success(batch.isEmpty ? nil : batch)
    }
}

/// The format of an input.
package enum RecordFormat: String, CaseIterable, Sendable {
    case json, ndjson, csv
    /// CSV with tabs.
    case tsv
    case form, xml

    /// The format has no other values than texts.
    package var readsTexts: Bool { self != .json && self != .ndjson }

    /// The format by the file's name, without the extension of its compression; nil when the name does not show it.
    package init?(fileName: String) {
        var parts = fileName.lowercased().split(separator: "/").last?.split(separator: ".") ?? []
        if let packing = parts.last, ["gz", "lz4", "zst"].contains(packing) { parts.removeLast() }
        // The name of a hidden file is no extension.
        guard parts.count > 1, let ending = parts.last else { return nil }
        self.init(rawValue: ending == "jsonl" ? "ndjson" : String(ending))
    }
}
