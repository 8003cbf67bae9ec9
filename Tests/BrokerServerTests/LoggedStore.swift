import BrokerCoordinator
import BrokerJournal
@testable import BrokerServer
import BrokerStaging
import BrokerStore
import Foundation
import Logging
import Synchronization
import TestSupport

/// The files of a store and its journal, to which no server has access but while ``apply(_:killedAfter:)`` runs.
struct LoggedStore {
    struct Configuration {
        var workers = 2
        var jobs = CoordinatorLimits(workers: 1).jobs
        var walPages = 2_048
        /// Units of work that one job may take; nil for the default.
        var jobWork: Int?
        /// Those of the start; nil for the store's first ones.
        var plan: StagingPlan?
        var limits: LoggedLimits?

        /// The start wants what the last changes among the entries make.
        mutating func wants(_ entries: some Sequence<LoggedJob>) {
            (plan, limits) = (nil, nil)
            for entry in entries {
                switch entry.change {
                case .model(let plan): self.plan = plan
                case .limits(let limits): self.limits = limits
                case nil: break
                }
            }
        }
    }

    private let folder = TemporaryFolder()
    private let plan: StagingPlan
    private var path: String { folder.path("store.sqlite") }

    /// - Throws: when the store cannot be made.
    init(_ plan: StagingPlan) throws { self.plan = plan }

    /// All files as they are.
    func copy() throws -> LoggedStore {
        let copy = try LoggedStore(plan)
        try Self.copy(from: folder, to: copy.folder)
        return copy
    }

    private static func copy(from: TemporaryFolder, to: TemporaryFolder) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: from.path("")) where !name.hasSuffix("-shm") {
            try FileManager.default.copyItem(atPath: from.path(name), toPath: to.path(name))
        }
    }

    /// The store becomes that of an earlier copy; the journal stays.
    func putBack(to earlier: LoggedStore) throws {
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: path + suffix)
            guard suffix != "-shm", FileManager.default.fileExists(atPath: earlier.path + suffix) else { continue }
            try FileManager.default.copyItem(atPath: earlier.path + suffix, toPath: path + suffix)
        }
    }

    /// Appends jobs to the journal, as a server that accepted them and was killed has.
    func append(_ jobs: [LoggedJob]) throws {
        guard let first = jobs.first else { return }
        let identity = try SQLRows.of("SELECT value FROM _broker_meta WHERE key = 'log'", in: path)
        let journal = try Journal(
            path: path + ".journal", expected: JournalIdentity(identity[0]), applied: first.position - 1,
            idOfApplied: nil, mode: 0o600, system: PosixSystem())
        try journal.append(jobs.map { try $0.entry() })
    }

    /// Starts a server, which applies what the journal has, and stops it.
    ///
    /// - Parameter turns: the server is killed when its writer has gone round so often, or at the end.
    /// - Returns: the files of the killed server.
    @discardableResult
    func apply(_ configuration: Configuration, killedAfter turns: Int? = nil) throws -> LoggedStore? {
        var limits = CoordinatorLimits(workers: configuration.workers)
        limits.jobs = configuration.jobs
        if let memory = configuration.limits?.mergeMemory { limits.jobMemory = memory }
        var options = CoordinatorOptions(storePath: path, limits: limits)
        options.keepsJournal = true
        options.store.synchronous = .off
        options.store.walPages = configuration.walPages
        options.store.removal = .keep
        if let work = configuration.jobWork { options.store.jobWork = work }
        configuration.limits?.set(in: &options.store)
        let logger = Logger(label: "test") { _ in RecordedLog() }
        let coordinator = try Coordinator(plan: configuration.plan ?? plan, options: options, logger: logger)
        let server = ServerOptions(socketPath: nil)
        let codecs = FrameCodecs(limits: server.frameLimits, answers: server.answerLimits)
        let messages = MessageHandler(coordinator, codecs, server, ServerLog(logger), HandlerCount())
        let killed = try turns.map { _ in try LoggedStore(plan) }
        let (copied, failure) = (DispatchSemaphore(value: 0), CopyFailure())
        if let turns, let killed {
            let folder = folder
            Self.after(turns, of: coordinator) {
                do { try Self.copy(from: folder, to: killed.folder) } catch { failure.set(error) }
                copied.signal()
            }
        }
        try coordinator.start(logger) { payload, logged, memory in
            payload.withUnsafeBytes { messages.reopen($0, logged, memory) }
        }
        if killed != nil { copied.wait() }
        coordinator.stop()
        if let error = failure.error { throw error }
        return killed
    }

    /// Calls the body on the writer's thread, where the files belong together.
    private static func after(_ turns: Int, of coordinator: Coordinator, _ body: @escaping @Sendable () -> Void) {
        coordinator.history { _ in turns > 1 ? after(turns - 1, of: coordinator, body) : body() }
    }

    private final class CopyFailure: Sendable {
        private let first = Mutex<(any Error)?>(nil)

        var error: (any Error)? { first.withLock { $0 } }
        func set(_ error: any Error) { first.withLock { $0 = error } }
    }

    // MARK: - Contents

    /// All rows.
    struct Contents {
        fileprivate var tables: [String: [String]] = [:]

        /// The stored outcomes that have that text.
        func outcomes(with text: String) -> Int { tables["_broker_jobs"]?.count { $0.contains(text) } ?? 0 }

        func difference(from other: Contents) -> String? {
            for table in Set(tables.keys).union(other.tables.keys).sorted() where tables[table] != other.tables[table] {
                let (own, others) = (tables[table] ?? [], other.tables[table] ?? [])
                return
                    "\(table) has \(own.filter { !others.contains($0) }), should have \(others.filter { !own.contains($0) })"
            }
            return nil
        }
    }

    func contents() throws -> Contents {
        var contents = Contents()
        let names = try SQLRows.of("SELECT name FROM sqlite_schema WHERE type = 'table'", in: path)
        for name in names {
            let columns = try SQLRows.of("SELECT name FROM pragma_table_info('\(name)')", in: path)
            let list = columns.map { "quote(\"\($0)\")" }.joined(separator: ", ")
            contents.tables[name] = try SQLRows.of("SELECT \(list) FROM \"\(name)\" ORDER BY \(list)", in: path)
        }
        contents.tables["sqlite_schema"] = try SQLRows.of(
            "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2", in: path)
        // A server reserves sequences at its start, of which it uses none where a journal assigns them.
        contents.tables["_broker_meta"]?.removeAll { $0.hasPrefix("'reservedSequence'|") }
        let lines = try SQLRows.of("SELECT CAST(keys AS TEXT) FROM _broker_feed ORDER BY sequence", in: path)
        // It has one row for each COMMIT, with the lines of its jobs; which jobs share a COMMIT is the server's own. The row goes
        // when the outcomes of all its jobs have expired.
        let first = try Int(SQLRows.of("SELECT ifnull(min(sequence), 0) FROM _broker_jobs", in: path)[0])!
        contents.tables["_broker_feed"] = lines.joined().split(separator: "\n").map(String.init)
            .filter { Int($0.prefix { $0 != " " })! >= first }
        return contents
    }
}
