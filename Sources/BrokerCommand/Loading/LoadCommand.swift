import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput
import BrokerJSON
import BrokerPages
import BrokerWire
import Foundation

struct LoadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load",
        abstract: "Gets records over HTTP, page after page, and submits them.",
        discussion: """
            The records are read as by `broker submit`. Without --entity and --mapping, the model's routes for the URL's \
            path read them. A page that has not changed since it was committed costs one request without a body. With \
            --sync, objects that no page named are deleted at the end, if every page was committed, and the last one is \
            certainly the last.
            For example: broker load --entity Employee --next links.next https://api.example.com/employees
            As a line of a crontab: broker load --store app.sqlite --entity Employee --sync \
            https://api.example.com/employees
            """)

    @OptionGroup var connection: ConnectionOptions

    @OptionGroup(title: "Records") var records: LoadRecordOptions

    @OptionGroup(title: "Requests") var requests: LoadRequestOptions

    @Flag(help: "Print the result as JSON.")
    var json = false

    @Argument(help: "The first page.", transform: { try Self.url($0) })
    var url: URL

    private static func url(_ text: String) throws -> URL {
        guard let url = URL(string: text) else { throw ValidationError("\"\(text)\" is no URL.") }
        do throws(PageError) { try PageClient.check(url) } catch { throw ValidationError(error.description) }
        return url
    }

    mutating func validate() throws {
        try records.reading.checkInference(connection)
    }

    func run() async throws {
        let client = try requests.client(for: url, timeout: connection.timeout)
        let version = try await committedVersion()
        let first = try await client.page(at: url, unless: version)
        let inferred = try await inferred(from: first)
        try await connection.connected(
            "broker load", makesStore: true, inferred: inferred,
            onInterruption: { Program.report("broker: interrupted; \(Self.continuation)") }
        ) { broker in
            let bookmarks = try await LoadBookmarks(of: self, broker)
            if bookmarks == nil {
                Program.report("broker: the server is of an earlier version, without bookmarks: every page is loaded")
            }
            // For jobs without records.
            let entities = try await broker.serverInformation().entities
            let entity = records.reading.entity ?? entities.first ?? ""
            try await inferred?.guessed?.check(against: broker)
            var run = LoadRun(self, broker, client, bookmarks, entity: entity, inferred)
            try await run.run(first, unless: version)
        }
    }

    /// The same command: what the store has of a page is found by its bookmark, or record by record.
    static var continuation: String { "to go on, run: \(CommandLine.arguments.shellText)" }

    /// The version of the first page that is in the store. The store is closed while the page is requested.
    private func committedVersion() async throws -> PageVersion? {
        if requests.fresh { return nil }
        if let store = connection.store, access(store, F_OK) != 0 { return nil }
        let page = try await connection.connected("broker load") {
            try await LoadBookmarks(of: self, $0)?.page(at: url)
        }
        // The mapping that is inferred from the first page reads the others, too.
        return records.reading.mayInfer(connection) && page?.next != nil ? nil : page?.version
    }

    private func inferred(from page: Page) async throws -> InferredModel? {
        let reading = records.reading
        guard reading.mayInfer(connection), let store = connection.store, let entity = reading.entity,
            let body = page.body
        else { return nil }
        let source = records.source(of: page, body, root: nil, maximumBytes: requests.maxBytes.bytes)
        return try await InferredModel(
            of: [source], entity: entity, store: store, model: try connection.storedModel(), reading.inference)
    }
}

struct LoadRequestOptions: ParsableArguments {
    @Option(
        name: .customLong("next"),
        help: ArgumentHelp(
            """
            Where in a page the URL of the next one is: keys with dots between them, or a JSON Pointer. Default: the \
            `Link` field of the response, with rel="next".
            """, valueName: "path"))
    var nextPath: String?

    @Option(help: .value("name", "With --next: the value is no URL but a cursor, which this item of the query takes."))
    var nextParameter: String?

    @Flag(
        help: """
            A page without the URL of the next one is the last one, also where something else in it names another page: \
            without this, such a page is a warning, and --sync deletes nothing.
            """)
    var lastPage = false

