import BrokerCommandLine
import BrokerJSON
import Glibc

/// Records of one file or of standard input, one after the other, as JSON text.
///
/// Without a root the input is cut as it is read, so it may be of any length. With one it is read and parsed whole,
/// because only then the place of the root is known.
struct RecordSource {
    /// `-` is standard input.
    let path: String
    /// Keys that lead to the records.
    let root: [String]

    /// Hands each record to `take`, with the number of bytes read so far.
    func forEach(_ take: (_ record: [UInt8], _ bytesRead: Int) async throws -> Void) async throws {
        if root.isEmpty {
            try await cut(take)
        } else {
            try await walk(take)
        }
    }

    /// Bytes of the file; nil for what has no length.
    var byteCount: Int? {
        var status = stat()
        guard path != "-", stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        return Int(status.st_size)
    }

    private func cut(_ take: ([UInt8], Int) async throws -> Void) async throws {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw unreadable() }
        defer { if path != "-" { close(descriptor) } }
        var cutter = RecordCutter()
        var buffer = [UInt8](repeating: 0, count: 256 << 10)
        var bytesRead = 0
        var records: [[UInt8]] = []
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            guard count >= 0 else { throw unreadable() }
            bytesRead += count
            do throws(RecordCutter.Fault) {
                if count == 0 {
                    try cutter.finish { records.append($0) }
                } else {
                    try cutter.feed(buffer.prefix(count)) { records.append($0) }
                }
            } catch {
                throw CommandFailure(
                    .failed, "\(name), byte \(error.offset): \(error.message). Nothing after it was sent.")
            }
            for record in records { try await take(record, bytesRead) }
            records.removeAll(keepingCapacity: true)
            if count == 0 { return }
        }
    }

    private func walk(_ take: ([UInt8], Int) async throws -> Void) async throws {
        let text = try JSONText.file(path)
        let document: JSONDocument
        do throws(JSONError) {
            document = try JSONDocument(parsing: text)
        } catch {
            throw CommandFailure(.failed, "\(name) is not JSON: \(error). Nothing was sent.")
        }
        var value = document.root
        for (depth, key) in root.enumerated() {
            guard let next = value[key] else {
                let known = value.members.map { "\"\($0.key.string ?? "")\"" }.prefix(10).joined(separator: ", ")
                throw CommandFailure(
                    .failed,
                    "\(name) has no key \"\(root[...depth].joined(separator: "."))\""
                        + (known.isEmpty ? "." : "; there are \(known)."))
            }
            value = next
        }
        switch value.kind {
        case .array:
            for element in value.elements { try await take(element.jsonText, text.count) }
        default: try await take(value.jsonText, text.count)
        }
        withExtendedLifetime(document) {}
    }

    private var name: String { path == "-" ? "standard input" : path }

    private func unreadable() -> CommandFailure {
        CommandFailure(.failed, "\(name) cannot be read: \(String(cString: strerror(errno))).")
    }
}
