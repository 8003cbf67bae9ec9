import TestSupport

/// A job of a round: the same for the same seed in every process.
struct CrashJob {
    /// Its `tag`, what its last operation leaves in the store, and its id if it has one.
    let name: String
    let hasID: Bool
    /// Its client waits for its end.
    let isAwaited: Bool
    /// The message, without a line break.
    let text: String
    /// The same content without a name, for a client that waits for its end alone.
    let replayed: String

    /// The model beside ``GraphModel``: what jobs change that are large or bring unique values, and what each job leaves. A
    /// job that took effect twice has left two receipts.
    static let model = """
        {"entities": {
          "Item": {"identity": "id", "attributes": {
            "id": "integer64", "stamp": "string", "code": {"type": "string", "unique": true}}},
          "Receipt": {"attributes": {"job": "string"}},
          "\(Filling.entity)": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}},
         "routes": [{"keyPath": "items", "mapping": "item"}],
         "mappings": {"item": {"entity": "Item"}}}
        """

    /// The jobs of one client of a round, in the order in which it sends them.
    static func jobs(seed: UInt64, client: Int, count: Int, withJournal: Bool) -> [CrashJob] {
        let seed = seed &+ UInt64(client) &* 0x1_0000_0001
        var generator = SeededGenerator(seed: seed)
        var operations = RandomOperations(seed: ~seed)
        var graphJobs = operations.jobs(count).makeIterator()
        return (0..<count).map { index in
            let name = "c\(client)-\(index)"
            let isOfItems = index > 0 && Int.random(in: 0..<4, using: &generator) == 0
            let change = isOfItems ? ItemChange(stamp: name, using: &generator) : nil
            let graphJob = isOfItems ? nil : graphJobs.next()
            return CrashJob(name: name, change, graphJob, withJournal: withJournal, using: &generator)
        }
    }

    private init(
        name: String, _ change: ItemChange?, _ graphJob: RandomOperationJob?, withJournal: Bool,
        using generator: inout SeededGenerator
    ) {
        func chance(_ one: Int) -> Bool { Int.random(in: 1...one, using: &generator) == 1 }
        self.name = name
        hasID = !chance(3)
        let wantsAccepted = chance(2) || withJournal
        isAwaited = !chance(15) || withJournal
        var operations = graphJob?.operations.map(\.json) ?? []
        operations += [change?.json].compactMap(\.self)
        operations.append(#"{"op": "process", "entity": "Receipt", "json": {"job": "\#(name)"}}"#)
        let reply = graphJob.map { $0.hasKeys ? "keys" : "summary" } ?? (chance(3) ? "none" : "summary")
        let content =
            #""onInvalid": "\#(graphJob?.skips ?? false ? "skip" : "fail")", "reply": "\#(reply)", "#
            + #""operations": [\#(operations.joined(separator: ", "))]"#
        let notify =
            !isAwaited ? #""notify": [], "# : wantsAccepted ? #""notify": ["accepted", "completed"], "# : ""
        text = (hasID ? #"{"id": "\#(name)", "# : "{") + #""tag": "\#(name)", \#(notify)\#(content)}"#
        replayed = "{\(content)}"
    }
}
