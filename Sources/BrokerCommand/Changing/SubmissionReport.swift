import BrokerCommandLine
import BrokerInput
import BrokerJSON
import Foundation

/// How a submission ended, for people and for programs.
struct SubmissionReport {
    let state: JobTally.State
    let command: SubmitCommandLine

    /// Everything, at the end: data to standard output, the rest to standard error.
    func say(json: Bool) throws(CommandFailure) {
        state.summary.sayFailures()
        for input in emptyInputs {
            Program.report(
                "broker: \(input.name) holds no records" + (command.mayBeEmpty ? "" : "; --empty allows that"))
        }
        if let reason = state.lossReason { Program.report("broker: the connection was lost: \(reason)", .error) }
        if let refusal = state.refusal { Program.report("broker: the server takes no jobs: \(refusal)", .error) }
        if let optionRemedy {
            Program.report("broker: \(optionRemedy)")
        } else if !isComplete, !command.isCheck {
            for input in accounts { Program.report("broker: \(input)") }
            for line in continuation { Program.report("broker: \(line)") }
        }
        if json {
            try Program.writeObject(write)
        } else if command.isCheck {
            try state.summary.sayCheck()
        } else {
            try state.summary.say(isTrial: command.isDryRun)
        }
    }

    /// After a signal: how many records are committed, and the commands that submit the others.
    func sayInterrupted() {
        state.summary.sayFailures()
        let doubt = doubtfulCount > 0 ? ", \(doubtfulCount) more were sent\(inquiry)" : ""
        let committed = "broker: interrupted: \(state.summary.records) records are \(end)\(doubt)"
        let lines = isComplete ? ["these are all records of the input"] : repetition + continuation
        guard lines.count == 1 else {
            Program.report(committed)
            return lines.forEach { Program.report("broker: \($0)") }
        }
        Program.report("\(committed); \(lines[0])")
    }

    private var continuation: [String] { SubmissionContinuation(of: state, command).lines }

    /// The remedy where all failed because of an option alone, so that no record is to be corrected; nil elsewhere.
    private var optionRemedy: String? {
        guard state.summary.jobs == 0, state.unanswered.isEmpty, state.refusal == nil, state.lossReason == nil,
            let code = state.summary.failures.first?.code, state.summary.failures.allSatisfy({ $0.code == code })
        else { return nil }
        switch code {
        case .unmappable where !command.namesRecords:
            return "to go on, name the records' entity by --entity (`broker entities` lists them)"
        case .unauthorized: return "to go on, run it as a user whose role allows it; no record is at fault"
        case .unknownEntity, .unknownMapping: return "to go on, run it again with a name that the model has"
        default: return nil
        }
    }

    private var emptyInputs: [SubmittedInput] {
        state.inputs.filter { $0.isDone && $0.recordsRead == 0 && !$0.isExcluded }
    }

    /// The exit status of the program.
    var status: ExitStatus {
        if state.lossReason != nil { return .cannotConnect }
        if !isComplete || (!emptyInputs.isEmpty && !command.mayBeEmpty) { return .failed }
        guard state.summary.rejectedCount > 0 else { return .success }
        return command.isCheck ? .failed : .rejected
    }

    private var isComplete: Bool {
        state.lossReason == nil && state.refusal == nil && state.summary.failures.isEmpty
            && state.inputs.allSatisfy(\.isDone)
    }

    /// The jobs that may be committed or not, in their order.
    private var doubtful: [StreamedJob] { state.unanswered.values.sorted { $0.number < $1.number } }

    private var doubtfulCount: Int { doubtful.reduce(0) { $0 + $1.records.count } }

    /// The end of a job that does not fail.
    private var end: String { command.isDryRun ? "tried" : "committed" }

    /// A line for each input with uncommitted records about which something is known.
    private var accounts: [String] {
        state.inputs.indices.compactMap { index in
            let input = state.inputs[index]
            // That no record could be read has been reported already.
            if input.isDone || (input.recordsRead == 0 && input.hasEnded) { return nil }
            return input.account(end, doubtful: doubtful.filter { $0.records.input == index })
        } + doubts
    }