    @Option(
        help: .value(
            "count", "The maximum number of pages; the rest is not loaded. Default: 10000, and more are an error."))
    var maxPages: Int?

    @Option(
        name: .customLong("header"), parsing: .singleValue,
        help: ArgumentHelp(
            """
            A field of each request, such as 'Accept: text/csv'. @FILE reads them from a file, one on each line, so that \
            other users do not see a token. No other host than the URL's is sent these. May be repeated.
            """, valueName: "field"), completion: .file())
    var headers: [String] = []

    @Option(
        help: .value(
            "count", "How often a page is requested again after 429, 502, 503, 504 or an error of the connection."))
    var retries = 5

    @Option(
        help: .value(
            "time", "The longest wait before a page is requested again; a server that asks for more fails the load."))
    var maxWait = TimeSpan.seconds(300)

    @Option(help: .value("size", "The maximum bytes of a page, packed and unpacked."))
    var maxBytes = ByteSize(256 << 20)

    @Option(
        help: .value(
            "time",
            "How long to wait for the next bytes of a page. --timeout is for all of them; without it, 10 minutes."))
    var requestTimeout = TimeSpan.seconds(60)

    @Flag(help: "Load all pages, also those that have not changed since they were committed.")
    var fresh = false

    private static let defaultMaxPages = 10_000
    private static let defaultTimeout = TimeSpan.seconds(600)
    private static let largestHeaderFile = 64 << 10

    var pageLimit: Int { maxPages ?? Self.defaultMaxPages }

    mutating func validate() throws {
        try checkRange("--max-pages", pageLimit, in: 1...10_000_000)
        try checkRange("--retries", retries, in: 0...1_000)
        try checkRange("--max-wait", maxWait, in: .seconds(0)...TimeSpan.seconds(86_400))
        try checkRange("--max-bytes", maxBytes, in: 1...ByteSize(1 << 40))
        try checkRange("--request-timeout", requestTimeout, in: .seconds(1)...TimeSpan.seconds(86_400))
        if nextPath == nil, nextParameter != nil {
            throw ValidationError("--next-parameter takes the value that --next leads to; give --next, too.")
        }
    }

    var next: NextPage? { nextPath.map { NextPage(path: $0, parameter: nextParameter) } }

    func client(for url: URL, timeout: TimeSpan?) throws -> PageClient {
        let lines = try headers.flatMap {
            $0.hasPrefix("@") ? try Self.lines(ofFile: String($0.dropFirst())) : [$0]
        }
        do throws(PageError) {
            return PageClient(
                headers: try PageHeaders(lines, for: url),
                retries: RetryPolicy(retries: retries, longestWait: maxWait.exactSeconds),
                maximumBytes: maxBytes.bytes, idleSeconds: requestTimeout.exactSeconds,
                pageSeconds: (timeout ?? Self.defaultTimeout).exactSeconds
            ) { Program.report("broker: \($0)", .warning) }
        } catch {
            throw CommandFailure(.usage, error.description)
        }
    }

