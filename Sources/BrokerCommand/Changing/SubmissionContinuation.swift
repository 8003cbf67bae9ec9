import Broker
import BrokerClient
import BrokerJSON
import BrokerStore
import Foundation

/// The parts of a submission that are not committed, and for each the command that submits it.
struct SubmissionContinuation {
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

    /// Commands that are printed; further ones are counted.
    private static let printedCommands = 10

    private let state: JobTally.State
    private let command: SubmitCommandLine

    init(of state: JobTally.State, _ command: SubmitCommandLine) {
        self.state = state
        self.command = command
    }

    /// Sentences without their ends, each with a command.
    var lines: [String] {
        let parts = parts
        guard !parts.isEmpty else { return [] }
        let areUnsent = parts.allSatisfy { $0.cause == .unsent }
        if command.resumes || command.id != nil && areUnsent {
            let condition = command.resumes ? "" : " under the same --id"
            return [
                "what is committed is not applied again\(condition); to go on, \(areUnsent ? "" : "correct the faults and ")"
                    + "run\(hint(command.files)): \(command.arguments.shellText)"
            ]
        }
        let lines = parts.prefix(Self.printedCommands).map(line)
        guard parts.count > Self.printedCommands else { return lines }
        return lines + ["\(parts.count - Self.printedCommands) more parts are not committed; --json lists what is"]
    }

    // MARK: - Parts

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

    // MARK: - Lines

    private func line(_ part: Part) -> String {
        let files = Array(files(part.inputs))
        let arguments = command.arguments(of: files, skip: part.skip, take: part.take, id: id(of: part))
        let name = state.inputs[part.inputs.lowerBound].name
        let action =
            switch part.cause {
            case .unsent: "run\(hint(files))"
            case .failed:
                "correct \(records(of: part)) of \(name) and run\(hint(files))"
            case .fault: "correct \(name) and run\(hint(files))"
            }
        return "to go on, \(action): \(arguments.shellText)"
    }

    private func records(of part: Part) -> String {
        let (first, count) = (part.skip + 1, part.take ?? 1)
        return count == 1 ? "record \(first)" : "records \(first) to \(first + count - 1)"
    }

    private func files(_ inputs: Range<Int>) -> ArraySlice<String> {
        command.files.isEmpty ? [] : command.files[inputs]
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
}

/// A submission as a command that a shell runs, to submit the rest of its records.
struct SubmitCommandLine: Sendable {
    /// Files as they were given; none for standard input alone.
    let files: [String]
    let skip: Int
    let take: Int?
    let id: String?
    let mayBeEmpty: Bool
    let isDryRun: Bool
    let isCheck: Bool
    /// The same command does not apply again what is committed.
    let resumes: Bool
    /// An entity, a mapping or a path says what the records are.
    let namesRecords: Bool
    /// All other options, those that are not the defaults.
    private let options: [String]

    init(_ command: SubmitCommand) {
        files = command.input.files
        skip = command.skip
        take = command.take
        id = command.id
        mayBeEmpty = command.empty
        isDryRun = command.isDryRun
        isCheck = command.check
        resumes = command.resume
        namesRecords = command.entity != nil || command.mapping != nil || command.path != nil
        let defaults = SubmitCommand.withDefaults()
        func text<Value: Equatable>(_ option: KeyPath<SubmitCommand, Value>) -> String? {
            command[keyPath: option] == defaults[keyPath: option] ? nil : "\(command[keyPath: option])"
        }
        let values: [(String, String?)] =
            [
                ("--entity", command.entity), ("--path", command.path), ("--mapping", command.mapping),
                ("--batch-records", text(\.batchRecords)), ("--batch-bytes", text(\.batchBytes)),
                ("--max-in-flight", text(\.maxInFlight)), ("--on-invalid", text(\.onInvalid.rawValue)),
                ("--unknown", text(\.unknown.rawValue)), ("--type", command.input.format.type?.rawValue),
                ("--root", command.input.format.root?.text), ("--delimiter", command.input.format.delimiter?.text),
                ("--ragged", text(\.input.format.ragged.rawValue)),
            ] + command.inference.identity.map { ("--identity", $0) }
            + command.inference.ignore.map { ("--ignore", $0) }
        let flags = [
            ("--evolve", command.evolve == true), ("--no-evolve", command.evolve == false),
            ("--dry-run", command.dryRun), ("--check", command.check), ("--resume", command.resume),
        ]
        options =
            command.connection.words + values.words + flags.filter(\.1).map(\.0)
            // The file of this run is not empty; only a resumed one adds to it.
            + [("--rejects", command.resume ? command.rejects : nil)].words
            + [("--json", command.json), ("--empty", command.empty)].filter(\.1).map(\.0)
    }

