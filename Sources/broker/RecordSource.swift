import BrokerJSON
import Glibc

/// Records of one file or of standard input, one after the other, as JSON text.
///
/// The input is cut as it is read, so it may be of any length. With a root, each of its values (a document, or a line of
/// NDJSON) is held and parsed whole, because only then the place of the root is known.
struct RecordSource: Sendable {
    /// `-` is standard input.
    let path: String
    /// Where in each value the records are; nil when the values are the records, or arrays of them.
    let root: RecordRoot?

    /// Hands each record to `take`, with the number of bytes read so far.
    ///
    /// - Throws: an ``InputFault``, once all records before it were handed over; or what `take` throws.
    func forEach(_ take: (_ record: InputRecord, _ bytesRead: Int) async throws -> Void) async throws {
        let file = try InputFile(path)
        var cutter = RecordCutter(opensArrays: root == nil)
        var bytesRead = 0
        while true {
            let chunk = try await file.read()
            bytesRead += chunk.count
            var values: [InputRecord] = []
            var fault: InputFault?
            do throws(InputFault) {
                if chunk.isEmpty {
                    try cutter.finish { values.append($0) }
                } else {
                    try cutter.feed(chunk) { values.append($0) }
                }
            } catch {
                fault = error
            }
            for value in values {
                if let root {
                    try await walk(value, root) { try await take($0, bytesRead) }
                } else {
                    try await take(value, bytesRead)
                }
            }
            if let fault { throw fault }
            if chunk.isEmpty { return }
        }
    }

    /// Bytes of the file; 0 when there is none, nil for what has no length.
    var byteCount: Int? {
        var status = stat()
        guard path != "-" else { return nil }
        guard stat(path, &status) == 0 else { return 0 }
        return status.st_mode & S_IFMT == S_IFREG ? Int(status.st_size) : nil
    }

    var name: String { path == "-" ? "standard input" : path }

    /// The records below the root of one value.
    private func walk(_ value: InputRecord, _ root: RecordRoot, _ take: (InputRecord) async throws -> Void) async throws
    {
        let document = try value.parsed()
        defer { withExtendedLifetime(document) {} }
        let found: JSONValue
        do throws(InputFault) {
            found = try root.find(in: document.root)
        } catch {
            throw InputFault(reason: error.reason, place: value.place, recordPlace: value.place)
        }
        var place = value.place
        func record(_ element: JSONValue) -> InputRecord {
            place = place.advanced(over: value.json[place.offset - value.place.offset..<element.offset])
            return InputRecord(json: element.jsonText, place: place)
        }
        guard found.kind == .array else { return try await take(record(found)) }
        for element in found.elements { try await take(record(element)) }
    }
}
