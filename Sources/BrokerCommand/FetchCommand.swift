import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON
import Glibc

/// How fetched objects are printed.
enum FetchFormat: String, CaseIterable, ExpressibleByArgument {
    case json, ndjson, csv, table
}

struct FetchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fetch", abstract: "Prints objects: as a table on a terminal, as NDJSON otherwise.",
        discussion: """
            broker fetch --entity Employee --where 'department.name == %@' --argument 'R&D' --sort=-hiredAt --include \
            department
            """)

    @OptionGroup var connection: ConnectionOptions

    @OptionGroup var selection: SelectionOptions

    @Option(
        help: ArgumentHelp("The key of the one object to fetch: JSON, or else text.", valueName: "key"))
    var object: CommandValue?

    @Option(
        help: ArgumentHelp(
            "An attribute to sort by, or a key path to it; --sort=-name begins with the last. May be given several times.",
            valueName: "attribute"))
    var sort: [String] = []

    @Option(
        help: ArgumentHelp(
            "A path of relationships whose objects are nested. May be given several times.", valueName: "path"))
    var include: [String] = []

    @Option(help: ArgumentHelp("The maximum number of objects. Default: all.", valueName: "count"))
    var limit: Int?

    @Option(help: ArgumentHelp("The number of objects to skip.", valueName: "count"))
    var offset = 0

    @Flag(help: "Use the model's own names, and ISO 8601 for all dates.")
    var local = false

    @Option(help: ArgumentHelp("json, ndjson, csv or table.", valueName: "format"))
    var format: FetchFormat?

    @Flag(help: "The same as --format json.")
    var json = false

    @Option(help: "The objects' entity.", completion: .entity)
    var entity: String?

    @Argument(help: ArgumentHelp("The same as --entity.", valueName: "entity"), completion: .entity)
    var entityArgument: String?

    mutating func validate() throws {
        guard (entity == nil) != (entityArgument == nil) else {
            throw ValidationError(
                entity == nil
                    ? "Say what to fetch: --entity E." : "The entity is given twice: as --entity, and by itself.")
        }
        try NumberOption("--offset", offset, in: 0...Int.max).check()
        if let limit { try NumberOption("--limit", limit, in: 0...Int.max).check() }
        guard !(json && format != nil && format != .json) else {
            throw ValidationError(
                "--json and --format \(format?.rawValue ?? "") contradict each other; give one of them.")
        }
    }

    func run() async throws {
        try await connection.connected("broker fetch", print)
    }

    private func print(from broker: BrokerClient) async throws {
        var query = Query(entity ?? entityArgument!)
        query.predicate = selection.predicate
        query.object = object?.json
        query.sort = sort
        query.include = include
        query.limit = limit
        query.offset = offset
        query.names = local ? .local : .remote
        query.dates = .model
        var printer = FetchPrinter(json ? .json : format ?? (isatty(STDOUT_FILENO) == 1 ? .table : .ndjson))
        while let next = try await print(query, from: broker, by: &printer) { query = next }
        try printer.end()
    }

    /// Prints the objects of one moment.
    ///
    /// - Returns: the query for the rest, when printing took so long that the server ended its transaction; nil at the end.
    private func print(
        _ query: Query, from broker: BrokerClient, by printer: inout FetchPrinter
    ) async throws -> Query? {
        var last: RawJSON?
        let before = printer.count
        do {
            for try await found in broker.results(of: query) {
                try printer.add(found.objects)
                last = found.last
            }
            return nil
        } catch let error as BrokerError {
            // The rest is after a key, so only objects in the order of their keys have one.
            guard error.code == .snapshotExpired, query.sort.isEmpty, let last else { throw CommandFailure(error) }
            var rest = query
            rest.after = last
            rest.offset = 0
            rest.limit = query.limit.map { $0 - (printer.count - before) }
            return rest
        }
    }
}
