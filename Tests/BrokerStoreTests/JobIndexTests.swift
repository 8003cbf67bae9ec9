import TestSupport
import Testing

@testable import BrokerStore

/// Ids in memory, and the lines of the ledger that they lead to.
@Suite(.timeLimit(.minutes(5))) struct JobIndexTests {
    @Test func `the index agrees with a dictionary, whatever is set, replaced, undone and forgotten`() {
        var generator = SeededGenerator(for: "job index")
        let index = JobIndex()
        var durable: [String: Int64] = [:]
        var sequence: Int64 = 0
        var first: Int64 = 0
        for _ in 0..<300 {
            var pending = durable
            for _ in 0..<Int.random(in: 0...60, using: &generator) {
                let id = "job \(Int.random(in: 0..<4_000, using: &generator))"
                sequence += 1
                index.set(id, to: sequence, replacing: pending[id])
                pending[id] = sequence
            }
            let isDurable = Int.random(in: 0..<3, using: &generator) > 0
            index.transactionEnded(isDurable: isDurable)
            if isDurable { durable = pending }
            if Int.random(in: 0..<10, using: &generator) == 0 {
                first = sequence / 2
                index.expire(before: first)
                durable = durable.filter { $0.value >= first }
            }
            for id in (0..<4_000).map({ "job \($0)" }).shuffled(using: &generator).prefix(50) {
                let found = index.sequences(of: id)
                if let line = durable[id] { #expect(found.contains(line)) }
                // A forgotten id may be found for a while, and its line is not.
                #expect(found.allSatisfy { $0 == durable[id] || $0 < first })
            }
        }
    }

    @Test func `the oldest id that is remembered is found when others have made every shard grow`() {
        let index = JobIndex()
        for number in 1...2_000 { index.load("job \(number)", Int64(number)) }
        index.expire(before: 1_000)
        for number in 2_001...60_000 { index.load("job \(number)", Int64(number)) }
        #expect(index.sequences(of: "job 1000") == [1_000])
        #expect(index.sequences(of: "job 1001") == [1_001])
    }

    @Test func `ids that are added and removed again and again use no memory`() {
        let index = JobIndex()
        for round in 1...5_000 {
            index.set("job \(round)", to: Int64(round), replacing: nil)
            index.transactionEnded(isDurable: false)
        }
        #expect(index.sequences(of: "job 5000").isEmpty)
        #expect(index.slotCount <= 256 * 16 * 2)
    }

    @Test func `an id whose line is of another id is unknown`() throws {
        let test = try TestStore(#"{"entities": {"T": {"identity": "id", "attributes": {"id": "integer64"}}}}"#)
        try test.apply(#"{"T": {"id": 1}}"#, id: "one")
        // As if two ids had one hash.
        test.store.jobs.set("two", to: 1, replacing: nil)
        #expect(try test.store.outcome(ofJob: "two") == nil)
        #expect(try test.store.outcome(ofJob: "one")?.sequence == 1)
    }
}
