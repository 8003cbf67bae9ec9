import BrokerJSON
import BrokerModel
import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// The store beside an object graph in memory that applies the same jobs by the contract's rules.
///
/// By hand, for a long run: `BROKER_RANDOM_SEED=random BROKER_RANDOM_CASES=5000`; to see one again: the seed that was printed.
@Suite(.timeLimit(.minutes(60))) struct ObjectGraphTests {
    @Test func `the store agrees with an object graph on random jobs for random models`() throws {
        let count = Self.number("BROKER_RANDOM_CASES") ?? Cases.count(60, of: 300)
        let seed = SeededGenerator.testSeed(for: "random jobs for random models")
        var failuresToReport = Self.number("BROKER_RANDOM_FAILURES") ?? 1
        for seed in (0..<count).map({ seed &+ $0 }) {
            let randomCase = RandomCase(seed: seed)
            guard let difference = try randomCase.difference() else { continue }
            Issue.record(
                "BROKER_RANDOM_SEED=\(seed) BROKER_RANDOM_CASES=1\n\(difference)\n\(try Self.small(randomCase))")
            failuresToReport -= 1
            if failuresToReport == 0 { return }
        }
    }

    private static func small(_ randomCase: RandomCase) throws -> String {
        let small = try randomCase.shrunk()
        return "shrunk to\n\(small.description)\ndifference: \(try small.difference()?.description ?? "none")"
    }

    private static func number(_ variable: String) -> UInt64? {
        ProcessInfo.processInfo.environment[variable].flatMap(UInt64.init)
    }
}

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

extension RandomCase: Shrinkable {
    /// A smaller case that still differs in the same way.
    ///
    /// Keys that the model no longer has are unknown keys, which change nothing.
    func shrunk() throws -> RandomCase {
        guard let kind = try difference()?.kind else { return self }
        var shrinking = Shrinking(self)
        while let smaller = shrinking.next() { shrinking.note(fails: smaller.differs(kind)) }
        return shrinking.best
    }

    /// A model that cannot be read is no case, nor is a predicate on an attribute that was taken away.
    private func differs(_ kind: Difference.Kind) -> Bool { (try? difference()?.kind) == kind }

    /// The case without its `part`th part: jobs, then operations, then values in the jobs, then parts of the model.
    func without(part: Int) -> RandomCase? {
        var part = part
        var smaller = self
        if let jobs = jobs.without(part: &part) {
            smaller.jobs = jobs
            return smaller
        }
        for index in jobs.indices {
            if let operations = jobs[index].operations.without(part: &part) {
                smaller.jobs[index].operations = operations
                return smaller
            }
        }
        for index in jobs.indices {
            for operation in jobs[index].operations.indices {
                if let action = jobs[index].operations[operation].action.without(part: &part) {
                    smaller.jobs[index].operations[operation].action = action
                    return smaller
                }
            }
        }
        let operations = jobs.flatMap(\.operations)
        let related = operations.compactMap { if case .relate(_, let name, _) = $0.action { name } else { nil } }
        let used = Set(operations.map(\.entity) + related)
        if let model = model.without(part: &part, used: used) {
            smaller.model = model
            return smaller
        }
        return nil
    }
}

extension RandomJob.Action {
    fileprivate func without(part: inout Int) -> Self? {
        switch self {
        case .process(let json): json.without(part: &part).map { .process($0) }
        case .change(let key, let json): json?.without(part: &part).map { .change(key: key, $0) }
        case .relate(let key, let name, let json):
            json.without(part: &part).map { .relate(key: key, relationship: name, $0) }
        case .sync(let json, let condition): json.without(part: &part).map { .sync($0, condition) }
        case .delete(let keys): keys.without(part: &part).map { .delete(keys: $0) }
        case .deleteMatching: nil
        }
    }
}

extension Tree {
    /// Without its `part`th element or member at any depth; nil when it has fewer, and `part` is then less by those.
    fileprivate func without(part: inout Int) -> Tree? {
        switch self {
        case .literal: return nil
        case .array(var elements):
            if let smaller = elements.without(part: &part) { return .array(smaller) }
            for index in elements.indices {
                guard let smaller = elements[index].without(part: &part) else { continue }
                elements[index] = smaller
                return .array(elements)
            }
        case .object(var members):
            // A record keeps the mark that it is found by.
            let removable = members.indices.filter { members[$0].key != "mark" }
            if part < removable.count {
                members.remove(at: removable[part])
                return .object(members)
            }
            part -= removable.count
            for index in members.indices {
                guard let smaller = members[index].value.without(part: &part) else { continue }
                members[index].value = smaller
                return .object(members)
            }
        }
        return nil
    }
}

