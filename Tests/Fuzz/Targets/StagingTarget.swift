import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore
import TestSupport

/// A job's JSON staged by a fixed model and merged into a store, with either policy: what failing lets pass, skipping does
/// not reject; memory is asked for; and the store takes what staging took, or says why in a fault of the data.
final class StagingTarget: FuzzTarget {
    /// Bytes of rows for one byte of text, at most: a `{}` in an array is a row with all its columns.
    private static let bytesForEachByte = 4_096
    private static let leastBytes = 1 << 20

    private let folder = TemporaryFolder()
    private let company: FuzzedCompany
    private let store: Store
    private var sequence: Int64 = 1

    init() throws {
        company = try FuzzedCompany()
        var options = StoreOptions()
        options.synchronous = .off
        store = try Store(path: folder.path("store.sqlite"), plan: company.plan, options: options)
        let document = try JSONDocument(parsing: JSONText(copying: Array(FuzzedCompany.records.utf8)))
        try store.begin()
        _ = try store.apply(company.job(.merge, try company.stage(document, .fail), sequence: 1, .fail))
        try store.commit()
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        guard let document = try? JSONDocument(parsing: JSONText(copying: input)), document.root.kind == .object else {
            return
        }
        let failing = try stage(document, .fail)
        let skipping = try stage(document, .skip)
        switch (failing, skipping) {
        case (.success(let failing), .success(let skipping)):
            try require(skipping.rejected.isEmpty, "what failing lets pass, skipping rejects")
            try require(Self.counts(failing) == Self.counts(skipping), "other rows are staged where nothing is wrong")
        case (.failure(let fault), .success(let skipping)):
            try require(
                !skipping.rejected.isEmpty || skipping.openFault != nil, "what skipping lets pass, fails: \(fault)")
        case (.success, .failure(let fault)):
            throw FuzzFinding(description: "skipping fails where failing does not: \(fault)")
        case (.failure, .failure): return
        }
        if case .success(let rows) = failing { try merge(rows, .fail) }
        if case .success(let rows) = skipping { try merge(rows, .skip) }
    }

    private static func counts(_ rows: StagedRows) -> [Int] { rows.tables.map { $0?.rowCount ?? 0 } }

    private func stage(_ document: JSONDocument, _ policy: InvalidRecordPolicy) throws -> Result<StagedRows, Fault> {
        let allowance = CountingAllowance()
        do {
            let rows = try company.stage(document, policy, allowance)
            let most = Self.leastBytes + document.text.count * Self.bytesForEachByte
            try require(allowance.taken <= most, "\(allowance.taken) bytes for \(document.text.count) of text")
            for fault in rows.rejected { try requireSound(fault) }
            return .success(rows)
        } catch StagingRefusal.fault(let fault) {
            try requireSound(fault)
            return .failure(fault)
        } catch let fault as Fault {
            try requireSound(fault)
            return .failure(fault)
        }
    }

    /// Merges the rows, and undoes it.
    private func merge(_ rows: StagedRows, _ policy: InvalidRecordPolicy) throws {
        sequence += 1
        try store.begin()
        defer { store.rollback() }
        switch try store.apply(company.job(.merge, rows, sequence: sequence, policy)) {
        case .completed(let outcome):
            for (entity, counts) in outcome.changes {
                let all = [counts.inserted, counts.updated, counts.unchanged, counts.deleted, counts.rejected]
                try require(all.allSatisfy { $0 >= 0 }, "\(entity) counts \(all)")
            }
        case .failed(let fault): try requireSound(fault)
        case .duplicate, .conflict: throw FuzzFinding(description: "a job of a new id was applied before")
        }
    }
}
