import Broker
import BrokerPages
import Foundation

/// The versions of the pages that a load has committed, so that an unchanged page is not sent again.
///
/// It is in a file of the user, not in the store: only jobs write the store, and a field of jobs for it would be in the
/// protocol, the journal and the replicas of every client. It is sound all the same, because it has the id and the sequence
/// of the newest job that it came with, and counts only while the ledger of the store has that job: in another store, in
/// a restored backup, under another model, and once the outcome is forgotten, all pages are loaded again. To lose the
/// file costs no more.
struct LoadMemory {
    struct CommittedJob: Codable {
        let id: String
        let sequence: Int64
    }

    /// A committed page.
    private struct Entry: Codable {
        var version: PageVersion
        var next: URL?
    }

    private struct Content: Codable {
        /// The URL and every option that decides what a page becomes.
        let load: [String]
        /// A mark of the model under which the pages were loaded.
        var model: String?
        var job: CommittedJob?
        var pages: [String: Entry] = [:]
    }

    private let file: URL?
    private var content: Content

    init(of command: LoadCommand) {
        let records = command.records
        let place = command.connection.store ?? ConnectionOptions.path(ofSocket: command.connection.socket)
        let load =
            [
                command.connection.isLocal ? "store" : "socket", URL(filePath: place).standardizedFileURL.path,
                command.url.absoluteString, records.entity ?? "", records.path ?? "", records.mapping ?? "",
                records.format.type?.rawValue ?? "", records.format.root?.text ?? "",
                records.format.delimiter?.text ?? "",
                records.format.ragged.rawValue, records.onInvalid.rawValue, records.unknown.rawValue,
                records.sync ? "sync" : "", records.selection.format ?? "", command.requests.nextPath ?? "",
                command.requests.nextParameter ?? "", command.requests.maxPages.map(String.init) ?? "",
            ] + records.selection.arguments.map(\.text) + command.connection.model
            // A field may be a secret.
            + [Self.hash(Array(command.requests.headers.joined(separator: "\0").utf8))]
        content = Content(load: load)
        file = Self.folder?.appending(path: Self.name(of: load))
        guard let file, let data = try? Data(contentsOf: file),
            let read = try? JSONDecoder().decode(Content.self, from: data), read.load == load
        else { return }
        content = read
    }

    /// The newest job that the pages came with.
    var job: CommittedJob? { content.job }

    var model: String? {
        get { content.model }
        set { content.model = newValue }
    }

    static func mark(of model: ModelDescription) -> String { hash(model.json.bytes) }

    mutating func forget() {
        content.job = nil
        content.pages = [:]
    }

    func version(of url: URL) -> PageVersion? { content.job == nil ? nil : content.pages[url.absoluteString]?.version }

    /// The page after one that has not changed.
    func next(after url: URL) -> URL? { content.pages[url.absoluteString]?.next }

    /// The page has changed, and its jobs are about to be sent. Should the command be killed then, it is loaded again.
    ///
    /// - Returns: whether the page was remembered.
    mutating func drop(_ url: URL) -> Bool { content.pages.removeValue(forKey: url.absoluteString) != nil }

    /// The page, and all before it, are committed.
    mutating func note(_ page: Page, at url: URL, next: URL?, job: CommittedJob?) {
        if let job { content.job = job }
        content.pages[url.absoluteString] = page.version.isKnown ? Entry(version: page.version, next: next) : nil
    }

    /// All pages are committed by this job.
    mutating func note(_ job: CommittedJob) { content.job = job }

    /// Only these pages are there any more.
    mutating func retain(_ urls: Set<String>) { content.pages = content.pages.filter { urls.contains($0.key) } }

    /// Writes the file, whole. A fault costs a later load the whole pages, no more, so it is none of this one.
    func save() {
        guard let file, let data = try? JSONEncoder().encode(content) else { return }
        let manager = FileManager.default
        let permissions = { (mode: Int) in [FileAttributeKey.posixPermissions: mode] }
        try? manager.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true, attributes: permissions(0o700))
        // A URL may have a secret in its query.
        let new = file.appendingPathExtension("new-\(getpid())")
        guard manager.createFile(atPath: new.path, contents: data, attributes: permissions(0o600)) else { return }
        if rename(new.path, file.path) != 0 { unlink(new.path) }
    }

    /// The folder of the XDG Base Directory Specification for what outlives a program; nil without a home.
    private static var folder: URL? {
        let environment = ProcessInfo.processInfo.environment
        if let state = environment["XDG_STATE_HOME"], state.hasPrefix("/") {
            return URL(filePath: state).appending(path: "broker")
        }
        guard let home = environment["HOME"], home.hasPrefix("/") else { return nil }
        return URL(filePath: home).appending(path: ".local/state/broker")
    }

    /// By FNV-1a. The file has the load itself, so that two of one name are not confused.
    private static func name(of load: [String]) -> String {
        "load-\(hash(Array(load.joined(separator: "\0").utf8))).json"
    }

    private static func hash(_ bytes: [UInt8]) -> String {
        String(bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }, radix: 16)
    }
}
