import TestSupport
import Testing

/// The objects of random jobs beside a few objects in memory, to which the same is done.
@Suite(.timeLimit(.minutes(5))) struct RandomObjectsTests {
    @Test func `each record returns its object in the final state, whatever was renamed, deleted and inserted again`()
        async throws
    {
        var generator = SeededGenerator()
        try await RunningServer.run(model: RandomObjects.model) { running in
            let client = try running.connect()
            var objects = RandomObjects()
            var renamed = 0
            for _ in 0..<300 {
                let job = objects.apply(operations: Int.random(in: 1...12, using: &generator), &generator)
                renamed += objects.renamings
                let answer = try client.ask(
                    #"{"reply": "objects", "onInvalid": "skip", "operations": [\#(job)]}"#)
                guard answer["objects"] == objects.expected else {
                    Issue.record("\(job)\n\(answer["objects"] ?? answer.text)\nis not\n\(objects.expected)")
                    return
                }
            }
            #expect(renamed > 100, "without renamings little is looked at")
        }
    }
}

/// The effects of a job's operations on objects of one entity, and the objects that its records return.
private struct RandomObjects {
    static let model =
        #"{"entities": {"Item": {"identity": "id", "attributes": {"id": "integer64", "n": "integer64"}}}}"#

    private struct Item {
        var id: Int
        var n: Int?
        var isThere = true
    }

    private var items: [Item] = []
    /// The newest object of an identity, there or deleted.
    private var named: [Int: Int] = [:]
    /// By operation of the newest job.
    private var payload: [[Int?]] = []
    /// That took effect in the newest job.
    private(set) var renamings = 0

    /// The newest job's `objects`.
    var expected: String {
        let operations = payload.map { records in
            records.map { item in
                guard let item = item.map({ items[$0] }), item.isThere else { return "null" }
                return #"{"id":\#(item.id),"n":\#(item.n.map(String.init) ?? "null")}"#
            }.joined(separator: ",")
        }
        return "[\(operations.map { "[\($0)]" }.joined(separator: ","))]"
    }

    /// Does random operations, and gives their JSON.
    mutating func apply(operations: Int, _ generator: inout SeededGenerator) -> String {
        payload = []
        renamings = 0
        // An object that is deleted and inserted again is the same object within one job.
        for (id, item) in named where !items[item].isThere { named[id] = nil }
        return (0..<operations).map { _ in operation(&generator) }.joined(separator: ", ")
    }

    private mutating func operation(_ generator: inout SeededGenerator) -> String {
        func id() -> Int { Int.random(in: 1...6, using: &generator) }
        switch Int.random(in: 0..<10, using: &generator) {
        case 0..<4:
            let records = (0..<Int.random(in: 0...4, using: &generator)).map { _ in
                Int.random(in: 0..<8, using: &generator) == 0 ? nil : (id: id(), n: id())
            }
            payload.append(records.map { record in record.map { process($0.id, $0.n) } })
            let json = records.map { $0.map { #"{"id": \#($0.id), "n": \#($0.n)}"# } ?? #"{"id": "?"}"# }
            return #"{"entity": "Item", "json": [\#(json.joined(separator: ", "))]}"#
        case 4..<8:
            let (old, new) = (id(), id())
            payload.append([rename(old, new)])
            return #"{"entity": "Item", "object": \#(old), "json": {"id": \#(new)}}"#
        case 8:
            let gone = [id(), id()]
            for id in gone { delete(id) }
            payload.append([])
            return #"{"op": "delete", "entity": "Item", "objects": \#(gone)}"#
        default:
            let synced = [id(), id(), id()]
            payload.append(synced.map { process($0, nil) })
            for id in named.keys where !synced.contains(id) { delete(id) }
            let json = synced.map { #"{"id": \#($0)}"# }
            return #"{"op": "sync", "entity": "Item", "json": [\#(json.joined(separator: ", "))]}"#
        }
    }

    private mutating func process(_ id: Int, _ n: Int?) -> Int {
        let item = named[id] ?? items.count
        if item == items.count { items.append(Item(id: id)) }
        if !items[item].isThere { items[item] = Item(id: id) }
        if let n { items[item].n = n }
        named[id] = item
        return item
    }

    private mutating func rename(_ old: Int, _ new: Int) -> Int? {
        guard let item = named[old], items[item].isThere else { return nil }
        guard old != new else { return item }
        if let other = named[new], items[other].isThere { return nil }
        renamings += 1
        items[item].id = new
        named[new] = item
        named[old] = nil
        return item
    }

    private mutating func delete(_ id: Int) {
        if let item = named[id] { items[item].isThere = false }
    }
}
