internal import BrokerModel

extension DeletionLimit {
    /// The entities whose deleted objects are named in a message; the others are counted.
    private static let listedEntities = 5

    /// The fault of a job that deleted more objects than it may; nil if it did not.
    ///
    /// Called at the job's end, inside its savepoint: the tables have the state after the job.
    func fault(
        of changes: [(entity: String, counts: ChangeCounts)], _ merger: Merger
    ) throws(MergeFailure) -> Fault? {
        let deleted = changes.filter { $0.counts.deleted > 0 }
        switch self {
        case .objects(let limit):
            guard deleted.reduce(0, { $0 + $1.counts.deleted }) > limit else { return nil }
            let total = deleted.reduce(0) { $0 + $1.counts.deleted }
            let parts = deleted.map { "\($0.counts.deleted) \($0.entity)" }
            let sum = parts.count > 1 ? ", \(total) objects in all" : ""
            return Self.fault("\(Self.list(parts))\(sum)", limit: "\(limit)")
        case .share(let thousandths):
            var parts: [String] = []
            for (entity, deleted, before) in try Self.shares(of: changes, merger) {
                let (part, isTooLarge) = before.multipliedReportingOverflow(by: thousandths)
                if !isTooLarge, deleted * 100_000 > part { parts.append("\(deleted) of \(before) \(entity)") }
            }
            guard !parts.isEmpty else { return nil }
            return Self.fault(Self.list(parts), limit: "\(Self.text(thousandths))% of an entity's objects")
        }
    }

    /// The fault of a job that deleted objects, though its sender may not; nil if it did not.
    ///
    /// - Parameter deleted: the number of objects by entity, as ``JobTally/deletions``.
    static func unauthorized(_ deleted: [Int: Int], _ model: Model) -> Fault? {
        guard !deleted.isEmpty else { return nil }
        let parts = deleted.map { "\($0.value) \(model.entities[$0.key].name)" }.sorted()
        return Fault(
            .unauthorized,
            "The job would delete \(list(parts)), perhaps to make the same again, and its sender may not delete objects "
                + "(the role is insert). Nothing was changed. Have the operator allow the role write.")
    }

    /// By topmost entity, the number of deleted objects and the number of objects before the job.
    private static func shares(
        of changes: [(entity: String, counts: ChangeCounts)], _ merger: Merger
    ) throws(MergeFailure) -> [(entity: String, deleted: Int, before: Int)] {
        let model = merger.plan.model
        var sums: [Int: (deleted: Int, inserted: Int)] = [:]
        for (entity, counts) in changes {
            guard let index = model.index(ofEntity: entity) else { continue }
            sums[model.topmost(of: index), default: (0, 0)].deleted += counts.deleted
            sums[model.topmost(of: index), default: (0, 0)].inserted += counts.inserted
        }
        var shares: [(entity: String, deleted: Int, before: Int)] = []
        for (index, sum) in sums.sorted(by: { $0.key < $1.key }) where sum.deleted > 0 {
            let count = try storing { () throws(StoreError) in try merger.entities[index].objectCount() }
            shares.append((model.entities[index].name, sum.deleted, count - sum.inserted + sum.deleted))
        }
        return shares
    }

    private static func list(_ parts: [String]) -> String {
        let rest = parts.count > listedEntities ? " and objects of \(parts.count - listedEntities) more entities" : ""
        return parts.prefix(listedEntities).joined(separator: ", ") + rest
    }

    /// Thousandths of a percent as a percentage: `12.5`.
    private static func text(_ thousandths: Int) -> String {
        var fraction = String(thousandths % 1_000 + 1_000).dropFirst()
        while fraction.last == "0" { fraction.removeLast() }
        return "\(thousandths / 1_000)" + (fraction.isEmpty ? "" : ".\(fraction)")
    }

    private static func fault(_ deleted: String, limit: String) -> Fault {
        Fault(
            .tooManyDeletions,
            "The job would delete \(deleted), and its `maximumDeletions` is \(limit). Nothing was changed. If all of them "
                + "are to be deleted, send it with a larger `maximumDeletions`.")
    }
}