extension RandomModel {
    /// Without its `part`th part, in the same way: entities that nothing needs, relationships with their inverses,
    /// attributes, and what is asked of attributes.
    fileprivate func without(part: inout Int, used: Set<String>) -> RandomModel? {
        var parts: [RandomModel] = []
        let needed = used.union(entities.flatMap(\.relationships).map(\.destination)).union(
            entities.compactMap(\.parent))
        for (index, entity) in entities.enumerated() where !needed.contains(entity.name) {
            var smaller = self
            smaller.entities.remove(at: index)
            parts.append(smaller)
        }
        for (index, entity) in entities.enumerated() {
            for relationship in entity.relationships {
                // Operations that relate need it.
                let isUsed = used.contains("\(relationship.name)") || used.contains(relationship.inverse ?? "")
                if !isUsed, !relationship.isOfOwner { parts.append(without(relationship, of: index)) }
            }
            for attribute in entity.attributes where !entity.identity.contains(attribute.name) {
                guard !["mark", "at", "gone"].contains(attribute.name) else { continue }
                var smaller = self
                smaller.entities[index].attributes.removeAll { $0.name == attribute.name }
                smaller.entities[index].unique.removeAll { $0.contains(attribute.name) }
                parts.append(smaller)
            }
            parts += withoutAge(index)
            for (position, relationship) in entity.relationships.enumerated() {
                for plainer in Self.plainer(relationship) {
                    var smaller = self
                    smaller.entities[index].relationships[position] = plainer
                    parts.append(smaller)
                }
            }
            if entity.isAbstract {
                var smaller = self
                smaller.entities[index].isAbstract = false
                parts.append(smaller)
            }
            if !entity.unique.isEmpty {
                var smaller = self
                smaller.entities[index].unique = []
                parts.append(smaller)
            }
            for (position, attribute) in entity.attributes.enumerated() {
                for plainer in Self.plainer(attribute) {
                    var smaller = self
                    smaller.entities[index].attributes[position] = plainer
                    parts.append(smaller)
                }
            }
        }
        guard part < parts.count else {
            part -= parts.count
            return nil
        }
        return parts[part]
    }

    /// Without `modified`, and without `tombstone`.
    private func withoutAge(_ index: Int) -> [RandomModel] {
        [("at", \RandomModel.Entity.hasModified), ("gone", \RandomModel.Entity.hasTombstone)].filter {
            entities[index][keyPath: $1]
        }.map {
            var smaller = self
            smaller.entities[index][keyPath: $1] = false
            let name = $0
            smaller.entities[index].attributes.removeAll { $0.name == name }
            return smaller
        }
    }

    private func without(_ relationship: Relationship, of index: Int) -> RandomModel {
        var smaller = self
        smaller.entities[index].relationships.removeAll { $0.name == relationship.name }
        if let inverse = relationship.inverse {
            let other = smaller.entities.firstIndex { $0.name == relationship.destination }!
            smaller.entities[other].relationships.removeAll { $0.name == inverse }
        }
        return smaller
    }

    private static func plainer(_ relationship: Relationship) -> [Relationship] {
        var all: [Relationship] = []
        add(&all, relationship, relationship.replaces && !relationship.isOwned) { $0.replaces = false }
        add(&all, relationship, relationship.isOrdered) { $0.isOrdered = false }
        add(&all, relationship, relationship.missing != .stub) { $0.missing = .stub }
        add(&all, relationship, relationship.rule != .nullify) { $0.rule = .nullify }
        return all
    }

    private static func add<Part>(
        _ all: inout [Part], _ part: Part, _ isSet: Bool, _ change: (inout Part) -> Void
    ) {
        guard isSet else { return }
        var plainer = part
        change(&plainer)
        all.append(plainer)
    }

