import Broker
import Testing

@Suite(.timeLimit(.minutes(5))) struct JobTests {
    private struct Record: Codable { var id: Int }

    @Test func `each operation has a job of its own, with the job's options`() throws {
        let records = [Record(id: 1)]
        let text = #"[{"id":1}]"#
        let all: [(Job, Job.Operation)] = [
            (
                try .process(records, as: "E", id: "a", onInvalid: .skip, reply: .keys, nulls: .written),
                try .process(records, as: "E", nulls: .written)
            ),
            (.process(json: text, as: "E", id: "a", onInvalid: .skip, reply: .keys), .process(json: text, as: "E")),
            (
                try .process(records[0], as: "E", object: 1, id: "a", onInvalid: .skip, reply: .keys),
                try .process(records[0], as: "E", object: 1)
            ),
            (
                try .process(json: "{}", as: "E", object: 1, id: "a", onInvalid: .skip, reply: .keys),
                try .process(json: "{}", as: "E", object: 1)
            ),
            (
                try .relate("E", 1, "r", to: [2], id: "a", onInvalid: .skip, reply: .keys),
                try .relate("E", 1, "r", to: [2])
            ),
            (
                try .sync(
                    records, as: "E", where: "b == \(1)", actions: [.insert], id: "a", onInvalid: .skip, reply: .keys),
                try .sync(records, as: "E", where: "b == \(1)", actions: [.insert])
            ),
            (
                .sync(json: text, as: "E", where: "b == 1", id: "a", onInvalid: .skip, reply: .keys),
                .sync(json: text, as: "E", where: "b == 1")
            ),
            (
                try .map(records, by: .path("/a"), id: "a", onInvalid: .skip, reply: .keys),
                try .map(records, by: .path("/a"))
            ),
            (.map(json: text, id: "a", onInvalid: .skip, reply: .keys), .map(json: text)),
            (try .delete("E", keys: [1, 2], id: "a", onInvalid: .skip, reply: .keys), try .delete("E", keys: [1, 2])),
            (.delete("E", where: .all, id: "a", onInvalid: .skip, reply: .keys), .delete("E", where: .all)),
        ]
        for (job, operation) in all {
            #expect(job == Job(operation, id: "a", onInvalid: .skip, reply: .keys))
        }
    }
}
