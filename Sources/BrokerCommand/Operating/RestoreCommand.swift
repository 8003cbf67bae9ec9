import ArgumentParser
import BrokerCommandLine
import BrokerCoordinator
import BrokerJSON
import BrokerStore
import Glibc

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Puts a backup in the place of a store that no server has open.",
        discussion: """
            Says which jobs are forgotten: those after the backup. Clients that send them again have them applied once \
            more; followers of the feed begin again. The replaced store and its journal get other names beside it, and \
            are not deleted. The backup is checked first, and stays where it is.
            """)

    @Option(help: ArgumentHelp("The SQLite database that is replaced.", valueName: "file"), completion: .file())
    var store: String

    @Flag(help: "Only say what would be forgotten.")
    var dryRun = false

    @Flag(help: "Do not ask. (A script is never asked.)")
    var yes = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    @Argument(help: "The backup.", completion: .file())
    var backup: String

    func run() async throws {
        guard access(backup, F_OK) == 0 || errno != ENOENT else {
            throw CommandFailure(.failed, "There is no backup \(backup). Check the path.")
        }
        let restore = StoreRestore(of: backup, to: store, time: Timestamp.now.fileNamePart)
        do {
            let survey = try restore.survey()
            let accepted = AcceptedJobs(of: store, survey)
            if dryRun { return try report(survey, accepted, replacedPath: nil) }
            if let question = Self.question(survey, accepted), !yes, Confirmation.isPossible,
                !Confirmation.agrees(to: question)
            {
                throw CommandFailure(.failed, "Nothing was restored.")
            }
            let outcome = try restore.run()
            try report(outcome.survey, accepted, replacedPath: outcome.replacedPath)
        } catch let error as StoreError {
            throw CommandFailure(.failed, error.message)
        }
    }

    /// Jobs that were accepted, and that only the journal of the replaced store has.
    private struct AcceptedJobs {
        /// Nil when they are unknown.
        var count: Int? = 0
        /// Why they are unknown.
        var fault: String?

        init(of store: String, _ survey: StoreRestore.Survey) {
            guard survey.hasJournal else { return }
            do throws(StoreError) {
                count = try JournalFinding.pendingJobs(store: store)
            } catch {
                (count, fault) = (nil, error.message)
            }
        }
    }

    /// Nil when nothing is forgotten.
    private static func question(_ survey: StoreRestore.Survey, _ accepted: AcceptedJobs) -> String? {
        guard let replaced = survey.replaced else { return nil }
        if replaced.fault != nil { return "Replace a store that cannot be read?" }
        guard let waiting = accepted.count else { return "Replace a store whose journal cannot be read?" }
        let jobs = replaced.forgottenJobs + Int64(waiting)
        return jobs > 0 ? "Forget \(count(jobs, "job"))?" : nil
    }

    private func report(
        _ survey: StoreRestore.Survey, _ accepted: AcceptedJobs, replacedPath: String?
    ) throws(CommandFailure) {
        guard json else {
            for line in lines(survey, accepted, replacedPath) { try Program.say(line) }
            return
        }
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("store", store)
            writer.member("backup", backup)
            writer.key("restored")
            writer.bool(!dryRun)
            writer.key("sequence")
            writer.integer(survey.sequence)
            if let replaced = survey.replaced {
                writer.key("forgottenJobs")
                if replaced.fault == nil { writer.integer(replaced.forgottenJobs) } else { writer.null() }
                writer.key("newestForgottenIDs")
                writer.array { writer in
                    for id in replaced.forgottenIDs { writer.string(id) }
                }
                if let fault = replaced.fault { writer.member("fault", fault) }
            }
            writer.key("journal")
            writer.bool(survey.hasJournal)
            writer.key("forgottenAcceptedJobs")
            if let count = accepted.count { writer.integer(count) } else { writer.null() }
            if let replacedPath { writer.member("replaced", replacedPath) }
        }
        try Program.write(String(decoding: writer.bytes, as: UTF8.self))
    }

    private func lines(
        _ survey: StoreRestore.Survey, _ accepted: AcceptedJobs, _ replacedPath: String?
    ) -> [String] {
        let time = survey.newestTime.map { ", the newest of \(Timestamp(seconds: Int($0 / 1_000)).text)" } ?? ""
        var lines = ["\(store) \(dryRun ? "would have" : "has") every job up to \(survey.sequence)\(time)"]
        guard let replaced = survey.replaced else { return lines }
        let forgotten = dryRun ? "would be forgotten" : "forgotten"
        if let fault = replaced.fault {
            lines.append("\(forgotten): unknown, because the replaced store cannot be read: \(fault)")
        } else {
            let ids = replaced.forgottenIDs
            let more = replaced.forgottenJobs > Int64(ids.count) ? ", …" : ""
            let list = ids.isEmpty ? "" : " (newest ids: \(ids.joined(separator: ", "))\(more))"
            lines.append("\(forgotten): \(Self.count(replaced.forgottenJobs, "job"))\(list)")
        }
        if let fault = accepted.fault {
            lines.append("\(forgotten): unknown accepted jobs, because the journal cannot be read: \(fault)")
        } else if let count = accepted.count, count > 0 {
            lines.append(
                "\(forgotten): \(Self.count(Int64(count), "accepted job")) in the journal that the store has not applied"
            )
        }
        if let replacedPath { lines.append("the replaced store is \(replacedPath)") }
        return lines
    }

    private static func count(_ number: Int64, _ noun: String) -> String {
        "\(number) \(noun)\(number == 1 ? "" : "s")"
    }
}
