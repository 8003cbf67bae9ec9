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
            switch graph.apply(job.operations) {
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
            difference = try difference ?? Self.difference(graph, storePath)
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

    private static func difference(
        _ effect: OperationGraph.Effect, _ answer: Message, _ graph: OperationGraph, tellsKeys: Bool
    ) -> String? {
        for entity in GraphModel.entities {
            let name = entity.name
            let expected = effect.keys[name] ?? .init()
            func count(_ word: String) -> Int { answer["changes.\(name).\(word)"].flatMap { Int($0) } ?? 0 }
            let told = ["inserted", "updated", "unchanged", "deleted"].map(count)
            let perhaps = expected.perhapsUpdated.count
            let updated = expected.updated.count...(expected.updated.count + perhaps)
            guard told[0] == expected.inserted.count, updated.contains(told[1]),
                told[1] + told[2] == updated.upperBound + expected.unchanged.count, told[3] == expected.deleted.count
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

    // MARK: - Shrinking

    /// A smaller case that still differs.
    func shrunk() async throws -> RandomOperationCase {
        var best = self
        var isSmaller = true
        while isSmaller {
            isSmaller = false
            var position = 0
            while let smaller = best.without(part: position) {
                if try await smaller.verdict().difference != nil {
                    best = smaller
                    isSmaller = true
                } else {
                    position += 1
                }
            }
        }
        return best
    }

    /// The case without its `part`th part: jobs, then operations, then parts of those.
    private func without(part: Int) -> RandomOperationCase? {
        var part = part
        var smaller = self
        if part < jobs.count {
            smaller.jobs.remove(at: part)
            return smaller
        }
        part -= jobs.count
        for index in jobs.indices where jobs[index].operations.count > 1 {
            if part < jobs[index].operations.count {
                smaller.jobs[index].operations.remove(at: part)
                return smaller
            }
            part -= jobs[index].operations.count
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
