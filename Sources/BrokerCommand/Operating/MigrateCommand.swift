import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerCoordinator
import BrokerJSON
import BrokerModel
import BrokerSchema
import BrokerStore
import Logging

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

    /// - Parameter change: makes the changes, or only returns them.
    private func migrate(_ change: (_ isDryRun: Bool) async throws -> [StoreChange]) async throws {
        let planned = try await change(true)
        if !json { for line in planned.flatMap(\.lines) { try Program.say(line) } }
        let refused = planned.count { $0.verdict == .refused }
        if json, dryRun || refused > 0 { try StoreChange.write(planned, isMade: false) }
        guard refused == 0 else {
            throw CommandFailure(
                .failed,
                "Nothing \(dryRun ? "would be" : "was") changed: \(refused) of \(planned.count) changes "
                    + "\(refused == 1 ? "is" : "are") refused.")
        }
        guard !dryRun else {
            return json ? () : try Program.say(planned.isEmpty ? "The store fits the model." : "Nothing was changed.")
        }
        if try confirm(planned) {
            guard try await change(true).elementsEqual(planned, by: { $0.isSame(as: $1) }) else {
                throw CommandFailure(
                    .failed, "The model has changed since the question. Nothing was changed; run the command again.")
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
        let losses = changes.filter { $0.verdict == .dropped }.compactMap { change in
            change.loss.map { "\(change.subject) (\($0.text))" }
        }
        guard !losses.isEmpty, !yes else { return false }
        let list = losses.joined(separator: ", ")
        guard Confirmation.isPossible else {
            throw CommandFailure(
                .failed,
                "This drops \(list), and no terminal is there to ask. Give --yes to do it. Nothing was changed.")
        }
        guard Confirmation.agrees(to: "Drop \(list)?") else { throw CommandFailure(.failed, "Nothing was changed.") }
        return true
    }

    // MARK: - With a server

    private func changes(_ broker: BrokerClient, isDryRun: Bool) async throws -> [StoreChange] {
        do {
            let parts = RemovedParts(rawValue: removal.policy.rawValue)
            return try await broker.migrate(removedParts: parts, dryRun: isDryRun).changes.map(StoreChange.init)
        } catch let error as BrokerError where error.fault?.path == "/action" && error.code == .unsupportedMessage {
            // A server that does not know the action has not changed anything.
            throw CommandFailure(
                .failed,
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
        let logger = Logger.standardError(label: "broker", level: .warning)
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
                return try changes.mapError { CommandFailure(.failed, $0.message) }.get()
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
                StoreLoss.Kind(rawValue: loss.kind).map { StoreLoss($0, count: loss.count, examples: loss.examples) }
            })
    }

    fileprivate func isSame(as other: StoreChange) -> Bool { verdict == other.verdict && text == other.text }

    /// The change, and what is lost by it.
    var lines: [String] {
        let line = "\(verdict.rawValue): \(self.line)"
        guard let loss else { return [line] }
        let more = loss.count > Int64(loss.examples.count) ? "; …" : ""
        return [
            line,
            "  \(loss.text) \(verdict == .refused ? "would be lost by --drop" : loss.count == 1 ? "is lost" : "are lost"): "
                + "\(loss.examples.joined(separator: "; "))\(more)",
        ]
    }

    /// Writes changes as JSON, with whether a server would open the store.
    ///
    /// - Parameter isMade: whether they were made; nil where that is not asked.
    static func write(_ changes: [StoreChange], isMade: Bool? = nil) throws(CommandFailure) {
        try Program.writeObject { writer in
            writer.member("opens", !changes.contains { $0.verdict == .refused })
            if let isMade { writer.member("migrated", isMade) }
            writer.array("changes") { writer in
                for change in changes { change.write(to: &writer) }
            }
        }
    }
}

extension StoreLoss {
    /// The count and the kind.
    var text: String { "\(count) \(count == 1 ? String(kind.rawValue.dropLast()) : kind.rawValue)" }
}