    private var doubts: [String] {
        guard !doubtful.isEmpty else { return [] }
        return ["\(doubtfulCount) \(doubtfulCount == 1 ? "record is" : "records are") in doubt\(inquiry)"] + repetition
    }

    /// The jobs in doubt are other jobs when they are sent again, unless --id or --resume makes their ids.
    private var repetition: [String] {
        guard !doubtful.isEmpty, command.id == nil, !command.resumes, !command.isDryRun else { return [] }
        return [
            "what is in doubt may still be applied, and is applied once more by the command below: objects without identity "
                + "are then inserted twice. With --id or --resume from the first run on, it is applied once"
        ]
    }

    /// The maximum number of jobs whose ids are printed.
    private static let listedJobs = 8

    /// How to learn what became of the jobs in doubt.
    private var inquiry: String {
        let ids = doubtful.compactMap(\.id)
        guard !ids.isEmpty else { return "" }
        let list = ids.prefix(Self.listedJobs).joined(separator: ", ") + (ids.count > Self.listedJobs ? " …" : "")
        return " (see `broker await ID`; \(ids.count == 1 ? "the id is" : "the ids are") \(list))"
    }

    // MARK: - JSON

    private func write(to writer: inout JSONWriter) {
        state.summary.writeMembers(to: &writer)
        writer.array("inDoubt") { writer in
            for job in doubtful { write(job, to: &writer) }
        }
        writer.array("inputs") { writer in
            for input in state.inputs { write(input, to: &writer) }
        }
    }

    private func write(_ job: StreamedJob, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("id", job.id)
            job.records.place.writeMembers(to: &writer)
        }
    }

    private func write(_ input: SubmittedInput, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("name", input.name)
            writer.member("records", input.recordsRead)
            writer.array(end) { writer in
                for range in input.committed.ranges { writer.range(range) }
            }
            guard let fault = input.fault else { return }
            writer.object("fault") { writer in
                writer.member("message", fault.text)
                guard let place = fault.place else { return }
                for case (let key, let number?) in [
                    ("line", place.line), ("column", place.column), ("offset", place.offset),
                ] {
                    writer.member(key, number)
                }
            }
        }
    }
}

/// How far one input of a submission came.
struct SubmittedInput: Sendable {
    let name: String
    var recordsRead = 0
    /// The first records, which `--skip` skipped.
    var recordsSkipped = 0
    /// Records of jobs, counted from 1.
    var committed = IndexSet()
    var failed = IndexSet()
    /// Nothing more will be read of it.
    var hasEnded = false
    /// `--take` ended the submission before it.
    var isExcluded = false
    var fault: InputFault?

    init(name: String) { self.name = name }

    /// Records that were read, and neither skipped nor committed.
    private var open: IndexSet {
        IndexSet(integersIn: 0...recordsRead).subtracting(committed.union(IndexSet(integersIn: 0...recordsSkipped)))
    }

    /// Every record is committed.
    var isDone: Bool { hasEnded && fault == nil && open.isEmpty }

    /// The records that are not committed, one after the other. Their jobs failed; else they were not sent, or not answered.
    var uncommitted: [(records: ClosedRange<Int>, hasFailed: Bool)] {
        (failed.ranges.map { ($0, true) } + open.subtracting(failed).ranges.map { ($0, false) })
            .sorted { $0.0.lowerBound < $1.0.lowerBound }
    }

    /// The committed and the uncommitted records, as a sentence without its end.
    ///
    /// - Parameters:
    ///   - end: the end of the jobs that did not fail: committed, or tried.
    ///   - doubtful: jobs that were sent and not answered.
    func account(_ end: String, doubtful: [StreamedJob]) -> String {
        guard hasEnded || recordsRead > 0 else { return "\(name): not read" }
        let doubtful = doubtful.reduce(into: IndexSet()) { $0.insert(integersIn: $1.records.range) }
        let parts = [(committed, end), (failed, "failed"), (doubtful, "in doubt")].compactMap { ranges, state in
            ranges.isEmpty ? nil : "\(state): \(Self.text(ranges.ranges))"
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
}

extension IndexSet {
    /// In their order; no two of them touch.
    fileprivate var ranges: [ClosedRange<Int>] { rangeView.map(ClosedRange.init) }
}
