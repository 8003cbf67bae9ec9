import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput
import BrokerPages
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
        if !connection.isLocal || !connection.model.isEmpty || records.entity == nil,
            let option = records.inference.given.first
        {
            throw ValidationError(
                "\(option) is for a model that is inferred: give --store and --entity, and no --model.")
        }
    }

    func run() async throws {
        let options = try requests.options(for: url, timeout: connection.timeout)
        let client = PageClient(options) { Program.complain("broker: \($0)", .warning) }
        let version = try await committedVersion()
        let first = try await Self.reporting { try await client.page(at: url, unless: version) }
        let inferred = try await inferred(from: first)
        try await connection.connected(
            "broker load", makesStore: true, inferred: inferred,
            onInterruption: { Program.complain("broker: interrupted; \(Self.continuation)") }
        ) { broker in
            let bookmarks = try await Self.asking { try await LoadBookmarks(of: self, broker) }
            if bookmarks == nil {
                Program.complain("broker: the server is of an earlier version, without bookmarks: every page is loaded")
            }
            var run = try await LoadRun(
                self, broker, client, bookmarks, entity: anyEntity(of: broker), mapping: inferred?.mapping,
                root: inferred?.root)
            try await run.run(first, unless: version)
        }
    }

    /// The same command: what the store has of a page is found by its bookmark, or record by record.
    static var continuation: String { "to go on, run: \(CommandLine.arguments.shellText)" }

    static func reporting<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as PageError {
            throw CommandFailure(.failed, error.description)
        }
    }

    /// Runs what asks the server.
    static func asking<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as BrokerError {
            throw CommandFailure(error)
        }
    }

    /// The version of the first page that is in the store. The store is closed while the page is requested.
    private func committedVersion() async throws -> PageVersion? {
        if requests.fresh { return nil }
        if let store = connection.store, access(store, F_OK) != 0 { return nil }
        let page = try await connection.connected("broker load") { broker in
            try await Self.asking { try await LoadBookmarks(of: self, broker)?.page(at: url) }
        }
        // The mapping that is inferred from the first page reads the others, too.
        return mayInfer && page?.next != nil ? nil : page?.version
    }

    private var mayInfer: Bool { connection.isLocal && connection.model.isEmpty && records.entity != nil }

    /// For jobs without records.
    private func anyEntity(of broker: BrokerClient) async throws -> String {
        if let entity = records.entity { return entity }
        return try await Self.asking { try await broker.serverInformation() }.entities.first ?? ""
    }

    private func inferred(from page: Page) async throws -> InferredModel? {
        guard mayInfer, let store = connection.store, let entity = records.entity, let body = page.body else {
            return nil
        }
        let request = InferredModel.Request(
            store: store, entity: entity, identities: records.inference.identities(or: entity),
            ignored: records.inference.ignored(or: entity), evolves: nil)
        let source = records.source(of: page, body, root: nil, maximumBytes: requests.maxBytes.bytes)
        return try await InferredModel(request, model: try connection.storedModel(), [source])
    }
}
