import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput
import BrokerJSON
import BrokerModelSources
import BrokerPages
import Foundation

struct LoadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load",
        abstract: "Gets records over HTTP, page after page, and submits them.",
        discussion: """
            The records are read as by `broker submit`. The next page is found where the page names it: in its field \
            Link, in a member such as next or next_cursor, or by numbers such as page and total_pages; --next, --cursor, \
            --page-parameter and --offset-parameter are for other APIs. Without --entity and --mapping, the model's routes \
            for the URL's path read the records. A page that has not changed since it was committed costs one request \
            without a body. With --sync, objects that no page named are deleted at the end, if every page was committed, \
            and the last one is certainly the last.
            For example: broker load Employee https://api.example.com/employees
            As a line of a crontab: broker load --store app.sqlite --entity Employee --sync \
            https://api.example.com/employees
            """)

    @OptionGroup var connection: ConnectionOptions

    @OptionGroup(title: "Records") var records: LoadRecordOptions

    @OptionGroup(title: "Requests") var requests: LoadRequestOptions

    @Flag(help: "Try it: say what it would change, and change nothing. Each page is tried by itself.")
    var dryRun = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    @Argument(
        help: .value("url", "The first page of each list. Before it may be the entity, in the place of --entity."))
    var urls: [String] = []

    /// The first page of each list.
    var lists: [URL] { urls.compactMap { URL(string: $0) } }

    mutating func validate() throws {
        if let first = urls.first, !first.contains("://"), records.reading.takesEntity(first) { urls.removeFirst() }
        guard !urls.isEmpty else { throw ValidationError("Missing expected argument '<url> ...'") }
        for text in urls {
            guard let url = URL(string: text) else { throw ValidationError("\"\(text)\" is no URL.") }
            do throws(PageError) { try PageClient.check(url) } catch { throw ValidationError(error.description) }
            try requests.check(PageRequest(url, body: requests.body()))
        }
        try records.checkSync()
        try records.reading.checkInference(connection)
        if records.sync, requests.since != nil {
            throw ValidationError(
                "--sync deletes what no page names, and with --since pages name what is new; give one.")
        }
    }

    func run() async throws {
        let client = try requests.client(for: lists, timeout: connection.timeout)
        let known = try await known()
        let first = try await firstPages(client, known)
        let inferred = try await inferred(from: first)
        // The other pages are read as the first one, which has not changed, was.
        let isAsBefore = inferred == nil && records.reading.mayInfer(connection)
        let model = isAsBefore ? try connection.storedModel()?.documentAndPlan().1.model : nil
        let mapping = model.flatMap { $0.keyMapping(of: records.reading.entity ?? "") }
        let rejects = try records.rejects.file()
        let hasExtraKeys = try await connection.connected(
            "broker load", makesStore: true, isDryRun: dryRun, inferred: inferred,
            onInterruption: { Program.report("broker: interrupted; \(Self.continuation)") }
        ) { broker in
            let bookmarks = try await LoadBookmarks(of: self, broker)
            if bookmarks == nil {
                let end = requests.since == nil ? "every page is loaded" : "--since loads all each time"
                Program.report("broker: the server is of an earlier version, without bookmarks: \(end)")
            }
            // For jobs without records.
            let entities = try await broker.serverInformation().entities
            let entity = records.reading.entity ?? entities.first ?? ""
            try await inferred?.guessed?.check(against: broker)
            let root = isAsBefore ? known.first?.root.flatMap { RecordRoot($0) } : inferred?.root
            var run = LoadRun(
                self, broker, client, dryRun ? nil : bookmarks, entity: entity, root: root,
                mapping: isAsBefore ? mapping : inferred?.mapping, guessed: inferred?.guessed,
                rejects, keys: await RecordSource.keys(of: records.reading.entity, broker))
            try await run.run(known.requests, first, unless: known.first?.version)
            return run.hasExtraKeys
        }
        // Where all pages are as the first one was, the store's model reads them.
        guard hasExtraKeys, !dryRun, records.reading.mayInfer(connection) else { return }
        await InferredModel.promote(
            connection, evolves: records.reading.evolves, readsTexts: records.format.type?.readsTexts ?? false)
    }

    /// The same command: what the store has of a page is found by its bookmark, or record by record.
    static var continuation: String { "to go on, run: \(CommandLine.arguments.shellText)" }

    /// Versions of pages are of use.
    var usesVersions: Bool { !requests.fresh && !dryRun && requests.since == nil }

    /// What the bookmarks of the store say.
    private struct Known {
        /// For the first page of each list.
        var requests: [PageRequest]
        /// The first page of the first list, as the store has it.
        var first: LoadBookmarks.CommittedPage?
    }

    /// The store is closed while the first page is requested.
    private func known() async throws -> Known {
        let body = requests.body()
        var known = Known(requests: lists.map { PageRequest($0, body: body) })
        guard !requests.fresh, usesVersions && body == nil || requests.since != nil else { return known }
        if let store = connection.store, access(store, F_OK) != 0 { return known }
        try await connection.connected("broker load", isDryRun: dryRun) { broker in
            guard let bookmarks = try await LoadBookmarks(of: self, broker) else { return }
            guard let since = requests.since else {
                known.first = try await bookmarks.page(for: known.requests[0])
                return
            }
            for (index, list) in lists.enumerated() {
                guard let newest = try await bookmarks.newest(of: list) else { continue }
                known.requests[index] = known.requests[index].setting([(since.name, newest)])
            }
        }
        return known
    }

    /// The first page; and where a model is inferred, those after it up to one with records.
    private func firstPages(_ client: PageClient, _ known: Known) async throws -> [PageRequest: Page] {
        let interruption = Interruption { Program.report("broker: interrupted; nothing was sent") }
        defer {
            TerminalLine.clear()
            withExtendedLifetime(interruption) {}
        }
        let mayInfer = records.reading.mayInfer(connection)
        var pages: [PageRequest: Page] = [:]
        var next: PageRequest? = known.requests[0]
        while let request = next, pages[request] == nil, pages.count < requests.pageLimit {
            ReadingLine.draw("page \(pages.count + 1): \(request)")
            let page = try await client.page(for: request, unless: pages.isEmpty ? known.first?.version : nil)
            pages[request] = page
            next = nil
            if mayInfer, let body = page.body, Self.isEmpty(page, body) {
                next = try LoadedPage(request, page, body, of: self, root: nil, isSample: true).next()?.request
            }
        }
        return pages
    }

    /// A page without a record, in a list or by itself.
    private static func isEmpty(_ page: Page, _ body: UnnamedFile) -> Bool {
        guard page.hasContent else { return true }
        guard let document = try? body.firstValue(maximumBytes: 1 << 20) else { return false }
        defer { withExtendedLifetime(document) {} }
        var hasList = false
        func hasRecords(_ value: JSONValue, _ depth: Int) -> Bool {
            if value.kind == .array {
                hasList = true
                return value.elements.first { _ in true } != nil
            }
            return depth < 4 && value.members.contains { hasRecords($0.value, depth + 1) }
        }
        return !hasRecords(document.root, 0) && hasList
    }

    private func inferred(from pages: [PageRequest: Page]) async throws -> InferredModel? {
        let reading = records.reading
        guard reading.mayInfer(connection) else { return nil }
        let bodies = pages.values.filter { $0.hasContent && $0.body != nil }
        let sample = bodies.first { page in page.body.map { !Self.isEmpty(page, $0) } ?? false } ?? bodies.first
        guard let page = sample, let body = page.body else { return nil }
        let source = records.source(of: page, body, root: nil, maximumBytes: requests.maxBytes.bytes)
        return try await InferredModel(
            of: [source], entity: reading.entity, connection, reading.inference, evolves: reading.evolves,
            mayReject: reading.onInvalid == .skip)
    }
}

