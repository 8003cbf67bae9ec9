import Broker
import BrokerClient
import BrokerInput
import BrokerJSON
import BrokerPages
import Foundation

/// The versions of the pages that are in the store, as its bookmarks have them: such a page need not be sent again.
///
/// 1. The last job of a page writes the page's bookmark, and the jobs before it delete it.
/// 2. The last part of a sync writes the bookmark of the load, with the id of the sync. The version of a page counts only
///    while it was written by that sync: else the objects of other pages may be missing.
/// 3. A bookmark counts only for the options and the model that it was written under.
/// 4. A page that may not be the last one, although no page follows it, has no bookmark: it is loaded, and reported, each time.
struct LoadBookmarks {
    struct CommittedPage: Codable {
        let version: PageVersion
        /// The page after it, which an answer without a body need not name.
        let next: URL?
        /// A mark of the options and the model.
        let reading: String
        /// The id of the sync; nil without one.
        let sync: String?
        /// Where the records are, if that was found, as the other pages are read, too.
        let root: String?
    }

    private struct CommittedSync: Codable {
        let reading: String
        let sync: String
    }

    private let broker: RemoteBroker
    private let command: LoadCommand
    private let reading: String
    /// The id of the last complete sync.
    private var sync: String?

    init?(of command: LoadCommand, _ broker: RemoteBroker) async throws {
        guard try await broker.serverInformation().features.contains("bookmark") else { return nil }
        self.broker = broker
        self.command = command
        let (records, format) = (command.records, command.records.format)
        reading = try await Self.hash([
            format.type?.rawValue ?? "", format.root?.text ?? "", format.text.fingerprint,
            records.reading.onInvalid.rawValue, records.reading.unknown.rawValue, "\(command.requests.rule)",
            "\(command.requests.lastPage)", String(decoding: broker.model().json.bytes, as: UTF8.self),
        ])
        if records.sync, let found: CommittedSync = try await value(ofBookmark: syncName),
            found.reading == reading
        {
            sync = found.sync
        }
    }

    /// The page as it is in the store; nil when that is not known.
    func page(for request: PageRequest) async throws -> CommittedPage? {
        guard request.body == nil, let page: CommittedPage = try await value(ofBookmark: name(request.url, "page")),
            page.reading == reading, page.sync == sync, page.sync != nil || !command.records.sync
        else { return nil }
        return page
    }

    // MARK: - Bookmarks of jobs

    /// - Parameter next: the request for the page after it.
    func bookmark(
        of page: Page, for request: PageRequest, next: PageRequest?, sync: String?, root: RecordRoot?
    ) -> Job.Bookmark? {
        guard request.body == nil else { return nil }
        var version = page.version
        // Other fields may select other content of the same time. An ETag differs then (RFC 9110, section 8.8.3).
        if !command.requests.headers.isEmpty { version.lastModified = nil }
        let value = CommittedPage(version: version, next: next?.url, reading: reading, sync: sync, root: root?.text)
        return Job.Bookmark(name(request.url, "page"), version.isKnown ? Self.text(value) : nil)
    }

    /// For the other jobs of a page.
    func deletion(ofPageFor request: PageRequest) -> Job.Bookmark? {
        request.body == nil ? Job.Bookmark(name(request.url, "page"), nil) : nil
    }

    /// For the last part of a sync.
    func bookmark(ofSync sync: String) -> Job.Bookmark {
        Job.Bookmark(syncName, Self.text(CommittedSync(reading: reading, sync: sync)))
    }

    private var syncName: String { name(command.lists[0], "sync", command.lists.dropFirst().map(\.absoluteString)) }

    /// The greatest value of the attribute of `--since` in the last complete load of the list; nil for none.
    func newest(of list: URL) async throws -> PageRequest.Value? {
        guard let bookmark = try await broker.bookmark(named: newestName(list)) else { return nil }
        let text = JSONText(copying: Array(bookmark.value.utf8))
        return try? JSONDocument(parsing: text).withRoot { PageRequest.Value($0) }
    }

    /// - Parameter value: JSON.
    func bookmark(ofNewest value: [UInt8], in list: URL) -> Job.Bookmark {
        Job.Bookmark(newestName(list), String(decoding: value, as: UTF8.self))
    }

    private func newestName(_ list: URL) -> String {
        name(list, "since", [command.requests.since?.text ?? "", command.requests.data ?? ""])
    }

    // MARK: - Names and values

    /// A URL's query may be long, so it is in the hash alone.
    private func name(_ url: URL, _ kind: String, _ further: [String] = []) -> String {
        let (records, reading) = (command.records, command.records.reading)
        let path = url.absoluteString.prefix { $0 != "?" && $0 != "#" }.prefix(500)
        let hash = Self.hash(
            [
                kind, url.absoluteString, reading.entity ?? "", reading.path ?? "", reading.mapping ?? "",
                records.sync ? "sync" : "", records.selection.format ?? "",
            ] + records.selection.arguments.map(\.text) + further)
        return "broker load \(kind) \(path) \(hash)"
    }

    /// - Returns: nil when it is too long for a bookmark: the page is loaded each time.
    private static func text(_ value: some Encodable) -> String? {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(value), Job.Bookmark.valueCounts.contains(data.count) else {
            return nil
        }
        return String(decoding: data, as: UTF8.self)
    }

    /// Nil for no bookmark, and for one that another version of this command has written.
    private func value<Value: Decodable>(ofBookmark name: String) async throws -> Value? {
        guard let bookmark = try await broker.bookmark(named: name) else { return nil }
        return try? JSONDecoder().decode(Value.self, from: Data(bookmark.value.utf8))
    }

    /// By FNV-1a.
    private static func hash(_ texts: [String]) -> String {
        let bytes = Array(texts.joined(separator: "\0").utf8)
        return String(bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }, radix: 16)
    }
}
