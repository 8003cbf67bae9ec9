import Broker
import Testing

@testable import BrokerClient

/// Calls that no server could answer well: they say what is wrong, and nothing is sent.
@Suite(.timeLimit(.minutes(5))) struct ValidationTests {
    typealias Call = @Sendable (BrokerClient) async throws -> Void

    private static func query(_ change: (inout Query) -> Void) -> Query {
        var query = Query("E")
        change(&query)
        return query
    }

    private static let jobs: [(BrokerError.Code, Call)] = [
        (.unknownEntity, { try await $0.process(json: "{}", as: "") }),
        (.unknownEntity, { _ = try await $0.submit(.sync(json: "[]", as: "")) }),
        (.unknownEntity, { try await $0.delete("", keys: [1]) }),
        (.unknownEntity, { try await $0.relate("", 1, "r", to: 2) }),
        (.unknownRelationship, { try await $0.relate("E", 1, "", to: 2) }),
        (.unknownMapping, { try await $0.map(json: "{}", by: .mapping("")) }),
        (.unsupportedMessage, { try await $0.map(json: "{}", by: .path(String(repeating: "a", count: 8_193))) }),
        (.invalidValue, { try await $0.process(7, as: "E") }),
        (.invalidValue, { try await $0.process(json: "null", as: "E") }),
        (.unsupportedMessage, { try await $0.sync(json: "{}", as: "E") }),
        (.unsupportedMessage, { try await $0.process(Job([Job.Operation]())) }),
        (
            .unsupportedMessage,
            { try await $0.process(Job(.sync(json: "[]", as: "E", part: .init(id: "", isLast: true)))) }
        ),
        (.unsupportedMessage, { try await $0.sync(json: "[]", as: "E", actions: [.init(rawValue: "merge")]) }),
        (.unsupportedMessage, { try await $0.process(json: "{}", as: "E", onInvalid: .init(rawValue: "ignore")) }),
        (.invalidPredicate, { try await $0.delete("E", where: "") }),
        (.invalidPredicate, { try await $0.sync(json: "[]", as: "E", where: "a == %@") }),
        (.invalidPredicate, { try await $0.delete("E", where: "a == 'x") }),
        (.notEncodable, { try await $0.delete("E", where: "a == \(Double.nan)") }),
        (.invalidID, { try await $0.process(json: "{}", as: "E", id: "") }),
        (.invalidID, { try await $0.process(json: "{}", as: "E", id: JobID(String(repeating: "a", count: 129))) }),
        (.unsupportedMessage, { try await $0.process(json: "{}", as: "E", id: "broker-1") }),
        (
            .unsupportedMessage,
            {
                var job = Job.process(json: "{}", as: "E")
                job.trace = String(repeating: "a", count: 257)
                try await $0.process(job)
            }
        ),
        (.invalidJSON, { try await $0.process(json: "{", as: "E") }),
        (.notEncodable, { try await $0.process("{}", as: "E") }),
        (.invalidID, { _ = try await $0.await("") }),
        (.invalidID, { try await $0.cancel("") }),
    ]

    private static let questions: [(BrokerError.Code, Call)] = [
        (.unknownEntity, { _ = try await $0.fetch(Query("")) }),
        (.unknownEntity, { _ = try await $0.fetch(Int.self, from: "").collect() }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.limit = -1 }) }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.limit = 100_001 }) }),
        (.unsupportedMessage, { _ = try await $0.fetch(Int.self, from: "E", limit: -1).collect() }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.offset = -1 }) }),
        (
            .unsupportedMessage,
            {
                _ = try await $0.fetch(
                    query {
                        $0.after = RawJSON("1")
                        $0.sort = ["a"]
                    })
            }
        ),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.sort = Array(repeating: "a", count: 65) }) }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.names = .init(rawValue: "both") }) }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.dates = .init(rawValue: "rfc822") }) }),
        (.unsupportedMessage, { _ = try await $0.fetch(query { $0.form = .init(rawValue: "set") }) }),
        (.unsupportedMessage, { for try await _ in $0.results(of: query { $0.form = .object }) {} }),
        (.invalidPredicate, { _ = try await $0.fetch(query { $0.predicate = "a == %@" }) }),
        (.invalidPredicate, { _ = try await $0.fetchFirst(Int.self, from: "E", where: "50%") }),
        (.invalidJSON, { _ = try await $0.fetch(query { $0.object = RawJSON("1,2") }) }),
        (.unsupportedMessage, { try await $0.administer(.init(rawValue: "restart")) }),
        (.unsupportedMessage, { _ = try await $0.backUp(to: "copy.sqlite") }),
        (.unsupportedMessage, { _ = try await $0.backUp(to: "") }),
    ]

    @Test(arguments: (jobs + questions).indices)
    func `a call that no server would take fails with the server's code, and without a server`(index: Int) async {
        let (code, call) = (Self.jobs + Self.questions)[index]
        let client = BrokerClient(.unixSocket("/nonexistent/broker.sock"))
        let error = await #expect(throws: BrokerError.self) { try await call(client) }
        #expect(error?.code == code, "\(index): \(String(describing: error))")
        // Whatever is sent needs a connection.
        #expect(client.driver.states.current == .idle)
        client.close()
    }
}
