import BrokerInput

/// How far one input of a submission came.
struct SubmittedInput: Sendable {
    let name: String
    var recordsRead = 0
    /// The first records, which `--skip` skipped.
    var recordsSkipped = 0
    /// Records of jobs, counted from 1, in the order of their answers.
    var committed: [ClosedRange<Int>] = []
    var failed: [ClosedRange<Int>] = []
    /// Nothing more will be read of it.
    var hasEnded = false
    /// `--take` ended the submission before it.
    var isExcluded = false
    var fault: InputFault?

    init(name: String) { self.name = name }

    /// Every record is committed.
    var isDone: Bool { hasEnded && fault == nil && doneCount == recordsRead }

    /// The records from the first one on that are committed, or were skipped.
    var doneCount: Int {
        Self.united(committed).reduce(recordsSkipped) { done, range in
            range.lowerBound <= done + 1 ? max(done, range.upperBound) : done
        }
    }

    /// Records of the input that were read and are not committed, one after the other.
    struct Stretch: Equatable {
        let records: ClosedRange<Int>
        /// Their jobs failed; else they were not sent, or not answered.
        let hasFailed: Bool
    }

    var uncommitted: [Stretch] {
        let skipped = recordsSkipped > 0 ? [1...recordsSkipped] : []
        let known =
            Self.united(skipped + committed).map { (range: $0, hasFailed: false) }
            + Self.united(failed).map { (range: $0, hasFailed: true) }
        var stretches: [Stretch] = []
        var next = 1
        for (range, hasFailed) in known.sorted(by: { $0.range.lowerBound < $1.range.lowerBound }) {
            if range.lowerBound > next {
                stretches.append(Stretch(records: next...range.lowerBound - 1, hasFailed: false))
            }
            if hasFailed { stretches.append(Stretch(records: range, hasFailed: true)) }
            next = max(next, range.upperBound + 1)
        }
        if next <= recordsRead { stretches.append(Stretch(records: next...recordsRead, hasFailed: false)) }
        return stretches
    }

    /// The committed and the uncommitted records, as a sentence without its end.
    ///
    /// - Parameters:
    ///   - end: the end of the jobs that did not fail: committed, or tried.
    ///   - doubtful: records that were sent and not answered.
    func account(_ end: String, doubtful: [ClosedRange<Int>]) -> String {
        guard hasEnded || recordsRead > 0 else { return "\(name): not read" }
        let parts = [(committed, end), (failed, "failed"), (doubtful, "in doubt")].compactMap { ranges, state in
            ranges.isEmpty ? nil : "\(state): \(Self.text(Self.united(ranges)))"
        }
        let known = parts.isEmpty ? "nothing is \(end)" : "records \(parts.joined(separator: "; "))"
        return hasEnded ? "\(name): \(known)" : "\(name): \(known); the rest was not sent"
    }

    func faultText(_ fault: InputFault) -> String {
        guard let place = fault.place else { return "\(name) \(fault.reason)" }
        let before =
            switch recordsRead {
            case 0: "nothing of it was sent"
            case 1: "the record before it was sent, nothing after it"
            default: "the \(recordsRead) records before it were sent, nothing after it"
            }
        return "\(name), \(place): \(fault.text); \(before)"
    }

    /// The maximum number of ranges that are printed; the others are counted.
    private static let listedRanges = 10

    private static func text(_ ranges: [ClosedRange<Int>]) -> String {
        let list = ranges.prefix(listedRanges).map { range in
            range.count == 1 ? "\(range.lowerBound)" : "\(range.lowerBound) to \(range.upperBound)"
        }
        let rest = ranges.count > listedRanges ? " and \(ranges.count - listedRanges) more ranges" : ""
        return list.joined(separator: ", ") + rest
    }

    /// In their order, neighbours made one.
    static func united(_ ranges: [ClosedRange<Int>]) -> [ClosedRange<Int>] {
        ranges.sorted { $0.lowerBound < $1.lowerBound }.reduce(into: []) { united, range in
            if let last = united.last, range.lowerBound <= last.upperBound + 1 {
                united[united.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                united.append(range)
            }
        }
    }
}
