import Broker
import BrokerCommandLine
import BrokerInput
import BrokerJSON
import Foundation

struct SubmissionReport {
    let state: JobTally.State
    let command: SubmitCommand
    /// The words of the command.
    var given = CommandLine.arguments

    func say() throws(CommandFailure) {
        state.summary.sayFailures()
        for input in emptyInputs {
            Program.report(
                "broker: \(input.name) holds no records" + (command.reading.empty ? "" : "; --empty allows that"))
        }
        if let reason = state.lossReason { Program.report("broker: the connection was lost: \(reason)", .error) }
        if let refusal = state.refusal { Program.report("broker: the server takes no jobs: \(refusal)", .error) }
        if let optionRemedy {
            Program.report("broker: \(optionRemedy)")
        } else if !isComplete, !command.check {
            for line in accounts + continuation { Program.report("broker: \(line)") }
        }
        if command.json {
            try Program.writeObject(write)
        } else if command.check {
            try state.summary.sayCheck()
        } else {
            try state.summary.say(isTrial: command.dryRun)
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

    /// The remedy where all failed because of an option alone, so that no record is to be corrected; nil elsewhere.
    private var optionRemedy: String? {
        guard state.summary.jobs == 0, state.unanswered.isEmpty, state.refusal == nil, state.lossReason == nil,
            let code = state.summary.failures.first?.code, state.summary.failures.allSatisfy({ $0.code == code })
        else { return nil }
        let reading = command.reading
        switch code {
        case .unmappable where reading.entity == nil && reading.mapping == nil && reading.path == nil:
            return "to go on, name the records' entity by --entity (`broker entities` lists them)"
        case .unauthorized: return "to go on, run it as a user whose role allows it; no record is at fault"
        case .unknownEntity, .unknownMapping: return "to go on, run it again with a name that the model has"
        default: return nil
        }
    }

    private var emptyInputs: [SubmittedInput] {
        state.inputs.filter { $0.isDone && $0.recordsRead == 0 && !$0.isExcluded }
    }

    var status: ExitStatus {
        if state.lossReason != nil { return .cannotConnect }
        if !isComplete || (!emptyInputs.isEmpty && !command.reading.empty) { return .failed }
        guard state.summary.rejectedCount > 0 else { return .success }
        return command.check ? .failed : .rejected
    }

    private var isComplete: Bool {
        state.lossReason == nil && state.refusal == nil && state.summary.failures.isEmpty
            && state.inputs.allSatisfy(\.isDone)
    }

    // MARK: - Accounts

    /// The jobs that may be committed or not, in their order.
    private var doubtful: [StreamedJob] { state.unanswered.values.sorted { $0.number < $1.number } }

    private var doubtfulCount: Int { doubtful.reduce(0) { $0 + $1.records.count } }

    private var end: String { command.isDryRun ? "tried" : "committed" }

    /// A line for each input with uncommitted records about which something is known.
    private var accounts: [String] {
        let accounts = state.inputs.enumerated().compactMap { index, input -> String? in
            // That no record could be read has been reported already.
            if input.isDone || (input.recordsRead == 0 && input.hasEnded) { return nil }
            return input.account(end, doubtful: doubtful.filter { $0.records.input == index })
        }
        guard !doubtful.isEmpty else { return accounts }
        let records = doubtfulCount == 1 ? "1 record is" : "\(doubtfulCount) records are"
        return accounts + ["\(records) in doubt\(inquiry)"] + repetition
    }

    /// The jobs in doubt are other jobs when they are sent again, unless --id or --resume makes their ids.
    private var repetition: [String] {
        guard !doubtful.isEmpty, command.id == nil, !command.resume, !command.isDryRun else { return [] }
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

    // MARK: - What is not committed

    private enum Cause {
        /// Not sent, not answered, or refused by a store that takes no jobs: the same records may be submitted again.
        case unsent
        /// The job of these records failed.
        case failed
        /// The input cannot be read from there on.
        case fault
    }

    /// Records of one input, or of one and all of those after it.
    private struct Part {
        var inputs: Range<Int>
        /// Records of the first of these inputs before the part.
        let skip: Int
        /// Nil for all records after those.
        let take: Int?
        let cause: Cause
    }

    private static let printedCommands = 10

    /// For each part of the input that is not committed the command that submits it: sentences without their ends.
    var continuation: [String] {
        let parts = parts
        guard !parts.isEmpty else { return [] }
        let areUnsent = parts.allSatisfy { $0.cause == .unsent }
        if command.resume || command.id != nil && areUnsent {
            let words = command.words(
                given, of: command.input.files, skip: command.skip, take: command.take, id: command.id)
            let condition = command.resume ? "" : " under the same --id"
            return [
                "what is committed is not applied again\(condition); to go on, \(areUnsent ? "" : "correct the faults and ")"
                    + "run\(hint(command.input.files)): \(words.shellText)"
            ]
        }
        let lines = parts.prefix(Self.printedCommands).map(line)
        guard parts.count > Self.printedCommands else { return lines }
        return lines + ["\(parts.count - Self.printedCommands) more parts are not committed; --json lists what is"]
    }

    private var parts: [Part] {
        var parts: [Part] = []
        for (index, input) in state.inputs.enumerated() where !input.isDone {
            for part in self.parts(of: input, index) {
                // Inputs that were not reached follow the one that was.
                if let last = parts.last, last.cause == .unsent, last.take == command.take, part.cause == .unsent,
                    part.skip == 0, part.take == command.take, last.inputs.upperBound == index, !input.hasEnded
                {
                    parts[parts.count - 1].inputs = last.inputs.lowerBound..<index + 1
                } else {
                    parts.append(part)
                }
            }
        }
        return parts
    }

    private func parts(of input: SubmittedInput, _ index: Int) -> [Part] {
        let taken = state.inputs.reduce(0) { $0 + $1.recordsRead - $1.recordsSkipped }
        let isOpen = !input.hasEnded || input.fault != nil
        let rest = command.take.map { $0 - taken }
        func part(_ skip: Int, _ take: Int?, _ cause: Cause) -> Part {
            Part(inputs: index..<index + 1, skip: skip, take: take, cause: cause)
        }
        var parts: [Part] = []
        for (records, hasFailed) in input.uncommitted {
            // The unsent and the unread records are one part.
            if records.upperBound == input.recordsRead, isOpen, !hasFailed, input.fault == nil {
                return parts + [part(records.lowerBound - 1, rest.map { $0 + records.count }, .unsent)]
            }
            parts.append(part(records.lowerBound - 1, records.count, hasFailed ? .failed : .unsent))
        }
        guard isOpen, rest != 0 else { return parts }
        return parts + [part(input.recordsRead, rest, input.fault == nil ? .unsent : .fault)]
    }

    private func line(_ part: Part) -> String {
        let files = command.input.files.isEmpty ? [] : Array(command.input.files[part.inputs])
        let name = state.inputs[part.inputs.lowerBound].name
        let correction =
            switch part.cause {
            case .unsent: ""
            case .failed: "correct \((part.skip + 1...part.skip + (part.take ?? 1)).recordText) of \(name) and "
            case .fault: "correct \(name) and "
            }
        let words = command.words(given, of: files, skip: part.skip, take: part.take, id: id(of: part))
        return "to go on, \(correction)run\(hint(files)): \(words.shellText)"
    }

    /// The command does not say what standard input is.
    private func hint(_ files: [String]) -> String {
        files.isEmpty || files.contains("-") ? " with the same standard input" : ""
    }

    /// The jobs of a part are other jobs than those of the whole, so they need other ids.
    private func id(of part: Part) -> String? {
        guard let id = command.id else { return nil }
        let place = part.inputs.lowerBound == 0 ? "\(part.skip)" : "\(part.inputs.lowerBound + 1).\(part.skip)"
        let partID = "\(id)-after-\(place)"
        // Too long for an id: the part is then submitted without one.
        return partID.utf8.count <= SubmitCommand.longestID ? partID : nil
    }

    // MARK: - JSON

    private func write(to writer: inout JSONWriter) {
        state.summary.writeMembers(to: &writer)
        writer.objects("inDoubt", of: doubtful) { job, writer in
            writer.member("id", job.id)
            job.records.place.writeMembers(to: &writer)
        }
        writer.objects("inputs", of: state.inputs) { write($0, to: &$1) }
    }

    private func write(_ input: SubmittedInput, to writer: inout JSONWriter) {
        writer.member("name", input.name)
        writer.member("records", input.recordsRead)
        writer.array(end, of: input.committed.ranges) { $1.range($0) }
        guard let fault = input.fault else { return }
        writer.object("fault") { writer in
            writer.member("message", fault.text)
            guard let place = fault.place else { return }
            writer.member("line", place.line)
            writer.member("column", place.column)
            writer.member("offset", place.offset)
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

// MARK: - The command line

extension SubmitCommand {
    private static let flags = [
        "--evolve", "--no-evolve", "--strict", "--dry-run", "--check", "--resume", "--json", "--empty", "--with-header",
        "--no-header", "--new", "--extra", "--widen", "--append",
    ]

    /// The command for a part of the input, as words for a shell: the whole command, whose first words are `broker submit`, without
    /// its files, and with others.
    ///
    /// - Parameter files: none for standard input alone.
    func words(_ given: [String], of files: [String], skip: Int, take: Int?, id: String?) -> [String] {
        // The file of rejected records is not empty any more; only a resumed run adds to it.
        let changed = ["--skip", "--take", "--id"] + (resume ? [] : ["--rejects"])
        var words = Array(given.prefix(2))
        for word in given.dropFirst(2).prefix(while: { $0 != "--" }).without(changed) {
            let isValue =
                words.last.map { $0.hasPrefix("--") && !$0.contains("=") && !Self.flags.contains($0) } ?? false
            if isValue || !input.files.contains(word) { words.append(word) }
        }
        if let id { words += id.hasPrefix("-") ? ["--id=\(id)"] : ["--id", id] }
        if skip > 0 { words += ["--skip", "\(skip)"] }
        if let take { words += ["--take", "\(take)"] }
        if files.contains(where: { $0.hasPrefix("-") && $0 != "-" }) { words.append("--") }
        return words + files
    }
}

extension Collection<String> {
    /// The words of a command line without these options, each of which takes a value.
    func without(_ options: [String]) -> [String] {
        var words: [String] = []
        var isValue = false
        for word in self {
            let isGiven = !isValue && options.contains(word)
            if !isValue, !isGiven, !options.contains(where: { word.hasPrefix($0 + "=") }) { words.append(word) }
            isValue = isGiven
        }
        return words
    }
}

extension [String] {
    /// As words for a shell, each of them exactly what it is here.
    var shellText: String { map(\.shellWord).joined(separator: " ") }
}

extension String {
    private static let plainCharacters = Set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-".unicodeScalars)

    /// The text as one word for a shell: as it is, in single quotes, or, where it has characters that a terminal
    /// interprets, in the quotes `$'…'` of bash, ksh, zsh and POSIX 2024, which escape them.
    fileprivate var shellWord: String {
        if !isEmpty, unicodeScalars.allSatisfy(Self.plainCharacters.contains) { return self }
        guard printable != self else { return "'\(replacingQuotes)'" }
        var word = "$'"
        for scalar in unicodeScalars {
            let text = String(scalar)
            if text.printable != text {
                for byte in text.utf8 { word += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16) }
            } else {
                word += scalar == "'" || scalar == "\\" ? "\\\(scalar)" : text
            }
        }
        return word + "'"
    }

    /// A single quote ends the quoted part, is escaped by itself, and begins the next part.
    private var replacingQuotes: String {
        split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''")
    }
}
