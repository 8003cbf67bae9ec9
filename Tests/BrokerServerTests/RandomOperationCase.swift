import RandomOperations
import TestSupport

/// Jobs that are sent to a server and applied to a graph, one after the other.
struct RandomOperationCase {
    var jobs: [RandomOperationJob]

    init(seed: UInt64) {
        var operations = RandomOperations(seed: seed)
        jobs = operations.jobs(8)
    }

    var description: String { jobs.map(\.json).joined(separator: "\n") }

    /// The result of a run: the first difference between server and graph, and the number of jobs that failed as they should.
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
                difference = difference ?? graph.difference(effect, from: answer, tellsKeys: job.tellsKeys)
            }
            difference = try difference ?? graph.difference(fromStore: storePath) ?? graph.learnPlaces(storePath)
            if let difference {
                verdict.difference = "job \(index): \(difference)"
                return verdict
            }
        }
        return verdict
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
