import Foundation
import TestSupport
import Testing

/// The store beside an object graph in memory that applies the same jobs by the contract's rules.
///
/// By hand, for a long run: `BROKER_RANDOM_SEED=random BROKER_RANDOM_CASES=5000`, with hierarchies `BROKER_RANDOM_HIERARCHIES=1`;
/// to see one again: the seed that was printed.
@Suite(.timeLimit(.minutes(60))) struct ObjectGraphTests {
    @Test func `the store agrees with an object graph on random jobs for random models`() throws {
        let count = Self.number("BROKER_RANDOM_CASES") ?? Cases.count(40, of: 120)
        let seed = SeededGenerator.testSeed(for: "random jobs for random models")
        var failuresToReport = Self.number("BROKER_RANDOM_FAILURES") ?? 1
        var rooms: UInt64 = 0
        for seed in (0..<count).map({ seed &+ $0 }) {
            let randomCase = RandomCase(seed: seed)
            switch try randomCase.verdict() {
            case .agreement: continue
            case .room: rooms += 1
            case .difference(let difference):
                Issue.record(
                    "BROKER_RANDOM_SEED=\(seed) BROKER_RANDOM_CASES=1\n\(difference)\n\(try Self.small(randomCase))")
                failuresToReport -= 1
                if failuresToReport == 0 { return }
            }
        }
        print("\(count) cases, \(rooms) of which the contract leaves room for")
        #expect(rooms <= 3 + count / 20, "a test that forgives so much finds little")
    }

    /// Cases that the store and the graph once judged differently: claims on unique values inside rejected records.
    @Test(arguments: [15_883_622_833_045_649, 14_922_869_494_392_373_241] as [UInt64])
    func `the store agrees with an object graph on cases that were found before`(seed: UInt64) throws {
        if case .difference(let difference) = try RandomCase(seed: seed).verdict() {
            Issue.record("BROKER_RANDOM_SEED=\(seed)\n\(difference)")
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
