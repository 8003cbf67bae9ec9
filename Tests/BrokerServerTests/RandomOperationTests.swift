import Foundation
import TestSupport
import Testing

/// The server beside a graph in memory that applies the same operations by the contract's rules.
///
/// By hand, for a long run: `BROKER_RANDOM_SEED=random BROKER_RANDOM_CASES=5000`; to see one again: the seed that was printed.
@Suite(.timeLimit(.minutes(60))) struct RandomOperationTests {
    @Test func `the server agrees with an object graph on random jobs of several operations`() async throws {
        let count = Self.number("BROKER_RANDOM_CASES") ?? 60
        let seed = SeededGenerator.testSeed(for: "random jobs of several operations")
        var failures = 0
        for seed in (0..<count).map({ seed &+ $0 }) {
            let randomCase = RandomOperationCase(seed: seed)
            let verdict = try await randomCase.verdict()
            failures += verdict.failures
            guard let difference = verdict.difference else { continue }
            let small = try await randomCase.shrunk()
            let smallDifference = try await small.verdict().difference ?? "none"
            Issue.record(
                """
                BROKER_RANDOM_SEED=\(seed) BROKER_RANDOM_CASES=1
                \(difference)
                shrunk to
                \(small.description)
                \(smallDifference)
                """)
            return
        }
        print("\(count) cases, \(failures) jobs failed as they should")
        #expect(failures < Int(count) * 6, "a test whose jobs fail finds little")
    }

    private static func number(_ variable: String) -> UInt64? {
        ProcessInfo.processInfo.environment[variable].flatMap(UInt64.init)
    }
}
