import Foundation
import TestSupport
import Testing

/// The store beside an object graph in memory that applies the same jobs by the contract's rules.
///
/// By hand, for a long run: `BROKER_RANDOM_SEED=random BROKER_RANDOM_CASES=5000`; to see one again: the seed that was printed.
@Suite(.timeLimit(.minutes(60))) struct ObjectGraphTests {
    @Test func `the store agrees with an object graph on random jobs for random models`() throws {
        let count = Self.number("BROKER_RANDOM_CASES") ?? Cases.count(60, of: 300)
        let seed = SeededGenerator.testSeed(for: "random jobs for random models")
        var failuresToReport = Self.number("BROKER_RANDOM_FAILURES") ?? 1
        for seed in (0..<count).map({ seed &+ $0 }) {
            let randomCase = RandomCase(seed: seed)
            guard let difference = try randomCase.difference() else { continue }
            Issue.record(
                "BROKER_RANDOM_SEED=\(seed) BROKER_RANDOM_CASES=1\n\(difference)\n\(try Self.small(randomCase))")
            failuresToReport -= 1
            if failuresToReport == 0 { return }
        }
    }

    private static func small(_ randomCase: RandomCase) throws -> String {
        let small = try randomCase.shrunk()
        return "shrunk to\n\(small.description)\ndifference: \(try small.difference()?.description ?? "none")"
    }

    private static func number(_ variable: String) -> UInt64? {
        ProcessInfo.processInfo.environment[variable].flatMap(UInt64.init)
    }
}
