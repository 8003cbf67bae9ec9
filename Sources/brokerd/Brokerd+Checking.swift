import BrokerCommandLine
import BrokerCoordinator
import BrokerModel
import BrokerSchema
import BrokerServer
import BrokerStaging
import BrokerStore
import Glibc

/// `--check`: reports what a start would do, or why it would fail. Changes nothing, and waits for no lock.
extension Brokerd {
    func checkStart() throws {
        for (name, hint) in ServerConfiguration.unknownVariables(Self.options) {
            Program.report("brokerd: \(name) is the variable of no option\(hint.isEmpty ? "." : hint)", .warning)
        }
        let plan = try ModelFile(model).planOrComplain()
        try Program.say("The model is valid: \(Self.entities(of: plan)).")
        var areUsable = [try sharing.log == nil ? checkStore(plan) : checkReplica(plan)]
        if areUsable[0], sharing.log == nil { areUsable.append(try checkJournal()) }
        areUsable += [try checkSocket(), checkMetricsFile()]
        guard !areUsable.contains(false) else { throw CommandFailure(.failed, "A start would fail.") }
        try Program.say("A start would succeed.")
    }

    /// Nil for a fault, which is reported, so that the others are found, too.
    private func reported<Value>(_ body: () throws(StoreError) -> Value) -> Value? {
        do throws(StoreError) {
            return try body()
        } catch {
            Program.report("brokerd: \(error.message)", .error)
            return nil
        }
    }

    private func checkStore(_ plan: StagingPlan) throws -> Bool {
        let found = reported { () throws(StoreError) in
            try Store.changesOfOpening(path: store, plan: plan, removal: removal)
        }
        guard let found else { return false }
        guard let changes = found else {
            try Program.say("The store \(store) would be made.")
            return true
        }
        let isRefused = changes.contains { $0.verdict == .refused }
        let end = isRefused ? "would not be opened" : changes.isEmpty ? "fits the model" : "would be migrated"
        try Program.say("The store \(store) \(end)\(changes.isEmpty ? "." : ":")")
        for change in changes { try Program.say("  \(change.verdict.rawValue): \(change.line)") }
        return !isRefused
    }

    /// The log itself is not asked.
    private func checkReplica(_ plan: StagingPlan) throws -> Bool {
        _ = try sharing.source()
        let found = reported { () throws(StoreError) in
            (try ReplicaFinding(store: store), try Store.fingerprintDigits(path: store, plan: plan))
        }
        guard let (finding, fingerprint) = found else { return false }
        let state =
            finding == .new
            ? "would be made, and begin as the log does" : "is a replica, and keeps the model of its log"
        try Program.say("The store \(store) \(state).")
        try Program.say("The fingerprint is \(fingerprint).")
        return true
    }

    private func checkJournal() throws -> Bool {
        let found = reported { () throws(StoreError) in try JournalFinding(store: store, isKept: self.journal) }
        guard let journal = found else { return false }
        switch (journal.state, self.journal) {
        case (.unused, _): break
        case (.new, _): try Program.say("The journal \(journal.path) would be made.")
        case (.present, true): try Program.say("The journal \(journal.path) is that of the store.")
        case (.present, false):
            try Program.say("The journal \(journal.path) would be deleted if the store has applied all its jobs.")
        case (.missing, let isKept):
            Program.report(
                "brokerd: The journal \(journal.path) of the store is missing: jobs in it that the store has not applied "
                    + "would be lost. \(isKept ? "A new one would be begun." : "The store would go on without one.")",
                .warning)
        }
        return true
    }

    private func checkMetricsFile() -> Bool {
        guard let path = observing.metricsFile, let cause = MetricsFile.obstacle(at: path, besideStore: store) else {
            return true
        }
        Program.report("brokerd: \(MetricsFile.failure(path, cause))", .error)
        return false
    }

    private func checkSocket() throws -> Bool {
        guard let socket else {
            try Program.say("There is no --socket: a service manager must pass one.")
            return true
        }
        let permissions = try access.socketAccess()
        let condition: SocketCondition
        do throws(ServerError) {
            condition = try BrokerServer.inspectSocket(socket, access: permissions)
        } catch {
            Program.report("brokerd: \(error.message)", .error)
            return false
        }
        switch condition {
        case .free: try Program.say("The socket \(socket) would be made.")
        case .stale: try Program.say("The socket \(socket) would be made again: no process listens on it.")
        case .served(let process):
            try Program.say("Process \(process) listens on \(socket) now: stop it first, or let it reload the model.")
        }
        return true
    }
}