    private static func plainer(_ attribute: Attribute) -> [Attribute] {
        var all: [Attribute] = []
        add(&all, attribute, attribute.isRequired) { $0.isRequired = false }
        add(&all, attribute, attribute.defaultValue != nil) { $0.defaultValue = nil }
        add(&all, attribute, attribute.isUnique) { $0.isUnique = false }
        add(&all, attribute, attribute.limit != nil) { $0.limit = nil }
        add(&all, attribute, attribute.onInvalid != nil) { $0.onInvalid = nil }
        add(&all, attribute, attribute.hasFallback) { $0.hasFallback = false }
        return all
    }
}

/// The reference: objects, their values and links in memory.
///
/// It shares nothing with the store but the model's text. Values are texts as `SQLRows` reads them from a table; nil and
/// NULL are a missing member.
struct ObjectGraph {
    /// The identity of an object among those of its hierarchy, as stored values.
    struct Key: Hashable {
        /// The entity among whose objects the identity is unique.
        let entity: String
        let identity: [String]
    }

    typealias Node = Int

    struct Object {
        var entity: String
        var values: [String: String]
        /// The `_pk` that the store gave it, once that is known.
        var rowKey: String?
    }

    struct Link: Hashable {
        let relationship: String
        let from: Node
        let to: Node
    }

    let model: RandomModel
    private(set) var objects: [Node: Object] = [:]
    private(set) var nodes: [Key: Node] = [:]
    /// Each link with its position, 0 where the relationship is not ordered. A link of two inverse relationships is there twice, once
    /// for each direction.
    private(set) var links: [Link: Int] = [:]
    /// The nodes of identities, also of those whose objects the job deleted.
    private var former: [Key: Node] = [:]
    /// The keys that deleted objects had last.
    private(set) var lastKeys: [Node: String] = [:]
    private var newest: Node = 0

    init(_ model: RandomModel) { self.model = model }

    // MARK: - Objects

    func entity(of node: Node) -> RandomModel.Entity { model.entity(objects[node]!.entity) }

    func key(_ entity: String, _ identity: [String]) -> Key {
        Key(entity: model.identityOwner(entity), identity: identity)
    }

    /// Before a job: only what the job makes again is the same object.
    mutating func beginJob() { former = nodes }

    /// A new object with its entity's defaults. "There is one object per identity": it takes the place of a deleted one.
    mutating func insert(_ entity: RandomModel.Entity, identity: [String]?) -> Node {
        newest += 1
        let known = entity.hasRowKey ? nil : identity.flatMap { former[key(entity.name, $0)] }
        let node = known.flatMap { objects[$0] == nil ? $0 : nil } ?? newest
        objects[node] = Object(entity: entity.name, values: entity.defaults)
        setIdentity(of: node, entity.name, to: identity)
        return node
    }

    /// The objects that it owns follow it.
    mutating func setIdentity(of node: Node, _ entityName: String, to identity: [String]?) {
        let entity = model.entity(entityName)
        let old = entity.identity.compactMap { objects[node]!.values[$0] }
        if old.count == entity.identity.count, !old.isEmpty { nodes[key(entityName, old)] = nil }
        guard let identity else { return }
        for (name, value) in zip(entity.identity, identity) { objects[node]!.values[name] = value }
        nodes[key(entityName, identity)] = node
        former[key(entityName, identity)] = node
        for relationship in self.entity(of: node).relationships where relationship.isOwned {
            for part in destinations(relationship, of: node) {
                let entity = self.entity(of: part)
                let own = entity.identity.dropFirst(identity.count).map { objects[part]!.values[$0]! }
                setIdentity(of: part, entity.name, to: identity + own)
            }
        }
    }

    /// The object becomes one of an entity below its own, and takes the defaults of what is new to it.
    mutating func turn(_ node: Node, into entity: RandomModel.Entity) {
        let known = Set(self.entity(of: node).attributes.map(\.name))
        for (name, value) in entity.defaults where !known.contains(name) { objects[node]!.values[name] = value }
        objects[node]!.entity = entity.name
    }

    mutating func set(_ attribute: String, of node: Node, to value: String?) {
        objects[node]!.values[attribute] = value
    }

    mutating func set(rowKey: String, of node: Node) { objects[node]!.rowKey = rowKey }

    func lacksRequired(_ node: Node) -> Bool {
        entity(of: node).attributes.contains { $0.isRequired && objects[node]!.values[$0.name] == nil }
    }

    // MARK: - Unique values

    /// A value that only one object may have.
    struct UniqueValue: Hashable {
        let topmost: String
        let columns: [String]
        let values: [String]
    }

