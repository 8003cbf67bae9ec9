import BrokerInput
import Glibc

/// One file, or standard input, with records in it.
struct RecordSource: Sendable {
    /// `-` is standard input.
    let path: String
    let format: RecordFormat
    /// Where in each value the records are; nil when the values are the records, or arrays of them.
    var root: RecordRoot?
    var csv = CSVOptions()
    /// More, unpacked, are a fault.
    var maximumBytes = Int.max
    /// For messages, where the path says nothing.
    var title: String?

    /// Hands each record to `take`, with the number of bytes read so far.
    ///
    /// - Throws: an `InputFault`, once all records before it were handed over; or what `take` throws.
    func forEach(_ take: (_ record: InputRecord, _ bytesRead: Int) async throws -> Void) async throws {
        try await forEachBatch { batch in
            for record in batch.records { try await take(record, batch.bytesRead) }
        }
    }

    /// Hands the records to `take` as they are read, some at a time.
    ///
    /// - Throws: an `InputFault`, once all records before it were handed over; or what `take` throws.
    func forEachBatch(_ take: (RecordStream.Batch) async throws -> Void) async throws {
        let stream = RecordStream(
            path: path, format: format, root: root, csv: csv, maximumBytes: maximumBytes)
        defer { stream.abandon() }
        while let batch = try await stream.next() { try await take(batch) }
    }

    /// Bytes of the file; 0 when there is none, nil for what has no length.
    var byteCount: Int? {
        var status = stat()
        guard path != "-" else { return nil }
        guard stat(path, &status) == 0 else { return 0 }
        return status.st_mode & S_IFMT == S_IFREG ? Int(status.st_size) : nil
    }

    var name: String { title ?? (path == "-" ? "standard input" : path) }
}