    private static func lines(ofFile path: String) throws(CommandFailure) -> [String] {
        let text = try JSONText.file(path, limit: largestHeaderFile)
        guard text.count <= largestHeaderFile else {
            throw CommandFailure(.failed, "\(path) is too large for header fields.")
        }
        return String(decoding: text.bytes, as: UTF8.self).split(whereSeparator: \.isNewline).map(String.init)
    }
}

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
    }

    private struct CommittedSync: Codable {
        let reading: String
        let sync: String
    }

    private let broker: BrokerClient
    private let command: LoadCommand
    private let reading: String
    /// The id of the last complete sync.
    private var sync: String?

    init?(of command: LoadCommand, _ broker: BrokerClient) async throws {
        guard try await broker.serverInformation().features.contains("bookmark") else { return nil }
        self.broker = broker
        self.command = command
        let (records, format) = (command.records, command.records.format)
        reading = try await Self.hash([
            format.type?.rawValue ?? "", format.root?.text ?? "", format.delimiter?.text ?? "", format.ragged.rawValue,
            records.reading.onInvalid.rawValue, records.reading.unknown.rawValue, command.requests.nextPath ?? "",
            "\(command.requests.lastPage)",
            command.requests.nextParameter ?? "", String(decoding: broker.model().json.bytes, as: UTF8.self),
        ])
        if records.sync, let found: CommittedSync = try await value(ofBookmark: name(command.url, "sync")),
            found.reading == reading
        {
            sync = found.sync
        }
    }

    /// The page as it is in the store; nil when that is not known.
    func page(at url: URL) async throws -> CommittedPage? {
        guard let page: CommittedPage = try await value(ofBookmark: name(url, "page")),
            page.reading == reading, page.sync == sync, page.sync != nil || !command.records.sync
        else { return nil }
        return page
    }

    // MARK: - Bookmarks of jobs

    func bookmark(of page: Page, at url: URL, next: URL?, sync: String?) -> Job.Bookmark {
        var version = page.version
        // Other fields may select other content of the same time. An ETag differs then (RFC 9110, section 8.8.3).
        if !command.requests.headers.isEmpty { version.lastModified = nil }
        let value = CommittedPage(version: version, next: next, reading: reading, sync: sync)
        return Job.Bookmark(name(url, "page"), version.isKnown ? Self.text(value) : nil)
    }

    /// For the other jobs of a page.
    func deletion(ofPageAt url: URL) -> Job.Bookmark { Job.Bookmark(name(url, "page"), nil) }

    /// For the last part of a sync.
    func bookmark(ofSync sync: String) -> Job.Bookmark {
        Job.Bookmark(name(command.url, "sync"), Self.text(CommittedSync(reading: reading, sync: sync)))
    }

    // MARK: - Names and values

    /// A URL's query may be long, so it is in the hash alone.
    private func name(_ url: URL, _ kind: String) -> String {
        let (records, reading) = (command.records, command.records.reading)
        let path = url.absoluteString.prefix { $0 != "?" && $0 != "#" }.prefix(500)
        let hash = Self.hash(
            [
                kind, url.absoluteString, reading.entity ?? "", reading.path ?? "", reading.mapping ?? "",
                records.sync ? "sync" : "", records.selection.format ?? "",
            ] + records.selection.arguments.map(\.text))
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

struct LoadRecordOptions: ParsableArguments {
    @OptionGroup var reading: ReadingOptions

    @Flag(help: "At the end, delete the objects of the entity that no page named. Needs --entity.")
    var sync = false

    @OptionGroup var selection: SelectionOptions

    @Option(
        name: .customLong("max-delete"),
        help: .value(
            "count", "With --sync: the maximum number of objects to delete, or a share of each entity's, as in 10%."))
    var maxDelete: Job.DeletionLimit?

    @OptionGroup var format: RecordFormatOptions

    mutating func validate() throws {
        if sync, reading.entity == nil { throw ValidationError("--sync deletes objects of an entity; give --entity.") }
        if !sync, selection.format != nil || maxDelete != nil {
            throw ValidationError("--where and --max-delete limit what --sync deletes; give --sync, too.")
        }
    }

    func source(of page: Page, _ body: UnnamedFile, root: RecordRoot?, maximumBytes: Int) -> RecordSource {
        let format =
            format.type ?? RecordFormat(mediaType: page.mediaType)
            ?? RecordFormat(fileName: page.url.lastPathComponent) ?? .json
        var source = self.format.source(body.path, format: format, root: self.format.root ?? root)
        source.title = page.url.absoluteString
        source.maximumBytes = maximumBytes
        return source
    }
}

extension RecordFormat {
    /// Nil for a type that does not say what the body is.
    init?(mediaType: String) {
        switch mediaType {
        case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines",
            "application/json-seq":
            self = .ndjson
        case "text/csv": self = .csv
        case "text/tab-separated-values": self = .tsv
        case "application/x-www-form-urlencoded": self = .form
        case "application/json", "text/json": self = .json
        case "application/xml", "text/xml": self = .xml
        case _ where mediaType.hasSuffix("+json"): self = .json
        case _ where mediaType.hasSuffix("+xml"): self = .xml
        default: return nil
        }
    }
}
