internal import BrokerModel
internal import BrokerStaging

/// The warnings and rejections that a job reports besides its counts.
struct ReportedFaults {
    private(set) var rejected: [Fault] = []
    /// By the name of the entity, the number of rejections that are not listed.
    private(set) var unlisted: [String: Int] = [:]
    var warnings: [Warning] = []

    mutating func add(_ rows: StagedRows) { add(rows.rejected, rows.unlistedRejections, rows.warnings) }

    mutating func add(_ interpreter: Interpreter) {
        add(interpreter.rejected, interpreter.unlistedRejections, interpreter.warnings)
    }

    private mutating func add(_ rejected: [Fault], _ unlisted: [String: Int], _ warnings: [Warning]) {
        if !unlisted.isEmpty { self.unlisted.merge(unlisted, uniquingKeysWith: +) }
        for fault in rejected { reject(fault) }
        for warning in warnings { add(warning) }
    }

    private mutating func add(_ warning: Warning) {
        let known = warnings.firstIndex { known in
            known.code == warning.code && known.entity.hasSameBytes(as: warning.entity)
                && (known.key ?? "").hasSameBytes(as: warning.key ?? "")
        }
        // A job of few steps reports each key once; comparing many warnings with each other would take too long.
        if let known, warnings.count <= Self.maximumCompared {
            warnings[known].count += warning.count
        } else {
            warnings.append(warning)
        }
    }

    private static let maximumCompared = 1_000

    mutating func reject(_ fault: Fault) {
        if rejected.count < RejectionList.maximumListed {
            rejected.append(fault)
        } else {
            unlisted[fault.entity ?? "", default: 0] += 1
        }
    }

    /// By the name of the entity, the number of rejected objects.
    var rejectedCounts: [String: Int] {
        var counts = unlisted
        for fault in rejected { counts[fault.entity ?? "", default: 0] += 1 }
        return counts
    }
}

extension Outcome {
    /// The reported faults without later changes.
    init(_ reported: ReportedFaults) {
        self.init()
        if !reported.rejected.isEmpty { rejected = reported.rejected }
        if !reported.warnings.isEmpty { warnings = reported.warnings }
        let unlisted = reported.unlisted.values.reduce(0, +)
        if unlisted > 0 { warnings.append(Warning(.rejectedNotListed, entity: "", count: unlisted)) }
    }
}
