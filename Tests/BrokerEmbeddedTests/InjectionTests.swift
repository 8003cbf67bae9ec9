import Broker
import TestSupport
import Testing

@testable import BrokerEmbedded

/// JSON text that would add members to a job's message.
@Suite(.timeLimit(.minutes(5))) struct InjectionTests {
    private let store = TestStore()

    @Test(arguments: [
        #"[],"op":"delete","where":"TRUEPREDICATE""#, #"[],"type":"admin","action":"drain""#,
        #"[],"type":"admin","action":"backup","file":"/tmp/copy""#, #"[],"id":"other""#, #"[],"type":"ping""#,
        #"[],"type":"fetch""#, "[] []", "[]}", "",
    ])
    func `a text that is not exactly one value runs nothing`(text: String) async throws {
        let broker = try await store.open()
        _ = try await broker.run(.process([Employee(id: 1, name: "Ada")], as: "Employee"))
        let bytes = Array(text.utf8)
        let operations: [Job.Operation] = [
            .process(json: text, as: "Employee"), .process(json: bytes, as: "Employee"), .map(json: text),
            .sync(json: text, as: "Employee"), try .relate("Employee", 1, "department", to: RawJSON(text)),
            .init(entity: "Employee", .process(RawJSON("{}"), object: .init(text))),
            .init(entity: "Employee", .delete(.init(text))),
            .init(entity: "Employee", .deleteMatching(.init("id == %@", arguments: [.init(text)]))),
        ]
        for operation in operations {
            let error = await #expect(throws: BrokerError.self) { _ = try await broker.run(operation) }
            #expect(error?.code == .invalidJSON)
        }
        var fetch = Query("Employee")
        fetch.object = .init(text)
        let error = await #expect(throws: BrokerError.self) { _ = try await broker.fetch(fetch) }
        #expect(error?.code == .invalidJSON)
        #expect(broker.waitingCount == 0 && broker.inFlightCount == 0)
        #expect(try store.rows("SELECT id, name FROM Employee") == ["1|Ada"])
        await broker.stop()
    }
}