    /// The same command.
    var arguments: [String] { arguments(of: files, skip: skip, take: take, id: id) }

    /// The command for a part of the input.
    ///
    /// - Parameters:
    ///   - files: none for standard input alone.
    ///   - skip: the number of records of these files to skip.
    ///   - take: records to submit at most; nil for all others.
    func arguments(of files: [String], skip: Int, take: Int?, id: String?) -> [String] {
        var arguments = [CommandLine.arguments.first ?? "broker", "submit"] + options
        arguments += [("--id", id), ("--skip", skip > 0 ? "\(skip)" : nil), ("--take", take.map { "\($0)" })].words
        if files.contains(where: { $0.hasPrefix("-") && $0 != "-" }) { arguments.append("--") }
        return arguments + files
    }
}

extension SubmitCommand {
    /// The default values of the options.
    fileprivate static func withDefaults() -> SubmitCommand {
        do {
            return try SubmitCommand.parse([])
        } catch {
            preconditionFailure("no option is required: \(error)")
        }
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

/// The ids of `--resume`, by which a later run recognises the jobs that an earlier one has committed.
///
/// An id follows from everything that decides the effect of the job: the options that are part of it, the input's name, the
/// position of its first record there, and the texts of its records. So a job is skipped only if the same records came from
/// the same place, and a record that was corrected since makes another job.
struct ResumedJobs: Sendable {
    private let options: [String]

    /// - Parameter options: those that are part of each job.
    init(options: [String]) { self.options = options }

    func id(of records: [UInt8], from input: String, at first: Int) -> JobID {
        let name = input == "-" ? input : URL(filePath: input).standardizedFileURL.path
        // No option and no name contains a zero.
        var head = Array((options + [name, "\(first)"]).joined(separator: "\0").utf8)
        head.append(0)
        let hashes = [head, records].map { $0.withUnsafeBytes { ContentHash.hash($0) } }
        let hash = (hashes[0] + hashes[1]).withUnsafeBytes { ContentHash.hash($0) }
        return JobID("resume-" + hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() + "-\(first)")
    }

    /// The completion of the job, if an earlier run has committed it; nil when it is to be sent: it is unknown, or failed.
    static func committed(_ id: JobID, on broker: BrokerClient) async -> Completion? {
        // An error of the connection is found again when the job is sent.
        guard var completion = try? await broker.await(id) else { return nil }
        completion.isDuplicate = true
        return completion
    }

    /// The line about rows that a later run may insert again; nil for none.
    static func warning(_ entity: String, of model: ModelDescription) -> String? {
        guard model.entities[entity] != nil else { return nil }
        var name: String? = entity
        // A subentity has the identity of its parent.
        while let found = name.flatMap({ model.entities[$0] }) {
            if !found.identity.isEmpty, found.identityOptional != true { return nil }
            name = found.parent
        }
        return
            "objects of \(entity) may have no identity: when the input or an option has changed, --resume inserts the "
            + "records of each changed job again; correct records in the file of --rejects instead, and submit that"
    }
}
