import TestSupport

/// Jobs that are sent to a server and applied to a graph, one after the other.
struct RandomOperationCase {
    var jobs: [RandomOperationJob]

    init(seed: UInt64) {
        var operations = RandomOperations(seed: seed)
        jobs = operations.jobs(8)
    }

    var description: String { jobs.map(\.json).joined(separator: "\n") }

    /// What a run found: where server and graph first differ, and how many jobs failed as they should.
    struct Verdict {
        var difference: String?
        var failures = 0
    }

    func verdict() async throws -> Verdict {
        let running = try await RunningServer(model: GraphModel.json)
        do {
            let verdict = try compare(running.connect(), running.storePath)
            try await running.stop()
            return verdict
        } catch {
            try await running.stop()
            throw error
        }
    }

    private func compare(_ client: RawClient, _ storePath: String) throws -> Verdict {
        var graph = OperationGraph()
        var verdict = Verdict()
        for (index, job) in jobs.enumerated() {
            let answer = try client.ask(job.json)
            var difference: String?
            switch graph.apply(job) {
            case .unknown: return verdict
            case .failed(let code):
                verdict.failures += 1
                let told = "\(answer.code) \(answer["error.path"] ?? "nowhere")"
                if told != code { difference = "ends with \(told), should with \(code)" }
            case .completed(let effect):
                difference = answer.type == "completed" ? nil : "should complete: \(answer.text)"
                difference = try difference ?? graph.learnRowKeys(storePath)
                difference = difference ?? Self.difference(effect, answer, graph, tellsKeys: job.tellsKeys)
            }
            difference = try difference ?? Self.difference(graph, storePath) ?? graph.learnPlaces(storePath)
            if let difference {
                verdict.difference = "job \(index): \(difference)"
                return verdict
            }
        }
        return verdict
    }

    // MARK: - Differences

    private static func difference(_ graph: OperationGraph, _ storePath: String) throws -> String? {
        for table in graph.tables {
            let columns = table.columns.map { "\"\($0)\"" }.joined(separator: ", ")
            let rows = try SQLRows.of("SELECT \(columns) FROM \"\(table.name)\"", in: storePath).sorted()
            if rows != table.rows { return "\(table.name) is \(rows), should be \(table.rows)" }
        }
        return nil
    }

    /// The elements of an array of the answer, each by some of its fields.
    private static func elements(of answer: Message, _ name: String, _ fields: [String]) -> [String] {
        var elements: [String] = []
        while answer["\(name).\(elements.count).\(fields[0])"] != nil {
            let texts = fields.map { answer["\(name).\(elements.count).\($0)"] ?? "none" }
            elements.append(texts.joined(separator: " "))
        }
        return elements
    }

    private static func difference(
        _ effect: OperationGraph.Effect, _ answer: Message, _ graph: OperationGraph, tellsKeys: Bool
    ) -> String? {
        let rejections = effect.rejections.map { "\($0.code) \($0.path) \($0.entity)" }
        let listed = elements(of: answer, "rejected", ["code", "path", "entity"])
        if listed != rejections { return "rejected are \(listed), should be \(rejections)" }
        var warnings: [String: Int] = [:]
        for warning in elements(of: answer, "warnings", ["count", "code", "entity"]) {
            let words = warning.split(separator: " ", maxSplits: 1)
            warnings[String(words[1]), default: 0] += Int(words[0])!
        }
        if warnings != effect.warnings { return "warnings are \(warnings), should be \(effect.warnings)" }
        for entity in GraphModel.entities {
            let name = entity.name
            let expected = effect.keys[name] ?? .init()
            func count(_ word: String) -> Int { answer["changes.\(name).\(word)"].flatMap { Int($0) } ?? 0 }
            let told = ["inserted", "updated", "unchanged", "deleted"].map(count)
            let rejected = effect.rejections.filter { $0.entity == name }.count
            if count("rejected") != rejected {
                return "\(count("rejected")) of \(name) rejected, should be \(rejected)"
            }
            let perhaps = expected.perhapsUpdated.count
            let updated = expected.updated.count...(expected.updated.count + perhaps)
            guard told[0] == expected.inserted.count, updated.contains(told[1]),
                (0...expected.perhapsUnchanged.count).contains(
                    told[1] + told[2] - updated.upperBound - expected.unchanged.count),
                told[3] == expected.deleted.count
            else { return "changes of \(name) are \(told), should be \(graph.described(expected, entity))" }
            guard tellsKeys else { continue }
            let keys = ["inserted", "updated", "deleted"].map { word in
                (0..<count(word)).compactMap { answer["keys.\(name).\(word).\($0)"] }.sorted()
            }
            let isRight =
                keys[0] == graph.told(expected.inserted, entity) && keys[2] == graph.told(expected.deleted, entity)
                && Set(keys[1]).isSuperset(of: graph.told(expected.updated, entity))
                && Set(keys[1]).isSubset(of: graph.told(expected.updated + expected.perhapsUpdated, entity))
            if !isRight { return "keys of \(name) are \(keys), should be \(graph.described(expected, entity))" }
        }
        return nil
    }
}

