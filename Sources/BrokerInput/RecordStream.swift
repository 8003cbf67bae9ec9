import BrokerJSON
import Dispatch
import Synchronization

/// The records of an input, read on a thread of its own and passed on in batches of bounded size.
///
/// One task requests them. The thread reads a few batches ahead, waits while no batch is taken, and ends when the
/// stream is abandoned.
package final class RecordStream: Sendable {
    /// Some records, one after the other.
    package struct Batch: Sendable {
        package fileprivate(set) var records: [InputRecord] = []
        /// The number of bytes of the file that were read when the last record was found.
        package fileprivate(set) var bytesRead = 0
        /// Bytes of the records.
        fileprivate var count = 0
    }

    /// Bytes of records in a batch, unless one record is larger.
    private static let batchBytes = 256 << 10
    /// The maximum number of batches that wait.
    private static let waitingBatches = 2

    private struct State {
        /// The batches that wait; at last, nil at the end of the input, or its fault.
        var results: [Result<Batch?, InputFault>] = []
        var isAbandoned = false
        /// The task that waits for a result.
        var taker: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())
    /// Room for batches.
    private let room = DispatchSemaphore(value: 0)

    /// - Parameters:
    ///   - path: `-` is standard input.
    ///   - maximumBytes: more, unpacked, are a fault.
    package init(
        path: String, format: RecordFormat, root: RecordRoot?, csv: CSVOptions = CSVOptions(), maximumBytes: Int = .max
    ) {
        // A semaphore that ends below its initial value is a crash.
        for _ in 0..<Self.waitingBatches { room.signal() }
        DispatchQueue(label: "input").async { self.read(path, format, root, csv, maximumBytes) }
    }

    /// The next records; nil at the end.
    ///
    /// - Throws: the fault of the input, after all records before it were taken.
    package func next() async throws(InputFault) -> Batch? {
        while true {
            let result = state.withLock { state -> Result<Batch?, InputFault>? in
                // The end is for every further request.
                guard case .success(_?)? = state.results.first else { return state.results.first }
                return state.results.removeFirst()
            }
            if let result {
                let batch = try result.get()
                if batch != nil { room.signal() }
                return batch
            }
            await withCheckedContinuation { continuation in
                let isThere = state.withLock { state in
                    if state.results.isEmpty { state.taker = continuation }
                    return !state.results.isEmpty
                }
                if isThere { continuation.resume() }
            }
        }
    }

    /// The batches wait, and nothing more is read.
    var isWaiting: Bool { state.withLock { $0.results.count == Self.waitingBatches } }

    /// No task will request a batch any more.
    package func abandon() {
        state.withLock { $0.isAbandoned = true }
        room.signal()
    }

    // MARK: - On the input's thread

    private func read(
        _ path: String, _ format: RecordFormat, _ root: RecordRoot?, _ csv: CSVOptions, _ maximumBytes: Int
    ) {
        var batch = Batch()
        do throws(InputFault) {
            let bytes = UnpackedBytes(try FileBytes(path), maximumBytes: maximumBytes)
            func flush() throws(InputFault) {
                guard !batch.records.isEmpty else { return }
                batch.bytesRead = bytes.bytesRead
                let full = batch
                batch = Batch()
                try put(full)
            }
            do throws(InputFault) {
                try format.read(bytes, root: root, csv: csv, wait: flush) { record throws(InputFault) in
                    batch.records.append(record)
                    batch.count += record.json.count
                    if batch.count >= Self.batchBytes { try flush() }
                }
            } catch {
                try flush()
                throw error
            }
            try flush()
            add(.success(nil))
        } catch {
            add(.failure(error))
        }
    }

    /// Waits until there is room.
    ///
    /// - Throws: when no task will request a batch any more.
    private func put(_ batch: Batch) throws(InputFault) {
        // Abandoning the stream wakes one wait, so no other may follow it.
        if state.withLock(\.isAbandoned) { throw Self.abandonment }
        room.wait()
        if state.withLock(\.isAbandoned) { throw Self.abandonment }
        add(.success(batch))
    }

    /// Ends the reading without a report.
    private static let abandonment = InputFault(reason: "is not read any more", place: nil)

    private func add(_ result: Result<Batch?, InputFault>) {
        let taker = state.withLock { state in
            state.results.append(result)
            defer { state.taker = nil }
            return state.taker
        }
        taker?.resume()
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
        if let packing = parts.last, packing == "gz" || packing == "lz4" { parts.removeLast() }
        // The name of a hidden file is no extension.
        guard parts.count > 1, let ending = parts.last else { return nil }
        switch ending {
        case "jsonl": self = .ndjson
        default: self.init(rawValue: String(ending))
        }
    }
}

