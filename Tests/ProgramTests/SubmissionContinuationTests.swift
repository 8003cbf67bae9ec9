import BrokerInput
import Testing

@testable import BrokerCommand

/// The commands that submit what a submission has not committed.
@Suite(.timeLimit(.minutes(5))) struct SubmissionContinuationTests {
    /// Reads so many records of the inputs, commits some, and fails others.
    private func lines(
        _ arguments: [String], read: [Int], committed: [[ClosedRange<Int>]], failed: [[ClosedRange<Int>]] = [],
        ended: Int = 0, fault: Bool = false
    ) throws -> [String] {
        let command = try SubmitCommand.parse(arguments)
        var state = JobTally.State(
            inputs: command.input.sources.map { SubmittedInput(name: $0.name) })
        for (index, count) in read.enumerated() {
            state.inputs[index].recordsRead = count
            state.inputs[index].recordsSkipped = index == 0 ? command.skip : 0
            state.inputs[index].committed = committed[index]
            state.inputs[index].failed = index < failed.count ? failed[index] : []
            state.inputs[index].hasEnded = index < ended
            if fault, index == ended - 1 { state.inputs[index].fault = InputFault(reason: "broken", place: nil) }
        }
        let program = CommandLine.arguments[0]
        return SubmissionContinuation(of: state, SubmitCommandLine(command)).lines.map {
            $0.replacing([program].shellText + " submit ", with: "")
        }
    }

    @Test func `unread records follow uncommitted ones, in one command`() throws {
        #expect(
            try lines(
                ["--entity", "E", "a", "b", "c"], read: [10, 5, 0], committed: [[1...10], [1...2], []], ended: 1)
                == ["to go on, run: --entity E --skip 2 b c"])
        #expect(
            try lines(["--entity", "E"], read: [0], committed: [[]])
                == ["to go on, run with the same standard input: --entity E"])
        #expect(
            try lines(["--entity", "E", "--skip", "3", "--take", "9", "a"], read: [8], committed: [[4...6]])
                == ["to go on, run: --entity E --skip 6 --take 6 a"])
    }

    @Test
    func `each failed range of records has its own command, and no command has the committed records between them`()
        throws
    {
        #expect(
            try lines(
                ["--entity", "E", "a"], read: [40], committed: [[1...10, 21...30]], failed: [[11...20, 31...40]],
                ended: 1)
                == [
                    "to go on, correct records 11 to 20 of a and run: --entity E --skip 10 --take 10 a",
                    "to go on, correct records 31 to 40 of a and run: --entity E --skip 30 --take 10 a",
                ])
    }

    @Test func `an input that cannot be read goes on from its fault, and needs other ids`() throws {
        #expect(
            try lines(
                ["--entity", "E", "--id", "load", "a", "b"], read: [10, 7], committed: [[1...10], [1...7]], ended: 2,
                fault: true)
                == ["to go on, correct b and run: --entity E --id load-after-2.7 --skip 7 b"])
    }

    @Test func `an unanswered job with an id is sent again unchanged`() throws {
        #expect(
            try lines(["--entity", "E", "--id", "load", "--skip", "1", "a"], read: [10], committed: [[2...5]])
                == [
                    "what is committed is not applied again under the same --id; to go on, run: --entity E --id load "
                        + "--skip 1 a"
                ])
    }

    @Test(arguments: [
        [],
        [
            "--socket", "s", "--reconnect-timeout", "3s", "--timeout", "4s", "--path", "/a b", "--batch-records", "7",
            "--batch-bytes",
            "8",
            "--max-in-flight", "2", "--on-invalid", "skip", "--unknown", "fail", "--id", "x", "--json", "--empty",
            "--type",
            "csv", "--root", "/a/b", "--delimiter", ";", "--ragged", "fill", "--skip", "3", "--take", "4", "f", "-",
        ],
        ["--store", "s", "--model", "m", "--model", "n", "--migrate", "keep", "--mapping", "m", "--", "-f"],
        ["--store=-s", "--model", "m", "--entity=--", "--id=-"], ["--entity", "", "a"],
    ])
    func `the command has every option that was given`(arguments: [String]) throws {
        let line = SubmitCommandLine(try SubmitCommand.parse(arguments)).arguments
        let again = SubmitCommandLine(try SubmitCommand.parse(Array(line.dropFirst(2)))).arguments
        #expect(line == again)
        #expect(Set(line.dropFirst(2)) == Set(arguments))
    }

    @Test func `words are quoted for a shell`() throws {
        let words = ["plain", "", "two words", "it's", "a\nb", "é", "\u{1B}[2J'\\", "\u{9B}x", "$(id)", "*", "#"]
        #expect(words.shellText.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) })
        let programs = try Programs()
        let said = try programs.shell("bash -c " + ["printf '%s\\0' " + words.shellText].shellText)
        #expect(said.output == words.map { $0 + "\0" }.joined(), "\(words.shellText)")
    }
}
