import BrokerJSON
import BrokerModel
import TestSupport

@testable import BrokerStore

/// A model and jobs for it, applied to a store and to an object graph, one job after the other.
struct RandomCase {
    var model: RandomModel
    var jobs: [RandomJob]

    init(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        model = RandomModel(using: &generator)
        var jobs = RandomJobs(model, generator)
        self.jobs = (0..<6).map { _ in jobs.job() }
    }

    /// The model and the jobs, and with them all that is needed to see the difference.
    var description: String {
        "model:\n\(model.json)\njobs:\n"
            + jobs.map { "\($0.skips ? "skip" : "fail")  \($0.text)" }.joined(separator: "\n")
    }

    /// Where store and graph differ.
    struct Difference: CustomStringConvertible {
        enum Kind { case end, rejections, changes, rows, again, keys }

        let kind: Kind
        let text: String
        var job = 0

        init(_ kind: Kind, _ text: String) {
            self.kind = kind
            self.text = text
        }

        var description: String { "\(kind) of job \(job): \(text)" }
    }

    enum Verdict {
        case agreement
        /// They differ where the contract leaves room, and what comes after that cannot be compared.
        case room
        case difference(Difference)
    }

    /// Where they first differ; nil when they never do.
    func difference() throws -> Difference? {
        if case .difference(let difference) = try verdict() { difference } else { nil }
    }

    /// Each job comes twice.
    func verdict() throws -> Verdict {
        var options = StoreOptions()
        options.synchronous = .off
        options.cacheBytes = 1 << 20
        let store = try TestStore(model.json, options: options)
        var graph = ObjectGraph(model)
        for (index, job) in jobs.enumerated() {
            var isRepeatable = true
            for isAgain in [false, true] {
                let expectation = graph.apply(job)
                if case .completed(let effect) = expectation, !effect.isRepeatable { isRepeatable = false }
                let difference = try difference(
                    expectation, job, store, &graph, changesNothing: isAgain && isRepeatable)
                guard var difference else { continue }
                if expectation.isContested { return .room }
                difference.job = index
                return .difference(difference)
            }
        }
        return .agreement
    }

    private func difference(
        _ expectation: ObjectGraph.Expectation, _ job: RandomJob, _ store: TestStore, _ graph: inout ObjectGraph,
        changesNothing: Bool
    ) throws -> Difference? {
        let end = try store.apply(job.text, job.policy, wantsKeys: true)
        if let difference = difference(expectation, end) { return difference }
        if let difference = try learnRowKeys(store, &graph) { return difference }
        for entity in model.entities.map({ model.entity($0.name) }) {
            let rows = try Self.rows(store, graph.columns(entity), table(entity))
            if rows != graph.rows(entity) {
                return Difference(.rows, "\(entity.name) is \(rows), should be \(graph.rows(entity))")
            }
        }
        for table in graph.linkTables {
            let rows = try Self.rows(store, graph.columns(table), "\"\(table.name)\"")
            if rows != graph.rows(table) {
                return Difference(.rows, "\(table.name) is \(rows), should be \(graph.rows(table))")
            }
        }
        let dangling = try store.rows("PRAGMA foreign_key_check")
        if !dangling.isEmpty { return Difference(.rows, "links lead nowhere: \(dangling)") }
        guard case .completed(let effect) = expectation, case .completed(let outcome) = end else { return nil }
        if changesNothing, !effect.inserted.isEmpty || !effect.updated.isEmpty {
            return Difference(.again, "the job sent again changes \(effect.changes)")
        }
        return try keyDifference(effect, outcome, graph)
    }

    private func difference(_ expectation: ObjectGraph.Expectation, _ end: JobOutcome) -> Difference? {
        switch (expectation, end) {
        case (.failed(let code, let paths, _), .failed(let fault)):
            let path = fault.path ?? "nowhere"
            guard fault.code.rawValue != code || !paths.contains(path) else { return nil }
            return Difference(.end, "fails with \(fault.code) \(path), should with \(code) \(paths)")
        case (.completed(let effect), .completed(let outcome)):
            if outcome.rejections != effect.rejections {
                return Difference(.rejections, "\(outcome.rejections), should be \(effect.rejections)")
            }
            var changes: [String: String] = [:]
            for (entity, counts) in outcome.changes where counts != ChangeCounts() {
                changes[entity] = "+\(counts.inserted) ~\(counts.updated) =\(counts.unchanged) !\(counts.rejected)"
            }
            return changes == effect.changes ? nil : Difference(.changes, "\(changes), should be \(effect.changes)")
        case (.failed(let code, let paths, _), _):
            return Difference(.end, "completes, should fail with \(code) \(paths)")
        case (_, .failed(let fault)): return Difference(.end, "fails with \(fault), should complete")
        default: return Difference(.end, "is a duplicate")
        }
    }