    func uniqueValues(of node: Node) -> Set<UniqueValue> {
        guard let object = objects[node] else { return [] }
        let topmost = model.topmost(object.entity)
        let attributes = model.entity(object.entity).attributes.map(\.name)
        return model.uniqueColumns(below: topmost).reduce(into: []) { all, columns in
            let values = columns.compactMap { column in
                attributes.first { model.column($0, of: object.entity) == column }.flatMap { object.values[$0] }
            }
            guard values.count == columns.count else { return }
            all.insert(UniqueValue(topmost: topmost, columns: columns, values: values))
        }
    }

    func isTaken(_ value: UniqueValue, from node: Node) -> Bool {
        objects.keys.contains { $0 != node && uniqueValues(of: $0).contains(value) }
    }

    // MARK: - Links

    /// The objects that a relationship of that object leads to, in their order.
    func destinations(_ relationship: RandomModel.Relationship, of node: Node) -> [Node] {
        links(relationship, of: node)
            .sorted { ($0.value, $0.key.to) < ($1.value, $1.key.to) }.map(\.key.to)
    }

    func links(_ relationship: RandomModel.Relationship, of node: Node) -> [Link: Int] {
        links.filter { $0.key.relationship == relationship.name && $0.key.from == node }
    }

    /// What is stored of the links of one object.
    func keys(_ links: [Link: Int]) -> Set<[String]> { Set(links.map { keyColumns($0.key.to) + ["\($0.value)"] }) }

    func inverse(of relationship: RandomModel.Relationship) -> RandomModel.Relationship? {
        relationship.inverse.map { model.entity(relationship.destination).relationship($0) }
    }

    func position(_ relationship: RandomModel.Relationship, _ from: Node, _ to: Node) -> Int? {
        links[Link(relationship: relationship.name, from: from, to: to)]
    }

    /// Both sides of a link are true, and its ends lose other partners where there may be only one.
    mutating func link(_ relationship: RandomModel.Relationship, from: Node, to: Node, at position: Int? = nil) {
        let inverse = inverse(of: relationship)
        if !relationship.isToMany {
            for other in destinations(relationship, of: from) where other != to { unlink(relationship, from, other) }
        }
        if let inverse, !inverse.isToMany {
            for other in destinations(inverse, of: to) where other != from { unlink(inverse, to, other) }
        }
        add(relationship, from, to, position)
        if let inverse, inverse.name != relationship.name || from != to { add(inverse, to, from, nil) }
    }

    private mutating func add(_ relationship: RandomModel.Relationship, _ from: Node, _ to: Node, _ position: Int?) {
        let link = Link(relationship: relationship.name, from: from, to: to)
        guard relationship.isOrdered else { return links[link] = 0 }
        let last = links.filter { $0.key.relationship == relationship.name && $0.key.from == from }.map(\.value).max()
        links[link] = position ?? links[link] ?? (last ?? -1) + 1
    }

    mutating func unlink(_ relationship: RandomModel.Relationship, _ from: Node, _ to: Node) {
        links[Link(relationship: relationship.name, from: from, to: to)] = nil
        if let inverse = relationship.inverse { links[Link(relationship: inverse, from: to, to: from)] = nil }
    }

    // MARK: - Deletion

    /// Deletes objects by the delete rules; false when `deny` prevents that.
    mutating func delete(_ named: Set<Node>) -> Bool {
        var going = named
        var last = named
        while !last.isEmpty {
            last = Set(last.flatMap { destinations(of: $0) { $0.rule == .cascade || $0.isOwned } }).subtracting(going)
            going.formUnion(last)
        }
        let isDenied = going.contains { node in
            destinations(of: node) { $0.rule == .deny }.contains { !going.contains($0) }
        }
        if isDenied { return false }
        nodes = nodes.filter { !going.contains($0.value) }
        links = links.filter { !going.contains($0.key.from) && !going.contains($0.key.to) }
        for node in going { lastKeys[node] = json(keyOf: node) }
        for node in going { objects[node] = nil }
        return true
    }

    private func destinations(of node: Node, _ isIncluded: (RandomModel.Relationship) -> Bool) -> [Node] {
        entity(of: node).relationships.filter(isIncluded).flatMap { destinations($0, of: node) }
    }
}

