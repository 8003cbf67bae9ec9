import Foundation

/// The steps of a client, in a file of its own: written and synced before it sends, and as soon as an answer arrives.
///
/// A line each: `C` connected, `S name message` about to be sent, `T message` answered.
struct ClientLog {
    enum Entry {
        case connected
        case sent(name: String, text: String)
        case received(String)

        fileprivate var line: String {
            switch self {
            case .connected: "C\n"
            case .sent(let name, let text): "S \(name) \(text)\n"
            case .received(let text): "T \(text)\n"
            }
        }

        fileprivate init?(line: Substring) {
            let words = line.split(separator: " ", maxSplits: 1)
            switch words.first {
            case "C": self = .connected
            case "T" where words.count == 2: self = .received(String(words[1]))
            case "S" where words.count == 2:
                let parts = words[1].split(separator: " ", maxSplits: 1)
                guard parts.count == 2 else { return nil }
                self = .sent(name: String(parts[0]), text: String(parts[1]))
            default: return nil
            }
        }
    }

    static func name(_ client: Int) -> String { "client-\(client).log" }

    private let file: FileHandle

    /// Opens the log, for more at its end. A line that a kill left unfinished is cut off.
    init(path: String) throws {
        if !FileManager.default.fileExists(atPath: path) { try Data().write(to: URL(fileURLWithPath: path)) }
        let whole = try Self.wholeLines(path).utf8.count
        guard let file = FileHandle(forUpdatingAtPath: path) else { throw Difference("\(path) cannot be written.") }
        try file.truncate(atOffset: UInt64(whole))
        try file.seekToEnd()
        self.file = file
    }

    /// Comes back when it is on disk.
    func append(_ entries: [Entry]) throws {
        try file.write(contentsOf: Data(entries.map(\.line).joined().utf8))
        try file.synchronize()
    }

    /// The lines of a log that its client may be writing.
    static func entries(_ path: String) throws -> [Entry] {
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        return try wholeLines(path).split(separator: "\n").map { line in
            guard let entry = Entry(line: line) else { throw Difference("\(path) has the line \(line)") }
            return entry
        }
    }

    private static func wholeLines(_ path: String) throws -> Substring {
        let text = String(decoding: try Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self)
        return text.utf8.lastIndex(of: UInt8(ascii: "\n")).map { text[...$0] } ?? ""
    }
}
