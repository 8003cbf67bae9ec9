import BrokerModel
import TestSupport

@testable import BrokerStore

/// Jobs on a store that the first one fills.
struct EquivalentCase: Shrinkable {
    let features: EquivalentJobs.Features
    private(set) var jobs: [[EquivalentOperation]]

    init(seed: UInt64, _ features: EquivalentJobs.Features) {
        self.features = features
        var generator = EquivalentJobs(seed: seed, features)
        jobs = [generator.filling()] + (0..<12).map { _ in generator.job() }
    }

    func without(part: Int) -> EquivalentCase? {
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
        for index in jobs.indices {
            for number in jobs[index].indices {
                guard part < jobs[index][number].shrinkableCount else {
                    part -= jobs[index][number].shrinkableCount
                    continue
                }
                smaller.jobs[index][number] = jobs[index][number].without(part: part)
                return smaller
            }
        }
        return nil
    }

    var description: String {
        jobs.map { $0.map(\.json).joined(separator: "\n    ") }.joined(separator: "\n")
    }

    /// Where the stores differ, or counts or deletions are wrong; nil for nowhere.
    func difference() throws -> String? {
        try features.contains(.skip) ? differenceWithoutSkipped() : differenceOneByOne()
    }

    private func differenceOneByOne() throws -> String? {
        let model = EquivalentJobs.model(features)
        var options = StoreOptions()
        options.synchronous = .off
        let (together, apart) = (try TestStore(model, options: options), try TestStore(model, options: options))
        var before = try StoreDump(together)
        for (number, job) in jobs.enumerated() {
            let operations = try job.compactMap { try $0.resolved(together) }
            guard !operations.isEmpty else { continue }
            try together.store.begin()
            let outcome = try together.outcomeInTransaction(
                ofOperations: operations.map(\.json).joined(separator: ", "))
            try together.store.commit()
            let after = try StoreDump(together)
            if let outcome {
                var wrong = after.inconsistency()
                if wrong == nil, !operations.contains(where: \.isRenaming) {
                    wrong = try StoreDump.miscount(outcome, before, after)
                }
                if let wrong { return "job \(number): \(wrong)" }
            } else if let difference = after.difference(from: before) {
                return "job \(number) failed: \(difference)"
            }
            before = after
            if let outcome, let difference = try Self.differenceWithoutKeys(operations, outcome, apart) {
                return "job \(number): \(difference)"
            }
            try apart.store.begin()
            switch try apply(operations, to: apart) {
            case .wrong(let difference): return "job \(number): \(difference)"
            case .done where outcome != nil: try apart.store.commit()
            case .done:
                // Consecutive operations are judged together: a value that a tombstone frees later is claimed all the same.
                guard features.isSuperset(of: [.tombstones, .uniqueValues]) else {
                    return "job \(number) failed, and its operations do not one by one"
                }
                apart.store.rollback()
            case .failed:
                apart.store.rollback()
                // A job may do more than its operations one by one: a unique value can be free only at the end.
                if outcome != nil {
                    try apart.store.begin()
                    _ = try apart.outcomeInTransaction(ofOperations: operations.map(\.json).joined(separator: ", "))
                    try apart.store.commit()
                }
            }
            if let difference = after.difference(from: try StoreDump(apart)) { return "job \(number): \(difference)" }
        }
        return nil
    }

    /// Where the counts of a job differ that lists no keys, and so may count objects without knowing which; nil for nowhere.
    private static func differenceWithoutKeys(
        _ operations: [EquivalentOperation.Resolved], _ outcome: Outcome, _ store: TestStore
    ) throws -> String? {
        try store.store.begin()
        defer { store.store.rollback() }
        let other = try store.outcomeInTransaction(
            ofOperations: operations.map(\.json).joined(separator: ", "), wantsKeys: false)
        let (counts, expected) = (other?.changes.map { "\($0)" }, outcome.changes.map { "\($0)" })
        return counts == expected ? nil : "without keys the counts are \(counts ?? []), should be \(expected)"
    }

    private enum Result {
        case done, failed
        case wrong(String)
    }

    private func apply(_ operations: [EquivalentOperation.Resolved], to store: TestStore) throws -> Result {
        var hasChangedIdentity = false
        for operation in operations {
            defer { hasChangedIdentity = hasChangedIdentity || operation.changesIdentity }
            let exists = try operation.object?.exists(in: store) ?? true
            let rules = operation.isDeletion ? try DeletionRules(store, exists ? operation.object : nil, features) : nil
            for json in exists && !hasChangedIdentity ? operation.apart : [operation.json] {
                let isDone = try store.outcomeInTransaction(ofOperations: json) != nil
                if let fault = try rules?.fault(store, isDone: isDone) { return .wrong("\(json) \(fault)") }
                if !isDone { return .failed }
            }
        }
        return .done
    }
}
