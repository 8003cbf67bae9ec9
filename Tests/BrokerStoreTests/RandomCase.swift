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
    /// The model and the jobs, and with them all that is needed to see the difference.
    var description: String {
        "model:\n\(model.json)\njobs:\n"
            + jobs.map { "\($0.skips ? "skip" : "fail")  \($0.tree.text)" }.joined(separator: "\n")
    }

    /// Where store and graph differ.
    struct Difference: Error, CustomStringConvertible {
        enum Kind { case end, rejections, changes, rows, keys }

        let kind: Kind
        let text: String
        var job = 0

        init(_ kind: Kind, _ text: String) {
            self.kind = kind
            self.text = text
        }

        var description: String { "\(kind) of job \(job): \(text)" }
    }

    /// Where they first differ; nil when they never do. Each job comes twice.
    func difference() throws -> Difference? {
        var options = StoreOptions()
        options.synchronous = .off
        options.cacheBytes = 1 << 20
        options.interpretsAll = true
        let store = try TestStore(model.json, options: options)
        var graph = ObjectGraph(model)
        for (index, job) in jobs.enumerated() {
            for _ in 0..<2 {
                do { if try !compare(job, store, &graph) { return nil } } catch var difference as Difference {
                    difference.job = index
                    return difference
                }
            }
        }
        return nil
    }

    /// - Returns: false when the graph cannot say what the job does.
    private func compare(_ job: RandomJob, _ store: TestStore, _ graph: inout ObjectGraph) throws -> Bool {
        let operations = String(job.tree.text.dropFirst().dropLast())
        let end = try store.apply(store.job(operations: operations, job.policy))
        let application: JobApplication
        do throws(JobReading.Fault) {
            application = try JobApplication(job, to: graph)
        } catch {
            if error.code == JobReading.Fault.unknownRowKey.code { return false }
            let expected = "\(error.code) \(error.path)"
            guard case .failed(let fault) = end else {
                throw Difference(.end, "completes, should fail with \(expected)")
            }
            let actual = "\(fault.code.rawValue) \(fault.path ?? "nowhere")"
            // Staging judges what is nested in a record with a value of `modified` only when it has compared that.
            let isLate = !JobReading(job, model).faults.isEmpty && operations.contains("\"at\"")
            let isOther = actual.hasPrefix(error.code) && error.others.contains(fault.path ?? "")
            if actual != expected, !isLate, !isOther {
                throw Difference(.end, "fails with \(actual), should with \(expected)")
            }
            try compareRows(store, graph)
            return true
        }
        guard case .completed(let outcome) = end else { throw Difference(.end, "is \(end), should complete") }
        graph = application.graph
        try learnRowKeys(store, &graph)
        try compareRows(store, graph)
        let effect = application.effect(graph)
        if outcome.rejections != effect.rejections {
            throw Difference(.rejections, "\(outcome.rejections), should be \(effect.rejections)")
        }
        if try hasLeftPositions(store, graph) { return true }
        var changes: [String: String] = [:]
        for (entity, counts) in outcome.changes where counts != ChangeCounts() {
            let numbers = [counts.inserted, counts.updated, counts.unchanged, counts.deleted, counts.rejected]
            changes[entity] = zip("+~=-!", numbers).map { "\($0)\($1)" }.joined(separator: " ")
        }
        if changes != effect.changes { throw Difference(.changes, "\(changes), should be \(effect.changes)") }
        try compareKeys(effect, outcome)
        return true
    }

    private func compareRows(_ store: TestStore, _ graph: ObjectGraph) throws {
        for entity in model.entities.map({ model.entity($0.name) }) {
            let rows = try Self.rows(store, graph.columns(entity), table(entity))
            if rows != graph.rows(entity) {
                throw Difference(.rows, "\(entity.name) is \(rows), should be \(graph.rows(entity))")
            }
        }
        for table in graph.linkTables {
            let rows = try Self.rows(store, graph.columns(table), "\"\(table.name)\"")
            if rows != graph.rows(table) {
                throw Difference(.rows, "\(table.name) is \(rows), should be \(graph.rows(table))")
            }
        }
        let dangling = try store.ownRows("PRAGMA foreign_key_check")
        if !dangling.isEmpty { throw Difference(.rows, "links lead nowhere: \(dangling)") }
    }

    /// A link that ends with the object at its other end leaves its position in the row, which counts as a change.
    private func hasLeftPositions(_ store: TestStore, _ graph: ObjectGraph) throws -> Bool {
        try model.entities.contains { entity in
            try entity.relationships.contains { relationship in
                guard !relationship.isToMany, graph.inverse(of: relationship)?.isOrdered ?? false else { return false }
                let destination = model.entity(relationship.destination)
                let column =
                    destination.hasRowKey || destination.identity.count == 1
                    ? relationship.name : "\(relationship.name)_\(destination.identity[0])"
                let condition = "\(column) IS NULL AND \(relationship.name)_position IS NOT NULL"
                return try !store.ownRows("SELECT 1 FROM \"\(entity.name)\" WHERE \(condition) LIMIT 1").isEmpty
            }
        }
    }

    private func compareKeys(_ effect: JobApplication.Effect, _ outcome: Outcome) throws {
        let document = try JSONDocument(parsing: JSONText(copying: outcome.keys ?? []))
        for entity in model.entities.map(\.name) {
            for kind in ["inserted", "updated", "deleted"] {
                let actual = document.root[entity]?[kind]?.elements.map { String(decoding: $0.jsonText, as: UTF8.self) }
                let keys = (effect.keys[kind]?[entity] ?? []).sorted()
                if (actual ?? []).sorted() != keys {
                    throw Difference(.keys, "\(entity) \(kind) \(actual ?? []), should be \(keys)")
                }
            }
        }
    }

    /// Finds the `_pk` of new objects by their marks, or by their identity.
    private func learnRowKeys(_ store: TestStore, _ graph: inout ObjectGraph) throws {
        for entity in model.entities.map({ model.entity($0.name) }) where entity.hasRowKey {
            let known = Set(graph.objects.values.filter { $0.entity == entity.name }.compactMap(\.rowKey))
            let columns = ["_pk", "mark"] + entity.identity
            var rows: [String: String] = [:]
            for row in try Self.rows(store, columns, table(entity)) {
                let cells = row.split(separator: "|", maxSplits: 1)
                if !known.contains(String(cells[0])) { rows[String(cells[1])] = String(cells[0]) }
            }
            for (node, object) in graph.objects where object.entity == entity.name && object.rowKey == nil {
                let cells = columns.dropFirst().map { object.values[$0] ?? "NULL" }
                guard let rowKey = rows[cells.joined(separator: "|")] else {
                    throw Difference(.rows, "\(entity.name) lacks \(object.values)")
                }
                graph.set(rowKey: rowKey, of: node)
            }
        }
    }

    /// The objects of a hierarchy's topmost entity itself.
    private func table(_ entity: RandomModel.Entity) -> String {
        guard model.isInHierarchy(entity.name) else { return "\"\(entity.name)\"" }
        return "\"\(entity.name)\" WHERE _entity = '\(entity.name)'"
    }

    private static func rows(_ store: TestStore, _ columns: [String], _ table: String) throws -> [String] {
        return try store.ownRows("SELECT \(columns.joined(separator: ", ")) FROM \(table)").map {
            $0.replacing("-0.0", with: "0.0")
        }.sorted()
    }
}