struct LoadRequestOptions: ParsableArguments {
    @Option(
        name: .customLong("next"),
        help: ArgumentHelp(
            """
            Where in a page the URL of the next one is: keys with dots between them, or a JSON Pointer. Default: the field \
            Link of the response, with rel="next", else members such as next, next_cursor, page and total_pages.
            """, valueName: "path"))
    var nextPath: String?

    @Option(
        help: ArgumentHelp(
            """
            A parameter of the next request, and where in the page its value is: cursor=meta.next, or in the last record: \
            starting_after=@last.id
            """, valueName: "name=path"), transform: { try Assignment($0) })
    var cursor: Assignment?

    @Option(
        help: .value(
            "name", "A parameter that counts pages, until one has no records. The URL has its first value: ?page=1"))
    var pageParameter: String?

    @Option(help: .value("name", "A parameter that counts records, such as offset, until a page has none."))
    var offsetParameter: String?

    @Option(
        help: ArgumentHelp(
            """
            Request each page by POST, with this body: JSON, or a form; @FILE reads it from a file. The parameters are then \
            members of a JSON object, which may be key paths, or items of the form.
            """, valueName: "body"), completion: .file())
    var data: String?

    @Option(
        help: ArgumentHelp(
            """
            Load what is new: the parameter of the first request gets the greatest value that this key of the records had \
            in the last complete load, such as updated_since=updated_at. The first load is without it.
            """, valueName: "name=key"), transform: { try Assignment($0) })
    var since: Assignment?