    /// Finds the `_pk` of new objects by their marks, or by their identity.
    private func learnRowKeys(_ store: TestStore, _ graph: inout ObjectGraph) throws -> Difference? {
        for entity in model.entities.map({ model.entity($0.name) }) where entity.hasRowKey {
            let known = Set(graph.objects.values.filter { $0.entity == entity.name }.compactMap(\.rowKey))
            let columns = ["_pk", "mark"] + entity.identity
            var rows: [String: String] = [:]
            for row in try Self.rows(store, columns, table(entity)) {
                let cells = row.split(separator: "|", maxSplits: 1)
                if !known.contains(String(cells[0])) { rows[String(cells[1])] = String(cells[0]) }
            }
            for (node, object) in graph.objects where object.entity == entity.name && object.rowKey == nil {
                let values = object.values
                let cells = columns.dropFirst().map { values[$0] ?? "NULL" }
                guard let rowKey = rows[cells.joined(separator: "|")] else {
                    return Difference(.rows, "\(entity.name) lacks \(values)")
                }
                graph.set(rowKey: rowKey, of: node)
            }
        }
        return nil
    }

    /// The objects of a hierarchy's topmost entity itself.
    private func table(_ entity: RandomModel.Entity) -> String {
        guard model.isInHierarchy(entity.name) else { return "\"\(entity.name)\"" }
        return "\"\(entity.name)\" WHERE _entity = '\(entity.name)'"
    }

    private static func rows(_ store: TestStore, _ columns: [String], _ table: String) throws -> [String] {
        let names = columns.map { "\"\($0)\"" }.joined(separator: ", ")
        return try store.rows("SELECT \(names) FROM \(table)").map { $0.replacing("-0.0", with: "0.0") }.sorted()
    }

    // MARK: - Keys

    private func keyDifference(_ effect: ObjectGraph.Effect, _ outcome: Outcome, _ graph: ObjectGraph) throws
        -> Difference?
    {
        let document = try JSONDocument(parsing: JSONText(copying: outcome.keys ?? []))
        for entity in model.entities {
            for (kind, nodes) in [("inserted", effect.inserted), ("updated", effect.updated)] {
                let actual = document.root[entity.name]?[kind]?.elements.map {
                    String(decoding: $0.jsonText, as: UTF8.self)
                }
                let keys = (nodes[entity.name] ?? []).map { graph.json(keyOf: $0) }.sorted()
                if (actual ?? []).sorted() != keys {
                    return Difference(.keys, "\(entity.name) \(kind) \(actual ?? []), should be \(keys)")
                }
            }
        }
        return nil
    }
}

extension ObjectGraph {
    /// An object's key as it is in answers.
    func json(keyOf node: Node) -> String {
        let object = objects[node]!
        let entity = model.entity(object.entity)
        let isKeyedBelow = entity.isBelowKeyless && !entity.identity.isEmpty
        if entity.hasRowKey, !isKeyedBelow { return object.rowKey! }
        let parts = entity.identity.map { Self.json(object.values[$0]!, entity.attribute($0).type) }
        guard parts.count > 1 else { return parts[0] }
        return "{\(zip(entity.identity, parts).map { "\"\($0)\":\($1)" }.joined(separator: ","))}"
    }

    private static func json(_ stored: String, _ type: SampleType) -> String {
        switch type {
        case .integer16, .integer64, .double, .transformable: stored
        case .boolean: stored == "1" ? "true" : "false"
        case .binary: type.samples.first { $0.stored == stored }!.json
        case .string, .decimal, .date, .calendarDate, .uuid: "\"\(stored)\""
        }
    }
}
