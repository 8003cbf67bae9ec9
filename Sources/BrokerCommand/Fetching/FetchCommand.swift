import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerModel

struct FetchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fetch", abstract: "Prints objects: as a table on a terminal, as NDJSON otherwise.",
        discussion: """
            broker fetch Employee --where 'department.name == %@' --argument 'R&D' --sort=-hiredAt --include department
            broker fetch Employee --select name,department.name --csv
            broker fetch Employee --object 7 --object 8 -x

            \(SelectionOptions.language)
            """)

    @OptionGroup var connection: ConnectionOptions

    @OptionGroup var selection: SelectionOptions

    @Option(
        name: .customLong("object"), parsing: .unconditionalSingleValue,
        help: ArgumentHelp(
            """
            The key of an object to fetch: JSON, or else text. May be given several times. The status is 1 if one of \
            them does not exist.
            """, valueName: "key"))
    var objects: [CommandValue] = []

    @Option(
        help: ArgumentHelp(
            """
            The values to print, in this order: attributes, to-one relationships, or key paths to them, joined by \
            commas. Default: whole objects. May be given several times.
            """, valueName: "names"))
    var select: [String] = []

    @Flag(help: "Print the number of objects.")
    var count = false

    @Option(
        help: .value(
            "attribute",
            "An attribute to sort by, or a key path to it; --sort=-name begins with the last. May be given several times."
        ))
    var sort: [String] = []

    @Option(
        help: .value(
            "paths", "Paths of relationships whose objects are nested, joined by commas. May be given several times."))
    var include: [String] = []

    @Option(help: .value("count", "The maximum number of objects. Default: all."))
    var limit: Int?

    @Option(help: .value("count", "The number of objects to skip."))
    var offset = 0

    @Option(
        help: .value(
            "sequence",
            "Wait until the server has applied that job, which another server of the same log has completed."))
    var afterSequence: Int64?

    @Flag(help: "Use the model's own names, and ISO 8601 for all dates.")
    var local = false

    @Flag(help: "Add the version of each object, as _version, for --expect-version of `relate` and `delete`.")
    var versions = false

    @OptionGroup var format: FetchFormatOptions

    @Option(help: "The objects' entity.", completion: .entity)
    var entity: String?

    @Argument(help: .value("entity", "The same as --entity."), completion: .entity)
    var entityArgument: String?

    mutating func validate() throws {
        guard (entity == nil) != (entityArgument == nil) else {
            throw ValidationError(
                entity == nil
                    ? "Say what to fetch: --entity E." : "The entity is given twice: as --entity, and by itself.")
        }
        try checkRange("--offset", offset, in: 0...Int.max)
        try checkRange("--after-sequence", afterSequence, in: 0...Int64.max)
        try checkRange("--limit", limit, in: 0...Int.max)
        guard objects.isEmpty || sort.isEmpty && limit == nil && offset == 0 else {
            throw ValidationError("--object names the objects; --sort, --limit and --offset are for all that match.")
        }
        guard selectedNames.allSatisfy({ !$0.isEmpty }) else {
            throw ValidationError("--select has an empty name; write it as --select id,name,department.name.")
        }
        guard select.isEmpty || include.isEmpty else {
            throw ValidationError("--select names all values, and --include asks for more; give one of them.")
        }
        guard select.isEmpty || !versions else {
            throw ValidationError("--select names all values, and --versions asks for more; give one of them.")
        }
    }

    private var selectedNames: [String] { Self.names(select) }

    private var includedPaths: [String] { Self.names(include) }

    private static func names(_ lists: [String]) -> [String] {
        lists.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
    }

    func run() async throws {
        try await connection.connected("broker fetch", isReading: true) { broker in
            if count { try await printCount(of: queries, from: broker) } else { try await print(queries, from: broker) }
        }
    }

    /// One for each `--object`, with its key as text; else one for all that match.
    private var queries: [(key: String?, query: Query)] {
        var query = Query(fetchedEntity)
        query.predicate = selection.predicate
        query.sortKeys = sort
        query.includedPaths = includedPaths
        query.selectedPaths = selectedNames
        query.limit = limit
        query.offset = offset
        query.minimumSequence = afterSequence
        query.names = local ? .model : .payload
        query.dates = .model
        query.hasVersions = versions
        guard !objects.isEmpty else { return [(nil, query)] }
        return objects.map { object in
            var one = query
            one.key = object.json
            return (object.text, one)
        }
    }

    private func printCount(of queries: [(key: String?, query: Query)], from broker: RemoteBroker) async throws {
        var sum = 0
        var missing: [String] = []
        for (key, query) in queries {
            var query = query
            query.resultForm = .count
            let count: Int = try await broker.fetch(query).decode()
            sum += count
            if let key, count == 0 { missing.append(key) }
        }
        try Program.write(String(sum))
        try report(missing)
    }

    private func print(_ queries: [(key: String?, query: Query)], from broker: RemoteBroker) async throws {
        let isOfColumns = [.table, .csv].contains(format.chosen) && selectedNames.isEmpty
        let paths = isOfColumns ? ColumnPaths(model: try await broker.model(), isLocal: local) : nil
        // A table of whole objects begins with these: where it has no room, its last columns are omitted.
        let leading = format.chosen == .table ? paths?.leading(of: fetchedEntity, including: includedPaths) : nil
        let lasting = format.chosen == .csv ? paths?.extra(of: fetchedEntity, including: includedPaths) : nil
        var printer = FetchPrinter(
            format.chosen, selection: selectedNames, leading: leading ?? [], lasting: lasting ?? [])
        var missing: [String] = []
        for (key, query) in queries {
            let before = printer.count
            guard try await print(query, from: broker, by: &printer) else { return }
            if let key, printer.count == before { missing.append(key) }
        }
        try printer.end()
        try report(missing)
    }

    private var fetchedEntity: String { entity ?? entityArgument ?? "" }

    private func report(_ missing: [String]) throws {
        guard !missing.isEmpty else { return }
        let condition = selection.format == nil ? "" : " that matches --where"
        for key in missing {
            Program.report("broker: \(fetchedEntity) has no object with the key \(key)\(condition).", .error)
        }
        throw CommandFailure(.failed)
    }

    /// Prints the objects of one moment; where that takes so long that the server ends its transaction, the rest of a later one.
    ///
    /// - Returns: false when the reader of standard output is gone.
    private func print(_ query: Query, from broker: RemoteBroker, by printer: inout FetchPrinter) async throws -> Bool {
        var query = query
        let before = printer.count
        while true {
            var last: RawJSON?
            do {
                for try await found in broker.results(of: query) {
                    try printer.add(found.objects)
                    guard StandardOutput.hasReader else { return false }
                    last = found.last
                }
                return true
            } catch let error as BrokerError {
                guard error.code == .snapshotExpired, let last else { throw error }
                query.afterKey = last
                query.offset = 0
                query.limit = limit.map { $0 - (printer.count - before) }
            }
        }
    }
}

