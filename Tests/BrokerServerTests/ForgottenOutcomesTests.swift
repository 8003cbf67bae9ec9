import BrokerCoordinator
import Testing

/// `outcomesForgottenThrough`, by which a client decides whether a job that it sends again may have taken effect before.
@Suite(.timeLimit(.minutes(5)), .server) struct ForgottenOutcomesTests {
    private let running = RunningServer.current

    @Test(.server(outcomesKept: 10))
    func `the newest sequence whose outcome may be forgotten is exact in each welcome`() throws {
        func forgotten() throws -> String? {
            try running.connect().ask(#"{"type": "hello", "version": 1}"#)["limits.outcomesForgottenThrough"]
        }
        let client = try running.connect()
        for number in 1...13 {
            let answer = try client.ask(#"{"entity": "Employee", "json": [{"id": \#(number), "name": "E"}]}"#)
            #expect(answer["sequence"] == "\(number)")
            #expect(try forgotten() == "\(max(0, number - 10))")
        }
    }
}