extension RandomOperationCase: Shrinkable {
    /// A smaller case that still differs.
    func shrunk() async throws -> RandomOperationCase {
        var shrinking = Shrinking(self)
        while let smaller = shrinking.next() {
            shrinking.note(fails: try await smaller.verdict().difference != nil)
        }
        return shrinking.best
    }

    /// The case without its `part`th part: jobs, then operations, then parts of those.
    func without(part: Int) -> RandomOperationCase? {
        var part = part
        var smaller = self
        if let jobs = jobs.without(part: &part) {
            smaller.jobs = jobs
            return smaller
        }
        for index in jobs.indices where jobs[index].operations.count > 1 {
            if let operations = jobs[index].operations.without(part: &part) {
                smaller.jobs[index].operations = operations
                return smaller
            }
        }
        for index in jobs.indices {
            for (position, operation) in jobs[index].operations.enumerated() {
                if let operation = operation.without(part: &part) {
                    smaller.jobs[index].operations[position] = operation
                    return smaller
                }
            }
        }
        return nil
    }
}

extension OperationGraph {
    /// Finds the `_pk` of new objects by their marks.
    fileprivate mutating func learnRowKeys(_ storePath: String) throws -> String? {
        var rowKeys: [String: String] = [:]
        for row in try SQLRows.of("SELECT _pk, mark FROM Note", in: storePath) {
            let cells = row.split(separator: "|").map(String.init)
            rowKeys[cells[1]] = cells[0]
        }
        for (node, object) in objects where object.entity.name == "Note" && object.rowKey == nil {
            guard let mark = object.values["mark"], let rowKey = rowKeys[mark] else { return "a Note is missing" }
            objects[node]!.rowKey = rowKey
        }
        return nil
    }

    /// Compares the orders, and takes the places over.
    fileprivate mutating func learnPlaces(_ storePath: String) throws -> String? {
        for order in orders {
            let columns = order.columns.map { "\"\($0)\"" }
            let rows = try SQLRows.of(
                "SELECT \(columns.joined(separator: ", ")) FROM \"\(order.table)\" WHERE \(columns[0]) IS NOT NULL",
                in: storePath)
            var found: [(owner: String, place: Int, text: String)] = []
            for row in rows {
                let cells = row.split(separator: "|").map(String.init)
                guard let place = Int(cells.last!) else { return "\(order.table) has no place: \(row)" }
                let owner = cells.prefix(order.ownerColumns).joined(separator: "|")
                found.append((owner, place, cells.dropLast().joined(separator: "|")))
            }
            found.sort { ($0.owner, $0.place) < ($1.owner, $1.place) }
            if found.map(\.text) != order.rows {
                return "the order of \(order.table) is \(found), should be \(order.rows)"
            }
            if Set(found.map { "\($0.owner) \($0.place)" }).count < found.count {
                return "places of \(order.table) are taken twice: \(found)"
            }
            for row in found { learn(row.place, of: order.links[row.text]!) }
        }
        return nil
    }

    /// Keys as a message has them: texts without quotes.
    fileprivate func told(_ keys: [String], _ entity: GraphModel.Entity) -> [String] {
        keys.map { key in
            if key.hasPrefix("new ") { return objects[Int(key.dropFirst(4))!]!.rowKey! }
            return key.first == "\"" ? String(key.dropFirst().dropLast()) : key
        }.sorted()
    }

    fileprivate func described(_ keys: Effect.Keys, _ entity: GraphModel.Entity) -> String {
        "inserted \(told(keys.inserted, entity)), updated \(told(keys.updated, entity)), "
            + "perhaps updated \(told(keys.perhapsUpdated, entity)), unchanged \(told(keys.unchanged, entity)), "
            + "deleted \(told(keys.deleted, entity))"
    }
}