extension RecordFormat {
    /// Reads all records of an input.
    ///
    /// - Parameters:
    ///   - csv: how CSV is read.
    ///   - wait: called before bytes are read, which may block.
    ///   - emit: gets each record; its error ends the reading.
    /// - Throws: the first fault, after the records before it were passed on.
    package func read(
        _ bytes: any ByteSource, root: RecordRoot?, csv: CSVOptions = CSVOptions(), limits: RecordLimits = .ofJobs,
        wait: () throws(InputFault) -> Void, _ emit: RecordSink
    ) throws(InputFault) {
        switch self {
        case .json, .ndjson: try read(bytes, RecordCutter(opensArrays: root == nil, limits: limits), root, wait, emit)
        case .csv: try read(bytes, CSVReader(csv, limits: limits), root, wait, emit)
        case .tsv:
            let options = CSVOptions(delimiter: csv.delimiter ?? .tab, ragged: csv.ragged)
            try read(bytes, CSVReader(options, limits: limits), root, wait, emit)
        case .form: try read(bytes, FormReader(limits: limits), root, wait, emit)
        case .xml: try read(bytes, XMLReader(root: root, limits: limits), nil, wait, emit)
        }
    }

    private func read(
        _ bytes: any ByteSource, _ reader: some RecordReader, _ root: RecordRoot?,
        _ wait: () throws(InputFault) -> Void, _ emit: RecordSink
    ) throws(InputFault) {
        var reader = reader
        while true {
            try wait()
            let chunk: [UInt8]
            do throws(InputFault) {
                chunk = try bytes.next()
            } catch {
                throw InputFault(reason: error.reason, place: error.place.map { _ in reader.place })
            }
            func take(_ record: InputRecord) throws(InputFault) {
                guard let root else { return try emit(record) }
                try record.records(below: root, isWritten: !readsTexts, emit)
            }
            if chunk.isEmpty { return try reader.finish(take) }
            try reader.feed(chunk, take)
        }
    }
}

extension InputRecord {
    /// Passes on the records below the root of this value.
    ///
    /// - Parameter isWritten: the value occurs in the input in this form, so that positions in it are positions there.
    fileprivate func records(below root: RecordRoot, isWritten: Bool, _ emit: RecordSink) throws(InputFault) {
        let document = try parsed()
        defer { withExtendedLifetime(document) {} }
        var place = place
        var offset = 0
        func record(_ element: JSONValue, _ key: JSONValue?) -> InputRecord {
            let start = (key ?? element).offset
            if isWritten { place = place.advanced(over: json.dropFirst(offset).prefix(start - offset)) }
            offset = start
            guard let key else { return InputRecord(json: element.jsonText, place: place, isSound: true) }
            var writer = JSONWriter(capacity: element.bytes.count + key.bytes.count + 8)
            writer.object { writer in
                writer.key(key.string ?? "")
                writer.value(element)
            }
            return InputRecord(json: writer.bytes[...], place: place, isSound: true)
        }
        let recordPlace = self.place
        do throws(InputFault) {
            try root.forEachValue(in: document.root) { found, key throws(InputFault) in
                guard key == nil, found.kind == .array else { return try emit(record(found, key)) }
                for element in found.elements {
                    if element.kind == .array {
                        for inner in element.elements { try emit(record(inner, nil)) }
                    } else {
                        try emit(record(element, nil))
                    }
                }
            }
        } catch {
            throw error.place == nil
                ? InputFault(reason: error.reason, place: recordPlace, recordPlace: recordPlace) : error
        }
    }
}
