import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerCoordinator
import BrokerJSON
import BrokerModel
import BrokerSchema
import BrokerStore
import Foundation
import Logging

struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copies the store to a file while the server runs; only its own user and root may.",
        discussion: """
            The server makes the copy, so the file must be where the server may write. The copy contains every job up \
            to the printed sequence, and none after it; it is an ordinary store, for another brokerd or any tool. \
            `broker restore` puts it in a store's place.

            For a daily backup: broker backup --keep 7 --verify /var/backups/broker/company.sqlite
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Replace an existing file.")
    var replace = false

    @Option(
        help: ArgumentHelp(
            """
            Put the time into the file's name (company-20261125T213000Z.sqlite), and delete the oldest such files until \
            so many are left, when the copy is complete.
            """, valueName: "count"))
    var keep: Int?

    @Flag(
        help: """
            Read the whole copy again and check its structure and links. A damaged copy is renamed to FILE.damaged, no \
            older one is deleted, and the status is 1.
            """)
    var verify = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    @Argument(help: "The copy.", completion: .file())
    var file: String

    mutating func validate() throws {
        guard !file.isEmpty else { throw ValidationError("The file has no name.") }
        if let keep {
            try checkRange("--keep", keep, in: 1...1_000_000)
            guard !replace else {
                throw ValidationError("--keep gives each copy a name of its own, so --replace does not apply.")
            }
        }
    }

    func run() async throws {
        // The server runs in another folder.
        let series = BackupSeries(Program.absolutePath(file))
        let path = keep == nil ? Program.absolutePath(file) : series.file(of: Timestamp.now.fileNamePart)
        let copy = try await connection.connected("broker backup") {
            try await $0.backUp(to: path, replacing: replace)
        }
        if verify { try Self.verify(path) }
        let deleted = try keep.map { try series.prune(keeping: $0) } ?? []
        guard json else {
            try Program.say(
                "\(path): \(copy.byteCount) bytes, every job up to \(copy.sequence)\(verify ? ", verified" : "")")
            for file in deleted { try Program.say("\(file): deleted") }
            return
        }
        try Program.writeObject { writer in
            writer.member("file", path)
            writer.member("sequence", copy.sequence)
            writer.member("bytes", copy.byteCount)
            writer.member("verified", verify)
            writer.strings("deleted", deleted)
        }
    }

    /// - Throws: when the copy is damaged; it has another name then.
    private static func verify(_ path: String) throws {
        let faults: [String]
        do {
            faults = try StoreVerification.faults(of: path)
        } catch {
            throw CommandFailure("The copy \(path) cannot be verified. \(error.message)")
        }
        guard !faults.isEmpty else { return }
        let isRenamed = rename(path, path + ".damaged") == 0
        throw CommandFailure(
            "The copy \(isRenamed ? path + ".damaged" : path) is damaged, and older backups stay: "
                + "\(faults.joined(separator: "; ")). Check the disk and the store, then make another copy.")
    }
}

/// Backups of one store over time, in one folder: `company-20261125T213000Z.sqlite` for the file `company.sqlite`.
struct BackupSeries {
    private let folder: URL
    /// `company` and `.sqlite`.
    private let stem: String
    private let ending: String

    init(_ file: String) {
        let url = URL(filePath: file, directoryHint: .notDirectory)
        folder = url.deletingLastPathComponent()
        stem = url.deletingPathExtension().lastPathComponent
        ending = String(url.lastPathComponent.dropFirst(stem.count))
    }

    func file(of time: String) -> String { path("\(stem)-\(time)\(ending)") }

    /// Deletes the oldest files of the series.
    func prune(keeping count: Int) throws -> [String] {
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter(isMember)
        // Names sort by their times.
        let old = files.sorted().dropLast(count).map(path)
        for file in old where unlink(file) != 0 {
            throw CommandFailure(
                "The old backup \(file) cannot be deleted: \(String(cString: strerror(errno))). Delete it by hand; the new "
                    + "backup is complete.")
        }
        return old
    }

    private func path(_ name: String) -> String { folder.appending(path: name).path }

    private func isMember(_ name: String) -> Bool {
        guard name.hasPrefix("\(stem)-"), name.hasSuffix(ending) else { return false }
        return Timestamp.isFileNamePart(name.dropFirst(stem.count + 1).dropLast(ending.count))
    }
}

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Puts a backup in the place of a store that no server has open.",
        discussion: """
            Says which jobs are forgotten: those after the backup. Clients that send them again have them applied once \
            more; followers of the feed begin again. The replaced store and its journal get other names beside it, and \
            are not deleted. The backup is checked first, and stays where it is.

            With --to, Litestream brings the store back as it was at that time, from a continuous copy:
            broker restore --store /var/lib/broker/store.sqlite --to 2026-11-25T14:03:00Z
            """)

    @Option(help: .value("file", "The SQLite database that is replaced."), completion: .file())
    var store: String

    @Option(
        help: ArgumentHelp(
            "Restore a continuous copy as of this time, in ISO 8601: 2026-11-25T14:03:00Z.", valueName: "time"),
        transform: {
            guard let time = try? Date($0, strategy: .iso8601) else {
                throw ValidationError("--to is a time in ISO 8601, such as 2026-11-25T14:03:00Z, and not \($0).")
            }
            return time
        })
    var to: Date?

    @Flag(help: "Only say what would be forgotten.")
    var dryRun = false

    @Flag(help: "Do not ask. (A script is never asked.)")
    var yes = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    @Argument(
        help: """
            The backup. With --to, where the continuous copy is: a URL, such as file:///mnt/backup/store, or a configuration of \
            Litestream, which names the store; \(ContinuousCopy.configuration) if none is given.
            """, completion: .file())
    var backup: String?

    mutating func validate() throws {
        if backup == nil, to == nil {
            throw ValidationError("The backup is missing: give its file, or --to and a time for a continuous copy.")
        }
    }

    func run() async throws {
        guard let to else { return try restore(backup ?? "") }
        let path = Program.absolutePath(store)
        if !dryRun { try StoreRestore.refuseOpen(path) }
        try ContinuousCopy(in: backup ?? ContinuousCopy.configuration, of: path).restored(at: to, restore)
        guard !dryRun, !json else { return }
        try Program.say("give the copies of this store another place (litestream.yml) before Litestream starts again")
    }

    private func restore(_ backup: String) throws {
        guard access(backup, F_OK) == 0 || errno != ENOENT else {
            throw CommandFailure("There is no backup \(backup). Check the path.")
        }
        let restore = StoreRestore(of: backup, to: store, time: Timestamp.now.fileNamePart)
        let survey = try restore.survey()
        // Jobs that were accepted, and that only the journal of the replaced store has.
        let accepted = Result { () throws(StoreError) in
            survey.hasJournal ? try JournalFinding.pendingJobs(store: store) : 0
        }
        if dryRun { return try report(survey, accepted, replacedPath: nil) }
        if let question = Self.question(survey, accepted), !yes, Confirmation.isPossible,
            !Confirmation.agrees(to: question)
        {
            throw CommandFailure("Nothing was restored.")
        }
        let outcome = try restore.run()
        try report(outcome.survey, accepted, replacedPath: outcome.replacedPath)
    }

    /// Nil when nothing is forgotten.
    private static func question(_ survey: StoreRestore.Survey, _ accepted: Result<Int, StoreError>) -> String? {
        guard let replaced = survey.replaced else { return nil }
        if replaced.fault != nil { return "Replace a store that cannot be read?" }
        guard case .success(let waiting) = accepted else { return "Replace a store whose journal cannot be read?" }
        let jobs = replaced.forgottenJobs + Int64(waiting)
        return jobs > 0 ? "Forget \(Program.counted(Int(jobs), "job"))?" : nil
    }

    private func report(
        _ survey: StoreRestore.Survey, _ accepted: Result<Int, StoreError>, replacedPath: String?
    ) throws {
        guard json else {
            for line in lines(survey, accepted, replacedPath) { try Program.say(line) }
            return
        }
        try Program.writeObject { writer in
            writer.member("store", store)
            writer.member("backup", backup ?? ContinuousCopy.configuration)
            if let to { writer.member("to", to.formatted(.iso8601)) }
            writer.member("restored", !dryRun)
            writer.member("sequence", survey.sequence)
            if let replaced = survey.replaced {
                writer.nullable("forgottenJobs", replaced.fault == nil ? Int(replaced.forgottenJobs) : nil)
                writer.strings("newestForgottenIDs", replaced.forgottenIDs)
                if let fault = replaced.fault { writer.member("fault", fault) }
            }
            writer.member("journal", survey.hasJournal)
            writer.nullable("forgottenAcceptedJobs", try? accepted.get())
            if let replacedPath { writer.member("replaced", replacedPath) }
        }
    }

    private func lines(
        _ survey: StoreRestore.Survey, _ accepted: Result<Int, StoreError>, _ replacedPath: String?
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
            lines.append("\(forgotten): \(Program.counted(Int(replaced.forgottenJobs), "job"))\(list)")
        }
        switch accepted {
        case .failure(let error):
            lines.append("\(forgotten): unknown accepted jobs, because the journal cannot be read: \(error.message)")
        case .success(0): break
        case .success(let count):
            let jobs = Program.counted(count, "accepted job")
            lines.append("\(forgotten): \(jobs) in the journal that the store has not applied")
        }
        if let replacedPath { lines.append("the replaced store is \(replacedPath)") }
        if survey.hasOtherModel {
            lines.append(
                "its model is another one than that of the replaced store: see `broker model diff` before a start")
        }
        return lines
    }
}

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Changes a store to a changed model, also where something is lost by that.",
        discussion: """
            The server reads the files of its model again, as with `broker admin reload`; only its own user and root may \
            ask for that. With --store, the store of a server that is stopped is changed.

            Prints a line for each change: `migrated` (nothing is lost), `kept` (it stays in the file, unused), `dropped`, \
            or `refused`, with the remedy; then what is lost by it, with up to ten examples. If anything is refused, \
            nothing is changed, and the status is 1. --keep and --drop hold for this time alone; they take the place of \
            --migrate, which is for the other commands.
            """)

    @OptionGroup var connection: ConnectionOptions

    @OptionGroup var removal: RemovalOptions

    @Flag(help: "Only say what would be changed.")
    var dryRun = false

    @Flag(help: "Do not ask before something is lost. Where no terminal is, this is required for that.")
    var yes = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    mutating func validate() throws {
        guard connection.removal == nil else {
            throw ValidationError("`broker migrate` has --keep and --drop instead of --migrate; give one of them.")
        }
    }

    func run() async throws {
        if let store = connection.store { return try await migrate(store) }
        try await connection.connected("broker migrate") { broker in
            try await migrate { isDryRun in try await changes(broker, isDryRun: isDryRun) }
        }
    }

    private func migrate(_ change: (_ isDryRun: Bool) async throws -> [StoreChange]) async throws {
        let planned = try await change(true)
        if !json { for line in planned.flatMap(\.lines) { try Program.say(line) } }
        let refused = planned.count { $0.verdict == .refused }
        if json, dryRun || refused > 0 { try StoreChange.write(planned, isMade: false) }
        guard refused == 0 else {
            throw CommandFailure(
                "Nothing \(dryRun ? "would be" : "was") changed: \(refused) of \(planned.count) changes "
                    + "\(refused == 1 ? "is" : "are") refused.")
        }
        guard !dryRun else {
            return json ? () : try Program.say(planned.isEmpty ? "The store fits the model." : "Nothing was changed.")
        }
        if try confirm(planned) {
            guard try await change(true).elementsEqual(planned, by: { $0.isSame(as: $1) }) else {
                throw CommandFailure(
                    "The model has changed since the question. Nothing was changed; run the command again.")
            }
        }
        let made = try await change(false).map { made in
            var made = made
            made.loss = planned.first { $0.isSame(as: made) }?.loss
            return made
        }
        if json { return try StoreChange.write(made, isMade: true) }
        // The model or the store may have changed since.
        for change in made where !planned.contains(where: change.isSame) { try Program.say(change.lines[0]) }
        try Program.say(
            made.isEmpty
                ? "The model is in effect, and the store needed no change."
                : "The store fits the model now: \(made.count) change\(made.count == 1 ? "" : "s").")
    }

    /// Asks before something is lost.
    ///
    /// - Returns: whether it asked, which may have taken long.
    private func confirm(_ changes: [StoreChange]) throws(CommandFailure) -> Bool {
        func list(_ verdict: StoreChange.Verdict, _ beginning: String) -> String? {
            let losses = changes.filter { $0.verdict == verdict }.compactMap { change in
                change.loss.map { "\(change.subject) (\($0.text))" }
            }
            return losses.isEmpty ? nil : "\(beginning) \(losses.joined(separator: ", "))"
        }
        let losses = [list(.dropped, "Drop"), list(.migrated, "Put into _extra")].compactMap { $0 }
        guard !losses.isEmpty, !yes else { return false }
        let question = "\(losses.joined(separator: "; "))?"
        guard Confirmation.isPossible else {
            throw CommandFailure("\(question) No terminal is there to ask. Give --yes to do it. Nothing was changed.")
        }
        guard Confirmation.agrees(to: question) else { throw CommandFailure("Nothing was changed.") }
        return true
    }

    // MARK: - With a server

    private func changes(_ broker: RemoteBroker, isDryRun: Bool) async throws -> [StoreChange] {
        do {
            let migration =
                if let choice = removal.choice {
                    try await broker.migrate(removedParts: RemovedParts(rawValue: choice.rawValue), dryRun: isDryRun)
                } else {
                    try await broker.migrate(keeping: removal.keep, dropping: removal.drop, dryRun: isDryRun)
                }
            return migration.changes.map(StoreChange.init)
        } catch let error as BrokerError where error.fault?.path == "/action" && error.code == .unsupportedMessage {
            // A server that does not know the action has not changed anything.
            throw CommandFailure(
                "The server is older than this command, and does not know `migrate`. Nothing was changed. Install the "
                    + "newer brokerd; or stop the server, and give --store and --model.")
        }
    }

    // MARK: - Without a server

    private func migrate(_ store: String) async throws {
        let plan = try connection.model(of: store).plan()
        if dryRun {
            return try await migrate { _ in
                try Store.changes(path: store, plan: plan, removal: removal.policy)
            }
        }
        let logger = Logger.standardError(label: "broker", level: LogLevel(.warning))
        let owned = try OwnedStore.unchanged(path: store, logger: logger)
        let result = await Result {
            try await migrate { isDryRun in
                let policy = removal.policy
                let changes: Result<[StoreChange], Fault> = await withCheckedContinuation { continuation in
                    guard !isDryRun else {
                        return owned.coordinator.compare(removal: policy, reading: { .success(plan) }) {
                            continuation.resume(returning: $0)
                        }
                    }
                    owned.coordinator.reload(removal: policy, reading: { .success(plan) }) { result in
                        continuation.resume(returning: result.map(\.changes))
                    }
                }
                return try changes.mapError { CommandFailure($0.message) }.get()
            }
        }
        await owned.stop()
        try result.get()
    }
}

extension StoreChange {
    fileprivate init(_ change: ModelMigration.Change) {
        self.init(
            Verdict(rawValue: change.kind.rawValue) ?? .refused, change.subject, change.message, remedy: change.remedy,
            loss: change.loss.flatMap { loss in
                StoreLoss.Kind(rawValue: loss.kind.rawValue).map {
                    StoreLoss($0, count: loss.count, examples: loss.examples)
                }
            })
    }

    fileprivate func isSame(as other: StoreChange) -> Bool { verdict == other.verdict && text == other.text }

    /// The change, and what is lost by it.
    var lines: [String] {
        let line = "\(verdict.rawValue): \(self.line)"
        guard let loss else { return [line] }
        let more = loss.count > Int64(loss.examples.count) ? "; …" : ""
        let isOne = loss.count == 1
        let fate =
            switch verdict {
            case .refused: "would be lost by --drop"
            case .migrated: isOne ? "goes to _extra" : "go to _extra"
            default: isOne ? "is lost" : "are lost"
            }
        return [line, "  \(loss.text) \(fate): \(loss.examples.joined(separator: "; "))\(more)"]
    }

    /// Writes changes as JSON, with whether a server would open the store.
    static func write(_ changes: [StoreChange], isMade: Bool? = nil) throws(CommandFailure) {
        try Program.writeObject { writer in
            writer.member("opens", !changes.contains { $0.verdict == .refused })
            if let isMade { writer.member("migrated", isMade) }
            writer.array("changes", of: changes) { $0.write(to: &$1) }
        }
    }
}

extension StoreLoss {
    /// The count and the kind.
    var text: String { "\(count) \(count == 1 ? String(kind.rawValue.dropLast()) : kind.rawValue)" }
}
