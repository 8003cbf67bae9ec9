import BrokerModel
import BrokerStaging
import TestSupport

@testable import BrokerStore

/// Skipped records have no effect: a job with `onInvalid: skip` does what it does without the records that it skips.
extension EquivalentCase {
    /// Where a store differs from one that never saw the skipped records; nil for nowhere.
    func differenceWithoutSkipped() throws -> String? {
        let model = EquivalentJobs.model(features)
        var options = StoreOptions()
        options.synchronous = .off
        let (skipping, other) = (try TestStore(model, options: options), try TestStore(model, options: options))
        var before = try StoreDump(skipping)
        for (number, job) in jobs.enumerated() {
            // Skipped records keep a `sync` from deleting.
            let resolved = try job.filter { !$0.isSync }.compactMap { try $0.resolved(skipping) }
            guard !resolved.isEmpty else { continue }
            var operations = resolved.map(\.json)
            let end = try Self.run(operations, to: skipping, .skip, endsWith: .commit)
            let after = try StoreDump(skipping)
            guard case .completed(let outcome) = end else {
                if let difference = after.difference(from: before) { return "job \(number) failed: \(difference)" }
                continue
            }
            var wrong = after.inconsistency()
            if wrong == nil, !resolved.contains(where: \.isRenaming) {
                wrong = try StoreDump.miscount(outcome, before, after)
            }
            if let wrong { return "job \(number): \(wrong)" }
            before = after
            var rejections = outcome.rejected
            while !rejections.isEmpty {
                let fewer = try SkippedRecords(operations, rejections).removed(from: operations)
                guard fewer != operations else { return "job \(number): nothing is at \(rejections)" }
                operations = fewer
                var dump: StoreDump?
                let again = try Self.run(operations, to: other, .skip, endsWith: .rollback) {
                    dump = try StoreDump(other)
                }
                guard case .completed(let again) = again else {
                    return "job \(number) ends with \(again) without what it skips: \(operations)"
                }
                if let difference = after.difference(from: dump!) {
                    return "job \(number): \(difference) without what it skips: \(operations)"
                }
                rejections = again.rejected
            }
            let last = try Self.run(operations, to: other, .fail, endsWith: .commit)
            guard case .completed = last else {
                return "job \(number) ends with \(last) where nothing is left to skip: \(operations)"
            }
            if let difference = after.difference(from: try StoreDump(other)) {
                return "job \(number): \(difference) where nothing is left to skip: \(operations)"
            }
        }
        return nil
    }

    private enum TransactionEnd { case commit, rollback }

    private static func run(
        _ operations: [String], to store: TestStore, _ policy: InvalidRecordPolicy,
        endsWith transactionEnd: TransactionEnd,
        _ look: () throws -> Void = {}
    ) throws -> JobOutcome {
        try store.store.begin()
        let job = try store.job(operations: operations.joined(separator: ", "), policy)
        let end = try store.store.apply(job)
        try look()
        switch transactionEnd {
        case .commit: try store.store.commit()
        case .rollback: store.store.rollback()
        }
        return end
    }
}

extension EquivalentOperation {
    fileprivate var isSync: Bool { if case .sync = kind { true } else { false } }
}