    @Flag(
        help: """
            A page is the last one if it has no Link to a next page, or what the option for it names, whatever else in it \
            names another page: without this, such a page is a warning, and --sync deletes nothing.
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
            "count",
            "How often a page is requested again after 429, 502, 503, 504, a 403 of a limit, or an error of the connection."
        ))
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
        let given = [
            ("--next", nextPath), ("--cursor", cursor?.text), ("--page-parameter", pageParameter),
            ("--offset-parameter", offsetParameter),
        ].filter { $1 != nil }.map(\.0)
        if given.count > 1 {
            throw ValidationError(
                "\(given.joined(separator: " and ")) each say what the next page is; give one of them.")
        }
        if let data, data.hasPrefix("@") {
            do throws(CommandFailure) { _ = try JSONText.file(String(data.dropFirst())) } catch {
                throw ValidationError(error.description)
            }
        }
        guard let body = body() else { return }
        let isJSON = ["{", "["].contains { String(decoding: body, as: UTF8.self).trimmingPrefix(/\s*/).hasPrefix($0) }
        guard !body.isEmpty, !isJSON || (try? JSONDocument(parsing: JSONText(copying: body))) != nil else {
            throw ValidationError("--data is \(body.isEmpty ? "empty" : "no JSON, although it begins so").")
        }
    }

    /// What is sent by POST; nil for GET.
    func body() -> [UInt8]? {
        guard let data else { return nil }
        guard data.hasPrefix("@") else { return Array(data.utf8) }
        return (try? JSONText.file(String(data.dropFirst()))).map { Array($0.bytes) }
    }

    var rule: PageRule {
        if let nextPath { return .url(PageRule.KeyPath(nextPath)) }
        if let cursor {
            let last = "@last."
            return cursor.path.hasPrefix(last)
                ? .lastRecord(parameter: cursor.name, PageRule.KeyPath(String(cursor.path.dropFirst(last.count))))
                : .cursor(parameter: cursor.name, PageRule.KeyPath(cursor.path))
        }
        if let pageParameter { return .page(parameter: pageParameter) }
        return offsetParameter.map { .offset(parameter: $0) } ?? (lastPage ? .link : .found)
    }

    /// - Parameter first: the request for the first page of a list.
    func check(_ first: PageRequest) throws {
        guard let pageParameter, first.value(of: pageParameter).flatMap({ Int($0) }) == nil else { return }
        throw ValidationError(
            "--page-parameter counts from the number of the first page, which \(first) does not have: give it, as "
                + "?\(pageParameter)=1 or ?\(pageParameter)=0.")
    }

    func client(for lists: [URL], timeout: TimeSpan?) throws -> PageClient {
        let lines = try headers.flatMap {
            $0.hasPrefix("@") ? try Self.lines(ofFile: String($0.dropFirst())) : [$0]
        }
        do throws(PageError) {
            return PageClient(
                headers: try PageHeaders(lines, for: lists),
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
            throw CommandFailure("\(path) is too large for header fields.")
        }
        return String(decoding: text.bytes, as: UTF8.self).split(whereSeparator: \.isNewline).map(String.init)
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

    @OptionGroup var rejects: RejectsOption

    mutating func validate() throws {
        if !sync, selection.format != nil || maxDelete != nil {
            throw ValidationError("--where and --max-delete limit what --sync deletes; give --sync, too.")
        }
    }

    /// The entity may be an argument of the command.
    func checkSync() throws {
        if sync, reading.entity == nil { throw ValidationError("--sync deletes objects of an entity; give --entity.") }
    }

    func source(of page: Page, _ body: UnnamedFile, root: RecordRoot?, maximumBytes: Int) -> RecordSource {
        let name = RecordFormat(mediaType: page.mediaType) ?? RecordFormat(fileName: page.url.lastPathComponent)
        var source = format.source(body.path, named: name, root: format.root ?? root)
        source.reading.readsTables = reading.entity != nil
        source.title = page.url.absoluteString
        source.maximumBytes = maximumBytes
        return source
    }
}

/// A name and a key path with `=` between them.
struct Assignment: Sendable {
    let text: String
    let name: String
    let path: String

    init(_ text: String) throws(ValidationError) {
        let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
        guard parts.count == 2 else {
            throw ValidationError(
                "\"\(text)\" is not the name of a parameter, =, and where its value is: cursor=meta.next")
        }
        (self.text, name, path) = (text, parts[0], parts[1])
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