/// As tables.
extension ObjectGraph {
    /// The value of a column that links to the object, by `database.md`.
    func keyColumns(_ node: Node) -> [String] {
        let entity = entity(of: node)
        if entity.hasRowKey { return [objects[node]!.rowKey ?? "new \(node)"] }
        return entity.identity.map { objects[node]!.values[$0] ?? "NULL" }
    }

    private func keyColumnNames(_ entity: RandomModel.Entity) -> [String] {
        entity.hasRowKey ? ["_pk"] : entity.identity
    }

    /// The columns of an entity's table as SQL: its row key, its attributes, its to-one relationships with their positions.
    func columns(_ entity: RandomModel.Entity) -> [String] {
        let own = (entity.hasRowKey ? ["_pk"] : []) + entity.attributes.map(\.name)
        return own
            + entity.relationships.filter { !$0.isToMany }.flatMap { relationship in
                let keys = keyColumnNames(model.entity(relationship.destination))
                let columns = keys.count == 1 ? [relationship.name] : keys.map { "\(relationship.name)_\($0)" }
                guard inverse(of: relationship)?.isOrdered ?? false else { return columns }
                // A position without a link says nothing.
                return columns + ["iif(\(columns[0]) IS NULL, NULL, \(relationship.name)_position)"]
            }
    }

    func row(_ node: Node) -> String {
        let object = objects[node]!
        let entity = model.entity(object.entity)
        var cells = entity.hasRowKey ? [object.rowKey ?? "new \(node)"] : []
        cells += entity.attributes.map { object.values[$0.name] ?? "NULL" }
        for relationship in entity.relationships where !relationship.isToMany {
            let other = destinations(relationship, of: node).first
            let count = keyColumnNames(model.entity(relationship.destination)).count
            cells += other.map(keyColumns) ?? Array(repeating: "NULL", count: count)
            guard let inverse = inverse(of: relationship), inverse.isOrdered else { continue }
            cells.append(other.map { "\(position(inverse, $0, node)!)" } ?? "NULL")
        }
        return cells.joined(separator: "|")
    }

    func rows(_ entity: RandomModel.Entity) -> [String] {
        objects.filter { $0.value.entity == entity.name }.keys.map(row).sorted()
    }

    struct LinkTable {
        /// As it is declared.
        let entity: RandomModel.Entity
        let relationship: RandomModel.Relationship
        var name: String { "\(entity.name)_\(relationship.name)" }
    }

    /// To-many relationships without a to-one inverse; of a pair, the one whose entity, or itself, is first by name.
    var linkTables: [LinkTable] {
        model.entities.flatMap { entity in
            entity.relationships.filter(hasLinkTable).filter { relationship in
                guard let inverse = relationship.inverse else { return true }
                return (entity.name, relationship.name) <= (relationship.destination, inverse)
            }.map { LinkTable(entity: entity, relationship: $0) }
        }
    }

    /// The relationship's links are in a table of their own.
    func hasLinkTable(_ relationship: RandomModel.Relationship) -> Bool {
        relationship.isToMany && inverse(of: relationship)?.isToMany ?? true
    }

    func columns(_ table: LinkTable) -> [String] {
        let ends = [("source", table.entity.name), ("destination", table.relationship.destination)]
        return ends.flatMap { side, entity in
            let keys = keyColumnNames(model.entity(entity))
            return keys.count == 1 ? [side] : keys.map { "\(side)_\($0)" }
        } + (table.relationship.isOrdered ? ["position"] : [])
            + (inverse(of: table.relationship)?.isOrdered ?? false ? ["inverse_position"] : [])
    }

    func rows(_ table: LinkTable) -> [String] {
        links.filter { $0.key.relationship == table.relationship.name }.map { link, position in
            var cells = keyColumns(link.from) + keyColumns(link.to)
            if table.relationship.isOrdered { cells.append("\(position)") }
            if let inverse = inverse(of: table.relationship), inverse.isOrdered {
                cells.append("\(self.position(inverse, link.to, link.from)!)")
            }
            return cells.joined(separator: "|")
        }.sorted()
    }

    /// An object's key as it is in answers.
    func json(keyOf node: Node) -> String {
        let object = objects[node]!
        let entity = model.entity(object.entity)
        guard !entity.isNamedByRowKey else { return object.rowKey ?? "new \(node)" }
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
