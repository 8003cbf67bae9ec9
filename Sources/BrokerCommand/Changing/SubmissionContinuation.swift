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
        if command.resumes {
            let faulty = parts.contains { $0.cause != .unsent }
            return [
                "what is committed is not applied again; to go on, \(faulty ? "correct the faults and " : "")"
                    + "run\(hint(command.files)): \(command.arguments.shellText)"
            ]
        }
        if command.id != nil, parts.allSatisfy({ $0.cause == .unsent }) {
            return [
                "what is committed is not applied again under the same --id; to go on, run\(hint(command.files)): "
                    + command.arguments.shellText
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
        var parts: [Part] = []
        for stretch in input.uncommitted {
            let isLast = stretch.records.upperBound == input.recordsRead
            // The unsent and the unread records are one part.
            if isLast, isOpen, !stretch.hasFailed, input.fault == nil {
                parts.append(
                    Part(
                        inputs: index..<index + 1, skip: stretch.records.lowerBound - 1,
                        take: rest.map { $0 + stretch.records.count }, cause: .unsent))
                return parts
            }
            parts.append(
                Part(
                    inputs: index..<index + 1, skip: stretch.records.lowerBound - 1, take: stretch.records.count,
                    cause: stretch.hasFailed ? .failed : .unsent))
        }
        guard isOpen, rest != 0 else { return parts }
        parts.append(
            Part(
                inputs: index..<index + 1, skip: input.recordsRead, take: rest,
                cause: input.fault == nil ? .unsent : .fault))
        return parts
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
