import BrokerJSON
import Dispatch
import Synchronization

/// The records of an input, read on a thread of its own: the next ones while those before them are used.
package final class RecordStream: Sendable {
    /// Some records, one after the other.
    package struct Batch: Sendable {
        package fileprivate(set) var records: [InputRecord] = []
        /// What a person should know about the reading.
        package fileprivate(set) var notes: [String] = []
        /// The number of bytes of the file that were read for them and those before.
        package fileprivate(set) var bytesRead = 0

        fileprivate var isEmpty: Bool { records.isEmpty && notes.isEmpty }
    }

    /// The reader is used on the queue alone, and so is its fault, which follows the records before it.
    private struct State {
        var reader: InputReader?
        var fault: InputFault?
    }

    private typealias Reading = Task<Result<Batch?, InputFault>, Never>

    private let open: @Sendable () throws(InputFault) -> InputReader
    private let queue = DispatchQueue(label: "input")
    // Used on the queue alone.
    nonisolated(unsafe) private var state = State()
    /// The next batch.
    private let ahead = Mutex<Reading?>(nil)

    package init(
        path: String, format: RecordFormat, root: RecordRoot?, csv: CSVOptions = CSVOptions(),
        encoding: TextEncoding? = nil, maximumBytes: Int = .max
    ) {
        open = { () throws(InputFault) in
            InputReader(
                format, UnpackedBytes(try FileBytes(path), maximumBytes: maximumBytes), root: root, csv: csv,
                encoding: encoding)
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
            if let fault = state.fault { throw fault }
            let reader = if let reader = state.reader { reader } else { try open() }
            state.reader = reader
            defer { batch.notes = reader.takeNotes() }
            while batch.records.isEmpty {
                guard try reader.next({ batch.records.append($0) }) else { break }
            }
        } catch {
            state.fault = error
            if batch.isEmpty { return .failure(error) }
        }
        batch.bytesRead = state.reader?.bytesRead ?? 0
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
        if let packing = parts.last, packing == "gz" || packing == "lz4" { parts.removeLast() }
        // The name of a hidden file is no extension.
        guard parts.count > 1, let ending = parts.last else { return nil }
        switch ending {
        case "jsonl": self = .ndjson
        default: self.init(rawValue: String(ending))
        }
    }
}

/// Finds the records of one input. Belongs to one thread, which may block.
package final class InputReader {
    private let bytes: any ByteSource
    /// Nil for XML, whose parser decodes it.
    private let decoded: DecodedBytes?
    private var reader: any RecordReader
    /// Where the records are in each value of the reader's.
    private let root: RecordRoot?
    /// A value occurs in the input in this form, so that positions in it are positions there.
    private let isWritten: Bool
    private var isOver = false

    package init(
        _ format: RecordFormat, _ bytes: any ByteSource, root: RecordRoot?, csv: CSVOptions = CSVOptions(),
        encoding: TextEncoding? = nil, limits: RecordLimits = .ofJobs
    ) {
        let isTable = format == .csv || format == .tsv
        decoded = format == .xml ? nil : DecodedBytes(bytes, encoding: encoding, mayBeWestern: isTable)
        self.bytes = decoded ?? bytes
        self.root = format == .xml ? nil : root
        isWritten = !format.readsTexts
        reader =
            switch format {
            case .json, .ndjson: RecordCutter(opensArrays: root == nil, limits: limits)
            case .csv: CSVReader(csv, limits: limits)
            case .tsv: CSVReader(csv.preferringTab, limits: limits)
            case .form: FormReader(limits: limits)
            case .xml: XMLReader(root: root, limits: limits)
            }
    }

    var bytesRead: Int { bytes.bytesRead }

    /// What a person should know about the reading, each time once.
    func takeNotes() -> [String] { (decoded?.takeNote().map { [$0] } ?? []) + reader.takeNotes() }

    /// Passes on the records that the next bytes end.
    ///
    /// - Returns: false at the end.
    /// - Throws: the first fault, after the records before it were passed on; or the error of `emit`.
    package func next(_ emit: RecordSink) throws(InputFault) -> Bool {
        guard !isOver else { return false }
        let chunk: [UInt8]
        do throws(InputFault) {
            chunk = try bytes.next()
        } catch {
            throw InputFault(reason: error.reason, place: error.place.map { _ in reader.place })
        }
        func take(_ record: InputRecord) throws(InputFault) {
            guard let root else { return try emit(record) }
            try record.records(below: root, isWritten: isWritten, emit)
        }
        isOver = chunk.isEmpty
        if isOver { try reader.finish(take) } else { try reader.feed(chunk, take) }
        return !isOver
    }
}

extension InputRecord {
    /// Passes on the records below the root of this value.
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