/// The paths of values that have columns of whole objects, whichever objects there are.
private struct ColumnPaths {
    let model: ModelDescription
    /// The objects have the model's own names.
    let isLocal: Bool

    /// The paths of the identity; then, for each path of relationships, those of the identities on it, and its beginning,
    /// which is that of all its values.
    func leading(of entity: String, including relationships: [String]) -> [String] {
        identity(of: entity)
            + relationships.flatMap { path in
                let included = included(path, of: entity)
                return included.flatMap { step in identity(of: step.entity).map { "\(step.path).\($0)" } }
                    + included.prefix(1).map(\.path)
            }
    }

    /// Those of `_extra`, which later objects may have and the first ones not.
    func extra(of entity: String, including relationships: [String]) -> [String] {
        let own = hasExtra(entity) ? [Attribute.extraName] : []
        return relationships.reduce(into: own) { paths, path in
            // The objects of a to-many relationship are one value.
            for step in included(path, of: entity).prefix(while: { !$0.isToMany }) where hasExtra(step.entity) {
                let extra = "\(step.path).\(Attribute.extraName)"
                if !paths.contains(extra) { paths.append(extra) }
            }
        }
    }

    /// The entity, or one above or below it, has `_extra`.
    private func hasExtra(_ entity: String) -> Bool {
        model.entities.contains { name, found in
            found.keepsExtraValues == true
                && (model.lineage(of: entity).contains(name) || model.lineage(of: name).contains(entity))
        }
    }

    /// The relationships of a path, each with the path of its values and its destination.
    private func included(_ path: String, of entity: String) -> [(path: String, entity: String, isToMany: Bool)] {
        var steps: [(path: String, entity: String, isToMany: Bool)] = []
        for name in path.split(separator: ".") {
            let last = steps.last
            guard let found = model.first(of: last?.entity ?? entity, { $0.relationships[String(name)] }) else { break }
            let prefix = last.map { $0.path + "." } ?? ""
            steps.append((prefix + keys(String(name), found.key)[0], found.entity, found.isToMany ?? false))
        }
        return steps
    }

    private func identity(of entity: String) -> [String] {
        let names = model.first(of: entity) { $0.identity.isEmpty ? nil : $0.identity } ?? []
        return names.flatMap { name in keys(name, model.first(of: entity) { $0.attributes[name] }?.key) }
    }

    /// The names that fetched objects have for a property.
    private func keys(_ name: String, _ keys: ModelDescription.KeyPaths?) -> [String] {
        guard !isLocal, let paths = keys?.paths, !paths.isEmpty else { return [name] }
        return paths.map { $0.joined(separator: ".") }
    }
}
