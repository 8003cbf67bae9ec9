import BrokerCommandLine
import BrokerFormats
import BrokerJSON

/// How a submission ended, for people and for programs.
struct SubmissionReport {
    let state: SubmissionTally.State
    /// `--id` was given.
    let hasID: Bool

    /// Everything, at the end: data to standard output, the rest to standard error.
    func say(json: Bool) throws(CommandFailure) {
        for failure in state.summary.failures { Program.complain("broker: \(failure)") }
        for input in state.inputs where input.isDone && input.recordsRead == 0 {
            Program.complain("broker: \(input.name) holds no records")
        }
        if let reason = state.lossReason { Program.complain("broker: the connection was lost: \(reason)") }
        if !isComplete {
            for input in accounts { Program.complain("broker: \(input)") }
            if let remedy { Program.complain("broker: to go on, \(remedy)") }
        }
        if json {
            try Program.say(String(decoding: jsonText, as: UTF8.self))
        } else {
            try state.summary.say()
        }
    }

    /// One line, when somebody ended it, behind the failures that there were.
    func sayInterrupted() {
        for failure in state.summary.failures { Program.complain("broker: \(failure)") }
        let doubt = doubtfulCount > 0 ? ", \(doubtfulCount) more were sent\(inquiry)" : ""
        Program.complain(
            "broker: interrupted: \(state.summary.records) records are committed\(doubt); "
                + "to go on, \(remedy ?? "submit the rest")")
    }

    /// What the program is to end with.
    var status: ExitStatus {
        if state.lossReason != nil { return .cannotConnect }
        if !isComplete { return .failed }
        return state.summary.rejectedCount > 0 ? .rejected : .success
    }

    private var isComplete: Bool {
        state.lossReason == nil && state.summary.failures.isEmpty && state.inputs.allSatisfy(\.isDone)
    }

    /// The jobs that may be committed or not, in their order.
    private var doubtful: [SubmissionJob] { state.unanswered.values.sorted { $0.number < $1.number } }

    private var doubtfulCount: Int { doubtful.reduce(0) { $0 + $1.records.count } }

    /// A line for each input of which something is not committed, and that can be told anything of.
    private var accounts: [String] {
        state.inputs.indices.compactMap { index in
            let input = state.inputs[index]
            // That nothing could be read at all has been told.
            if input.isDone || (input.recordsRead == 0 && input.hasEnded) { return nil }
            return input.account(doubtful: doubtful.filter { $0.input == index }.map(\.records))
        } + (doubtful.isEmpty ? [] : ["\(doubtfulCount) records are in doubt\(inquiry)"])
    }

    /// Jobs whose ids are told.
    private static let toldJobs = 8

    /// How to learn what became of the jobs in doubt.
    private var inquiry: String {
        let ids = doubtful.compactMap(\.id)
        guard !ids.isEmpty else { return "" }
        let told = ids.prefix(Self.toldJobs).joined(separator: ", ") + (ids.count > Self.toldJobs ? " …" : "")
        return " (`broker await ID` tells; \(ids.count == 1 ? "the id is" : "the ids are") \(told))"
    }

    /// How to submit what is not committed; nil when that depends on what failed.
    private var remedy: String? {
        if state.lossReason != nil || state.isInterrupted {
            return hasID
                ? "run the same command with the same --id: what is committed is not applied again"
                : "run the same command with --skip \(doneCount)"
        }
        // Where a job failed, too, there is no one place to go on from.
        let broken = state.inputs.filter { $0.fault?.place != nil && $0.failed.isEmpty && $0.doneCount > 0 }
        let mend = broken.map { input in
            state.inputs.count == 1
                ? "mend the input and run the same command with --skip \(input.doneCount)"
                : "mend \(input.name) and submit it alone with --skip \(input.doneCount)"
        }
        guard !mend.isEmpty else { return nil }
        return mend.joined(separator: "; ") + (hasID ? ", under another --id" : "")
    }

    /// Records from the first of all inputs on that need not be sent again.
    private var doneCount: Int {
        var count = 0
        for input in state.inputs {
            count += input.doneCount
            if !input.isDone { break }
        }
        return count
    }

    // MARK: - JSON

    private var jsonText: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            state.summary.writeMembers(to: &writer)
            writer.key("inDoubt")
            writer.array { writer in
                for job in doubtful { write(job, to: &writer) }
            }
            writer.key("inputs")
            writer.array { writer in
                for input in state.inputs { write(input, to: &writer) }
            }
        }
        return writer.bytes
    }

    private func write(_ job: SubmissionJob, to writer: inout JSONWriter) {
        writer.object { writer in
            if let id = job.id {
                writer.key("id")
                writer.string(id)
            }
            writer.key("place")
            writer.string(job.place)
        }
    }

    private func write(_ input: SubmittedInput, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("name")
            writer.string(input.name)
            writer.key("records")
            writer.integer(input.recordsRead)
            writer.key("committed")
            writer.array { writer in
                for range in SubmittedInput.united(input.committed) {
                    writer.array { writer in
                        writer.integer(range.lowerBound)
                        writer.integer(range.upperBound)
                    }
                }
            }
            guard let fault = input.fault else { return }
            writer.key("fault")
            writer.object { writer in
                writer.key("message")
                writer.string(fault.text)
                guard let place = fault.place else { return }
                for case (let key, let number?) in [
                    ("line", place.line), ("column", place.column), ("offset", place.offset),
                ] {
                    writer.key(key)
                    writer.integer(number)
                }
            }
        }
    }
}
