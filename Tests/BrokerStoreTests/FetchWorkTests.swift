import BrokerModel
import BrokerStaging
import CSQLite
import TestSupport
import Testing

@testable import BrokerStore

/// The work that a fetch, or a part of a stream, may do.
@Suite(.timeLimit(.minutes(5))) struct FetchWorkTests {
    private static let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string", "n": "decimal"}}}}"#

    private func store(_ count: Int, text: Int) throws -> TestStore {
        let store = try TestStore(Self.model)
        let value = String(repeating: "x", count: text)
        let rows = (0..<count).map { #"{"id": \#($0), "text": "\#(value)\#($0)", "n": \#(count - $0)}"# }
        try store.apply(#"{"Row": [\#(rows.joined(separator: ","))]}"#)
        return store
    }

    /// Whether the fetch ends because of its work.
    private func isTooLong(
        _ store: TestStore, work: Int = JobWork.maximum, steps: Int = JobWork.maximum,
        _ adjust: (inout FetchDescription) -> Void
    ) throws -> Bool {
        var limits = FetchLimits.long
        (limits.work, limits.steps) = (work, steps)
        do {
            _ = try store.fetched("Row", limits: limits, adjust)
            return false
        } catch FetchFailure.tooLong {
            return true
        }
    }

    @Test(arguments: ["text LIKE 'y%*'", "text == 'y%'", "text BEGINSWITH 'y%'", "text CONTAINS[c] 'xy%'"])
    func `long texts count each time that they are compared`(comparison: String) throws {
        let store = try store(1, text: 4 << 20)
        func fetch(_ count: Int) throws -> Bool {
            try isTooLong(store) { description in
                description.predicate = (0..<count).map { comparison.replacing("%", with: "\($0)") }
                    .joined(separator: " OR ")
            }
        }
        #expect(try !fetch(2))
        #expect(try fetch(400))
        #expect(FetchLimits.maximumWork == 6 * JobWork.maximum)
    }

    @Test func `each object that is examined and that is sorted counts`() throws {
        let store = try store(400, text: 100)
        #expect(try isTooLong(store, steps: 1_000) { $0.predicate = "text == ''" })
        #expect(try isTooLong(store, work: 390) { $0.predicate = "text == ''" })
        #expect(try !isTooLong(store, work: 400 * 20) { $0.predicate = "text == ''" })
        // 32 for an object, and one for each byte of the text by which it is sorted.
        #expect(try isTooLong(store, work: 400 * 130) { $0.sort = ["-text"] })
        #expect(try isTooLong(store, work: 400 * 30) { $0.sort = ["n"] })
        #expect(try !isTooLong(store, work: 400 * 400) { $0.sort = ["n", "-text"] })
    }

    @Test func `a part of a stream may do as much work as a fetch`() throws {
        let store = try store(4_000, text: 10)
        var description = FetchDescription(entity: "Row")
        description.predicate = "text != ''"
        description.isStreamed = true
        var limits = FetchLimits.part
        limits.answerBytes = 2_000
        limits.steps = 20_000
        let reader = try StoreReader(path: store.path, plan: store.plan)
        let stream = ObjectStream(try store.plan.fetchRequest(description), on: reader, limits)
        defer { stream.end() }
        var parts = 0
        while try stream.next().hasMore { parts += 1 }
        #expect(parts > 50, "all of them took more steps than one may")
    }

    @Test(arguments: [["n"], ["-text"]])
    func `an open sorted stream has read its order, and holds no object`(sort: [String]) throws {
        let store = try store(40, text: 200_000)
        var description = FetchDescription(entity: "Row")
        description.sort = sort
        description.isStreamed = true
        var limits = FetchLimits.part
        limits.answerBytes = 1
        let reader = try StoreReader(path: store.path, plan: store.plan)
        let stream = ObjectStream(try store.plan.fetchRequest(description), on: reader, limits)
        defer { stream.end() }
        var ids: [String] = []
        var hasMore = true
        while hasMore {
            let part = try stream.next()
            hasMore = part.hasMore
            ids += String(decoding: part.bytes, as: UTF8.self).matches(of: #/"id":(\d+)/#).map { String($0.1) }
            // The statement that sorts has ended: SQLite has none of its rows.
            #expect(!reader.connection.isSorting)
        }
        let order = sort == ["n"] ? Array((0..<40).reversed()) : (0..<40).sorted { "\($0)" > "\($1)" }
        #expect(ids == order.map { "\($0)" })
    }
}

extension Connection {
    /// A statement that sorts has not ended.
    fileprivate var isSorting: Bool {
        var statement: OpaquePointer?
        while let next = sqlite3_next_stmt(handle, statement) {
            statement = next
            let text = String(cString: sqlite3_sql(next))
            if text.contains("broker_work(32, 32"), sqlite3_stmt_busy(next) != 0 { return true }
        }
        return false
    }
}
