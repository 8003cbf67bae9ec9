import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore
import CSQLite
import Foundation
import Logging

@testable import BrokerCoordinator

/// A coordinator over a store in a folder of its own, and everything that it tells; stopped when this object goes.
///
/// A job is an object of entity names and their `json`, in payload order.
final class TestCoordinator: Sendable {
    let coordinator: Coordinator
    let events = Events()
    private let folder: TemporaryFolder

    init(
        _ model: String, in folder: TemporaryFolder = TemporaryFolder(),
        _ configure: (inout CoordinatorOptions) -> Void = { _ in }
    ) throws {
        self.folder = folder
        var options = CoordinatorOptions(storePath: folder.path("store.sqlite"), limits: CoordinatorLimits(workers: 3))
        // What survives a loss of power is not tested here, and costs the most.
        options.store.synchronous = .off
        configure(&options)
        let plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(model.utf8))))
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        coordinator = try Coordinator(plan: plan, options: options, logger: logger)
    }

    deinit { coordinator.stop() }

    /// Admits a job; what happens to it is told to ``events``.
    ///
    /// - Parameter gate: opened before the job is: until then its place is taken, and nobody knows what it holds.
    func submit(
        _ payload: String, id: String? = nil, _ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = false,
        wantsAcceptance: Bool = false, behind gate: Gate? = nil
    ) {
        let text = JSONText(copying: Array(payload.utf8))
        let events = events
        coordinator.admit(payloadBytes: text.count) {
            gate?.pass()
            let document: JSONDocument
            do {
                document = try JSONDocument(parsing: text)
            } catch {
                return .nothing
            }
            let operations = withExtendedLifetime(document) {
                document.root.members.map { key, value in
                    Job.Operation(entity: key.string!, json: value, entityPointer: "/\(key.string!)")
                }
            }
            return .job(
                Job(
                    id: id, document: document, operations: operations, policy: policy, wantsKeys: wantsKeys,
                    wantsAcceptance: wantsAcceptance, content: text, observer: { events.note($0) }))
        }
    }

    /// Waits for the answer about the job.
    func await(_ id: String) -> Awaited { startAwaiting(id).wait { $0 } }

    /// Asks for the end of the job; what comes back holds the answer when there is one.
    func startAwaiting(_ id: String) -> Monitor<Awaited?> {
        let awaited = Monitor<Awaited?>(nil)
        coordinator.await(id) { result in
            awaited.broadcast {
                $0 = Awaited(result)
                return true
            }
        }
        return awaited
    }

    /// The members of `stats`.
    var statistics: String {
        var writer = JSONWriter()
        coordinator.writeStatistics(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Waits until ``statistics`` hold that text.
    func waitUntil(_ text: String) {
        while !statistics.contains(text) { sched_yield() }
    }

    /// The rows that a reader of the file sees, columns with `|` between them.
    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: folder.path("store.sqlite")) }
}

/// What was told of jobs, in the order of telling. Any thread may note and wait.
final class Events: Sendable {
    private let events = Monitor<[JobEvent]>([])

    func note(_ event: JobEvent) {
        events.broadcast {
            $0.append(event)
            return true
        }
    }

    /// Waits until so many jobs have ended, and gives back all ends.
    func ends(_ count: Int) -> [Ending] {
        events.wait { events in
            let ends = events.compactMap { if case .ended(let ending) = $0 { Ending(ending) } else { nil } }
            return ends.count >= count ? ends : nil
        }
    }

    /// `accepted a 1`, `ended a 1`: everything so far.
    var all: [String] {
        events.withLock { events in
            events.map { event in
                switch event {
                case .accepted(let id, let sequence): "accepted \(id) \(sequence)"
                case .ended(let ending): "ended \(ending.id) \(ending.sequence.map(String.init) ?? "-")"
                }
            }
        }
    }
}

/// How a job ended, as its client would read it.
struct Ending: Equatable {
    let id: String
    let sequence: Int64?
    let isDuplicate: Bool
    /// The code of the fault of a failed job.
    let code: String?
    /// The JSON members of `completed`, or the `error` object.
    let body: String

    init(_ ending: JobEnding) {
        id = ending.id
        sequence = ending.sequence
        switch ending.result {
        case .completed(let members, let isDuplicate):
            self.isDuplicate = isDuplicate
            code = nil
            body = String(decoding: members, as: UTF8.self)
        case .failed(let error):
            isDuplicate = false
            body = String(decoding: error, as: UTF8.self)
            code = body.split(separator: "\"").dropFirst(3).first.map(String.init)
        }
    }
}

enum Awaited: Equatable {
    case unknown
    case ended(Ending)
    case failed

    init(_ result: Result<JobEnding?, StoreError>) {
        switch result {
        case .success(let ending): self = ending.map { .ended(Ending($0)) } ?? .unknown
        case .failure: self = .failed
        }
    }

    var ending: Ending? {
        if case .ended(let ending) = self { ending } else { nil }
    }
}

/// Holds threads back until it is opened.
final class Gate: Sendable {
    private let isOpen = Monitor(false)

    func open() {
        isOpen.broadcast {
            $0 = true
            return true
        }
    }

    func pass() { isOpen.wait { $0 ? () : nil } }
}

enum SQLRows {
    struct Failure: Error {
        let message: String
    }

    static func of(_ sql: String, in path: String) throws -> [String] {
        var database: OpaquePointer?
        defer { sqlite3_close_v2(database) }
        var statement: OpaquePointer?
        guard sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, nil) == SQLITE_OK,
            sqlite3_prepare_v2(database, sql, -1, &statement, nil) == SQLITE_OK
        else { throw Failure(message: String(cString: sqlite3_errmsg(database))) }
        defer { sqlite3_finalize(statement) }
        var rows: [String] = []
        while sqlite3_step(statement) == SQLITE_ROW {
            let columns = (0..<sqlite3_column_count(statement)).map { column in
                sqlite3_column_text(statement, column).map { String(cString: $0) } ?? "NULL"
            }
            rows.append(columns.joined(separator: "|"))
        }
        return rows
    }
}

/// A folder of the test's own, removed with this object.
final class TemporaryFolder: Sendable {
    private let location = FileManager.default.temporaryDirectory.appending(path: "broker-\(UUID().uuidString)")

    init() {
        do {
            try FileManager.default.createDirectory(at: location, withIntermediateDirectories: true)
        } catch {
            preconditionFailure("no folder for a test: \(error)")
        }
    }

    deinit {
        do {
            try FileManager.default.removeItem(at: location)
        } catch {
            preconditionFailure("a test's folder stays behind: \(error)")
        }
    }

    func path(_ name: String) -> String { location.appending(path: name).path }
}

/// A generator that a printed seed repeats (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(for name: String, seed: UInt64 = UInt64.random(in: 0...UInt64.max)) {
        print("\(name): seed \(seed)")
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
