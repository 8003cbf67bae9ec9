import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// The memory of what a job records about the objects that it changes.
@Suite(.timeLimit(.minutes(5))) struct NetChangesMemoryTests {
    private static let model = """
        {"entities": {
            "Page": {"identity": "path", "attributes": {"path": "string"}},
            "Office": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"desks": {"entity": "Desk", "toMany": true, "inverse": "office", "deleteRule": "cascade"}}},
            "Desk": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"office": {"entity": "Office", "inverse": "desks"}}}}}
        """
    private static let count = 5_000

    private let test: TestStore

    init() throws {
        test = try TestStore(Self.model)
        let desks = (0..<Self.count).map { "{\"id\": \($0), \"office\": 1}" }.joined(separator: ",")
        let pages = (0..<100).map { "{\"path\": \"\($0)\(String(repeating: "p", count: 10_000))\"}" }
        try test.apply("{\"Desk\": [\(desks)], \"Page\": [\(pages.joined(separator: ","))]}")
    }

    /// The job, first in a transaction and, when that is undone, alone, as the writer does.
    private func end(_ operations: String, wantsKeys: Bool, _ allowance: TestAllowance) throws -> String {
        let job = try test.job(operations: operations, wantsKeys: wantsKeys)
        let limited = StoreJob(
            id: job.id, contentHash: nil, sequence: job.sequence, policy: .fail, wantsKeys: wantsKeys, work: job.work,
            now: 0, memory: allowance)
        func attempt() throws -> JobOutcome? {
            do {
                return try test.apply(limited)
            } catch let error as StoreError where error.code == .overworked {
                return nil
            }
        }
        switch try attempt() ?? attempt() {
        case .failed(let fault)?: return "\(fault.code.rawValue) \(fault.path ?? "nowhere")"
        case .completed?: return "completed"
        default: return "never ended"
        }
    }

    /// - Parameter memory: bytes that suffice.
    @Test(arguments: [
        // Each deleted object needs an entry, because another step follows or because its key is reported.
        (#"{"op": "delete", "entity": "Desk"}, {"entity": "Desk", "json": {"id": 9}}"#, false, 400_000, 5_000_000),
        (#"{"op": "delete", "entity": "Desk"}"#, true, 400_000, 5_000_000),
        // Long keys.
        (#"{"op": "delete", "entity": "Page"}"#, true, 800_000, 5_000_000),
        // Counted objects need no entry, but the deletion set has them.
        (#"{"op": "delete", "entity": "Office", "objects": [1]}"#, false, 200_000, 2_000_000),
    ])
    func `a job that records more than its memory fails as busy, and leaves nothing`(
        operations: String, wantsKeys: Bool, tooLittle: Int, enough: Int
    ) throws {
        let rows = "SELECT (SELECT count(*) FROM Desk), (SELECT count(*) FROM Page), (SELECT count(*) FROM Office)"
        let before = try test.rows(rows)
        let little = TestAllowance(tooLittle)
        #expect(try end(operations, wantsKeys: wantsKeys, little) == "busy /0")
        #expect(try test.rows(rows) == before)
        #expect(little.used == 0)
        let large = TestAllowance(enough)
        #expect(try end(operations, wantsKeys: wantsKeys, large) == "completed")
        #expect(large.most > tooLittle)
        #expect(large.used == 0)
        #expect(try test.isSound())
    }

    @Test func `a deletion that is only counted needs no memory for each object`() throws {
        let allowance = TestAllowance(100_000)
        #expect(try end(#"{"op": "delete", "entity": "Desk"}"#, wantsKeys: false, allowance) == "completed")
    }
}
