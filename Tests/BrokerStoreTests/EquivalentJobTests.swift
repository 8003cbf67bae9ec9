import BrokerModel
import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// What a job does is compared with what other jobs do that must have the same effect, and its counts with the rows before and
/// after it: no model of the rules is needed for that.
///
/// By hand, for a long run: `BROKER_RANDOM_CASES=5000`; to see one again: `BROKER_RANDOM_SEED`, as it was printed.
@Suite(.timeLimit(.minutes(60))) struct EquivalentJobTests {
    /// Jobs on a store that the first one fills.
    struct RandomCase: Shrinkable {
        let features: EquivalentJobs.Features
        var jobs: [[EquivalentJobs.Operation]]

        init(seed: UInt64, _ features: EquivalentJobs.Features) {
            self.features = features
            var generator = EquivalentJobs(seed: seed, features)
            jobs = [generator.filling()] + (0..<4).map { _ in generator.job() }
        }

        func without(part: Int) -> RandomCase? {
            var part = part
            var smaller = self
            if let jobs = jobs.without(part: &part) {
                smaller.jobs = jobs
                return smaller
            }
            for index in jobs.indices where jobs[index].count > 1 {
                guard let operations = jobs[index].without(part: &part) else { continue }
                smaller.jobs[index] = operations
                return smaller
            }
            return nil
        }

        var description: String {
            jobs.map { $0.map(\.json).joined(separator: "\n    ") }.joined(separator: "\n")
        }

        /// Where the stores differ, or the counts are wrong; nil for nowhere.
        func difference() throws -> String? {
            let model = EquivalentJobs.model(features)
            let (together, apart) = (try TestStore(model), try TestStore(model))
            for (number, job) in jobs.enumerated() {
                guard let operations = try job.map({ try Self.resolved($0, together) }).allPresent() else { return nil }
                let before = try StoreDump(together)
                guard let outcome = try Self.outcome(operations.map(\.json), together) else {
                    return try StoreDump(together).difference(from: before).map { "job \(number) failed: \($0)" }
                }
                let after = try StoreDump(together)
                if let wrong = try after.inconsistency() ?? StoreDump.miscount(outcome, before, after) {
                    return "job \(number): \(wrong)"
                }
                for operation in operations {
                    // What one job may do, one after the other may not: a unique value can be free only at the end.
                    guard try Self.outcome([operation.plain ?? operation.json], apart) != nil else { return nil }
                }
                if let difference = after.difference(from: try StoreDump(apart)) {
                    return "job \(number): \(difference)"
                }
            }
            return nil
        }

        /// The operation with the key of its object in place of the mark; nil when there is no such object.
        private static func resolved(
            _ operation: EquivalentJobs.Operation, _ store: TestStore
        ) throws -> (json: String, plain: String?)? {
            guard let name = operation.name else { return (operation.json, nil) }
            let key: String
            if name.entity == "Hive" {
                let rows = try store.rows(
                    "SELECT _pk FROM Hive WHERE name = \(name.identity.replacing("\"", with: "'"))")
                guard let row = rows.first else { return nil }
                key = row
            } else {
                guard try !store.rows("SELECT no FROM \(name.entity) WHERE no = \(name.identity)").isEmpty else {
                    return nil
                }
                key = name.identity
            }
            return (operation.json.replacing(EquivalentJobs.mark, with: key), operation.plain)
        }

        /// Nil when the job failed.
        private static func outcome(_ operations: [String], _ store: TestStore) throws -> Outcome? {
            do {
                return try store.outcome(ofOperations: operations.joined(separator: ", "))
            } catch is Fault {
                return nil
            }
        }
    }

    /// `BROKER_RANDOM_FEATURES` takes others: 1 for tombstones, 2 for unique values, 3 for both.
    private static let features = [
        number("BROKER_RANDOM_FEATURES").map { EquivalentJobs.Features(rawValue: Int($0)) } ?? []
    ]

    @Test(arguments: features)
    func `Jobs have the effect of their operations one by one, and count what changed`(
        features: EquivalentJobs.Features
    ) throws {
        let count = Self.number("BROKER_RANDOM_CASES") ?? 60
        let seed = Self.number("BROKER_RANDOM_SEED") ?? UInt64.random(in: 0...UInt64.max)
        print("equivalent jobs: seed \(seed)")
        for seed in (0..<count).map({ seed &+ $0 }) {
            let randomCase = RandomCase(seed: seed, features)
            guard try randomCase.difference() != nil else { continue }
            var shrinking = Shrinking(randomCase)
            while let smaller = shrinking.next() { shrinking.note(fails: try smaller.difference() != nil) }
            Issue.record(
                """
                BROKER_RANDOM_SEED=\(seed) BROKER_RANDOM_CASES=1
                \(shrinking.best.description)
                \(try shrinking.best.difference() ?? "none")
                """)
            return
        }
    }

    private static func number(_ variable: String) -> UInt64? {
        ProcessInfo.processInfo.environment[variable].flatMap(UInt64.init)
    }
}

extension Array {
    /// Nil when an element is nil.
    fileprivate func allPresent<Wrapped>() -> [Wrapped]? where Element == Wrapped? {
        let present = compactMap(\.self)
        return present.count == count ? present : nil
    }
}
