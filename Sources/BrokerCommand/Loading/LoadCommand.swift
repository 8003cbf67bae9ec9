import ArgumentParser
import Broker
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
            --sync, objects that no page named are deleted at the end, if every page was committed.
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
        let client = try PageClient(requests.options(for: url)) { Program.complain("broker: \($0)", .warning) }
        defer { client.close() }
        var memory = LoadMemory(of: self)
        if requests.fresh { memory.forget() } else { try await verify(&memory) }
        let first = try await Self.reporting { try await client.page(at: url, unless: memory.version(of: url)) }
        let inferred = try await inferred(from: first)
        try await connection.connected("broker load", makesStore: true, inferred: inferred) { broker in
            memory.model = try await LoadMemory.mark(of: broker.model())
            var run = LoadRun(self, broker, client, memory, mapping: inferred?.mapping, root: inferred?.root)
            try await run.run(first)
        }
    }

    static func reporting<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as PageError {
            throw CommandFailure(.failed, error.description)
        }
    }

    /// The memory counts only while the store has the job that it came with, and the model. Another store, and a backup
    /// from before that job, does not.
    private func verify(_ memory: inout LoadMemory) async throws {
        guard let job = memory.job else { return }
        if let store = connection.store, access(store, F_OK) != 0 { return memory.forget() }
        let (known, model) = (job, memory.model)
        let isStored = try await connection.connected("broker load") { broker in
            do {
                guard try await LoadMemory.mark(of: broker.model()) == model else { return false }
                return try await broker.await(JobID(known.id)).sequence == known.sequence
            } catch let error as BrokerError where error.code == .unknownJob || error.code == .outcomeUnknown {
                return false
            } catch {
                throw CommandFailure(error)
            }
        }
        if !isStored { memory.forget() }
    }

    private func inferred(from page: Page) async throws -> InferredModel? {
        guard let store = connection.store, connection.model.isEmpty, let entity = records.entity, let body = page.body
        else { return nil }
        let request = InferredModel.Request(
            store: store, entity: entity, identities: records.inference.identities(or: entity),
            ignored: records.inference.ignored(or: entity), evolves: nil)
        let source = records.source(of: page, body, root: nil)
        return try await InferredModel(request, model: try connection.storedModel(), [source])
    }
}
