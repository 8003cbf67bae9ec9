import BrokerFastJSON
import BrokerJSON
import BrokerJournal
import BrokerModel
import BrokerSchema
import BrokerStaging
import BrokerStore
import Foundation
import Glibc
import Logging
import TestSupport

@testable import BrokerCoordinator

/// A coordinator for a store in a folder of its own, with all its events; stopped when this object is released.
///
/// A job is an object of entity names and their `json`, in payload order.
final class TestCoordinator: Sendable {
    let coordinator: Coordinator
    let events = Events()
    let log = LogLines()
    private let folder: TemporaryFolder

    init(
        _ model: String = Models.rows, in folder: TemporaryFolder = TemporaryFolder(),
        _ configure: (inout CoordinatorOptions) -> Void = { _ in }
    ) throws {
        self.folder = folder
        var options = CoordinatorOptions(storePath: folder.path("store.sqlite"), limits: CoordinatorLimits(workers: 3))
        // Power failures are not tested here, and syncing costs the most.
        options.store.synchronous = .off
        configure(&options)
        let plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(model.utf8))))
        let log = log
        let logger = Logger(label: "test") { _ in log }
        coordinator = try Coordinator(plan: plan, options: options, logger: logger)
        let events = events
        try coordinator.start(logger) { logged, memory in
            // The log has the payload alone; of jobs that are not `process`, the id says what they do.
            let predicate = logged.id.hasPrefix("delete-") ? "TRUEPREDICATE" : nil
            let opened = Self.opened(
                JSONText(copying: logged.payload), memory, logged.isIDMade ? nil : logged.id, logged.owner, .fail,
                predicate,
                isSync: logged.id.hasPrefix("sync-"), wantsKeys: logged.id.contains("-keys-")
            ) { events.note($0) }
            switch opened {
            case .job(let job): return .job(job)
            case .noRoom: return .noRoom
            case .nothing, .question: return .unreadable("The payload is no job.")
            }
        }
    }

    private static func opened(
        _ text: JSONText, _ memory: JobMemory, _ id: String?, _ owner: JobOwner, _ policy: InvalidRecordPolicy,
        _ predicate: String?, isSync: Bool = false, wantsKeys: Bool = false, wantsObjects: Bool = false,
        wantsAcceptance: Bool = false,
        _ observer: @escaping @Sendable (JobEvent) -> Void
    ) -> Opened {
        let document: JSONDocument
        do throws(JSONRefusal) {
            guard memory.take(text.count) else { return .noRoom }
            document = try JSONDocument(fast: text, allowance: memory)
        } catch {
            if case .noRoom = error { return .noRoom }
            return .nothing
        }
        let operations = operations(of: document) { value in
            predicate.map { .deleteMatching(where: $0, arguments: $0.contains("%@") ? value : nil) }
                ?? (isSync ? Self.syncAll : .process(object: nil))
        }
        var terms = JobTerms(policy, wantsKeys: wantsKeys)
        terms.wantsObjects = wantsObjects
        return .job(
            Job(
                id: id, owner: owner, document: document, operations: operations, terms,
                wantsAcceptance: wantsAcceptance, content: text, observer: observer))
    }

    /// A job that processes what the payload names.
    static func job(
        _ payload: [UInt8], id: String, _ observer: @escaping @Sendable (JobEvent) -> Void
    ) -> Job {
        let text = JSONText(copying: payload)
        guard let document = try? JSONDocument(parsing: text) else { fatalError("no JSON: \(payload)") }
        return Job(
            id: id, document: document, operations: operations(of: document) { _ in .process(object: nil) },
            content: text, observer: observer)
    }

    /// One for each member: its name is that of the entity.
    private static func operations(
        of document: JSONDocument, _ action: (JSONValue) -> JobOperation.Action
    ) -> ShortList<JobOperation> {
        withExtendedLifetime(document) {
            ShortList(
                document.root.members.map { key, value in
                    JobOperation(
                        entity: key.string!, json: value, action(value), entityPointer: "/\(key.string!)")
                })
        }
    }

    deinit {
        // On a thread of its own, so that a stop that hangs is noticed.
        let isStopped = Monitor(false)
        let thread = BrokerCoordinator.Thread(named: "stopping") { [coordinator] in
            coordinator.stop()
            isStopped.update { $0 = true }
        }
        isStopped.patiently("the coordinator to stop") { $0 ? () : nil }
        thread.join()
    }

    /// Admits a job; its events are in ``events``.
    ///
    /// - Parameters:
    ///   - predicate: deletes the objects that match it, of each entity that the payload names. If it contains `%@`, the
    ///     entity's value has the arguments.
    ///   - isSync: of the entities that it names, what it does not name is deleted.
    ///   - change: changes the job before it is admitted.
    ///   - gate: opened before the job is: until then it has a ticket, and its contents are unknown.
    ///   - sequence: waits until the job is accepted with it.
    ///   - count: waits until so many jobs have ended.
    func submit(
        _ payload: String, id: String? = nil, _ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = false,
        wantsObjects: Bool = false, deletingWhere predicate: String? = nil, isSync: Bool = false,
        wantsAcceptance: Bool = false, behind gate: Gate? = nil, from source: Int = 0, as owner: JobOwner = .server,
        accepted sequence: Int? = nil, ends count: Int = 0,
        changed change: @escaping @Sendable (inout Job) -> Void = { _ in }
    ) {
        let text = JSONText(copying: Array(payload.utf8))
        let events = events
        coordinator.admit(
            from: source, of: owner.user, payloadBytes: text.count,
            // A waiting task is not short: others must not wait for it.
            contentBytesAtMost: gate == nil ? 0 : CoordinatorLimits.openedHereBytes + 1,
            payload: { Array(payload.utf8) },
            open: { memory in
                gate?.pass()
                let opened = Self.opened(
                    text, memory, id, owner, policy, predicate, isSync: isSync, wantsKeys: wantsKeys,
                    wantsObjects: wantsObjects, wantsAcceptance: wantsAcceptance || sequence != nil
                ) { events.note($0) }
                guard case .job(var job) = opened else { return opened }
                change(&job)
                return .job(job)
            },
            refuse: { events.note(refused: $0) })
        if let id, let sequence { events.waitUntil("accepted \(id) \(sequence)") }
        if count > 0 { _ = events.ends(count) }
    }

    private static var syncAll: JobOperation.Action {
        .sync(where: nil, arguments: nil, actions: (inserts: true, updates: true, deletes: true), part: nil)
    }

    /// Waits for the answer about the job.
    func await(_ id: String) -> Awaited { startAwaiting(id).answer }

    /// Asks for the end of the job; what comes back holds the answer when there is one.
    func startAwaiting(_ id: String) -> Monitor<Awaited?> {
        let awaited = Monitor<Awaited?>(nil)
        coordinator.await(id) { awaited.notify($0) }
        return awaited
    }

    /// Takes a job back, and gives what is said of that: `cancelled`, `tooLate`, `unknown`.
    func cancel(_ id: String, before ticket: Int? = nil, as asker: JobOwner = .server) -> String {
        switch answer({ coordinator.cancel(id, before: ticket, as: asker, $0) }) {
        case .tooLate: "tooLate"
        case let other: "\(other)"
        }
    }

    /// Changes the model; gives the lines of what changed, or the refusal.
    func reload(_ model: String) -> [String] { startReloading(model).patiently("another model") { $0 } }

    func startReloading(_ model: String, _ removal: RemovalPolicy? = nil) -> Monitor<[String]?> {
        let answer = Monitor<[String]?>(nil)
        coordinator.reload(removal: removal) {
            Self.read(model)
        } notify: { result in
            answer.update {
                switch result {
                case .success(let migration): $0 = migration.changes.map(\.text)
                case .failure(let fault): $0 = ["refused \(fault.code): \(fault.message)"]
                }
            }
        }
        return answer
    }

    private static func read(_ model: String) -> Result<StagingPlan, Fault> {
        do throws(ModelError) {
            return .success(try StagingPlan(ModelReader.read(JSONText(copying: Array(model.utf8)))))
        } catch {
            return .failure(Fault(.validationFailed, "\(error)"))
        }
    }

    /// Reports what a reload would do: a text for each change, with the number of values that are lost.
    func compare(_ model: String, _ removal: RemovalPolicy) -> [String] {
        switch answer({ coordinator.compare(removal: removal, reading: { Self.read(model) }, notify: $0) }) {
        case .success(let changes): changes.map { "\($0.verdict) \($0.subject) \($0.loss?.count ?? 0)" }
        case .failure(let fault): ["refused \(fault.code): \(fault.message)"]
        }
    }

    /// Asks in a frame of its own: about the jobs whose frames were admitted before.
    func admitAwaiting(_ id: String) -> Monitor<Awaited?> {
        let awaited = Monitor<Awaited?>(nil)
        coordinator.admit(
            payloadBytes: 1,
            open: { [coordinator] _ in
                .question { ticket in coordinator.await(id, before: ticket) { awaited.notify($0) } }
            }, refuse: { _ in })
        return awaited
    }

    /// The members of `stats`.
    var statistics: String {
        var writer = JSONWriter()
        coordinator.writeStatistics(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// The number of transactions that were committed.
    var commits: Int { statistics.firstMatch(of: /"commits":([0-9]+)/).flatMap { Int($0.1) }! }

    /// The ids of the failed jobs that pass the filter, the newest first.
    func failedJobs(_ filter: FailureFilter = FailureFilter(), as asker: JobOwner = .server) -> [String] {
        (try? answer { coordinator.failedJobs(10, filter, as: asker, $0) }.get().map(\.id)) ?? []
    }

    /// Waits until ``statistics`` hold that text.
    func waitUntil(_ text: String) { waitUntil("\(text) in the statistics") { statistics.contains(text) } }

    /// Waits until so many frames have not been opened. Queues do not show it: a frame that a worker is opening is in none.
    func waitUntil(unopened count: Int) {
        waitUntil("\(count) unopened frames") { coordinator.jobTable.withLock { $0.load.unopened == count } }
    }

    /// Waits until that is so.
    func waitUntil(_ what: String, _ isSo: () -> Bool) {
        let deadline = monotonicMicroseconds() + Patience.microseconds
        while !isSo() {
            if monotonicMicroseconds() > deadline { fatalError("waited in vain for \(what): \(statistics)") }
            sched_yield()
        }
    }

    /// The store's digest by its journal; empty without one.
    var history: String {
        answer { coordinator.history($0) }?.text ?? ""
    }

    var storePath: String { folder.path("store.sqlite") }

    /// The rows that a reader of the file sees, columns with `|` between them.
    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: storePath) }
}

extension Monitor<Awaited?> {
    func notify(_ result: Result<JobCompletion?, StoreError>) {
        update { $0 = Awaited(result) }
    }

    /// Waits for the answer.
    var answer: Awaited { patiently("an answer about a job") { $0 } }
}

extension AdmittedFrame {
    /// A frame without content.
    static func test(
        _ ticket: Int, from source: Int = 0, bytes: Int, _ memory: JobMemory, _ logged: LogEntry? = nil,
        isCancelled: Bool = false, payload: (@Sendable () -> [UInt8])? = nil
    ) -> AdmittedFrame {
        AdmittedFrame(
            ClosureContent(bytes: payload, opened: { _ in .nothing }, refused: { _ in }), at: ticket, from: source,
            payloadBytes: bytes, contentBytesAtMost: payload == nil ? 0 : bytes, memory, admittedAt: 0, logged: logged,
            isCancelled: isCancelled)
    }
}

extension AcceptedJob {
    /// A job without content.
    static func test(_ id: String, at ticket: Int, of owner: JobOwner) -> AcceptedJob {
        let text = JSONText(copying: Array("{}".utf8))
        guard let document = try? JSONDocument(parsing: text) else { fatalError("no JSON") }
        let job = Job(
            id: id, owner: owner, document: document, operations: [], content: text, observer: { _ in })
        let memory = MemoryBudget(shared: 0, one: 0).admit(ticket, payloadBytes: 0)
        let frame = AdmittedFrame.test(ticket, bytes: 0, memory)
        return AcceptedJob(job, id: JobID(id), frame, openedAt: 0, progress: nil)
    }
}

/// A job of a row of ``Models/rows``.
func row(_ id: Int, _ value: Int = 0) -> String { #"{"Row": {"id": \#(id), "value": \#(value)}}"# }

/// A job of so many rows with nothing but their ids.
func rows(_ count: Int, from first: Int = 0) -> String {
    #"{"Row": [\#((first..<first + count).map { "{\"id\": \($0)}" }.joined(separator: ","))]}"#
}

extension Monitor {
    /// As ``wait(_:)``, but not for ever: a run that hangs ends here, and says for what it waited.
    func patiently<Result>(_ what: String, _ body: (inout State) -> Result?) -> Result {
        if let result = wait(until: monotonicMicroseconds() + Patience.microseconds, body) { return result }
        fatalError("waited \(Patience.seconds) s in vain for \(what)")
    }
}

/// Asks, and waits for the answer.
func answer<Value: Sendable>(_ ask: (@escaping @Sendable (Value) -> Void) -> Void) -> Value {
    let answer = Monitor<Value?>(nil)
    ask { value in answer.update { $0 = value } }
    return answer.patiently("an answer") { $0 }
}

/// Holds threads back until it is opened.
final class Gate: Sendable {
    private let isOpen = Monitor(false)

    func open() {
        isOpen.update { $0 = true }
    }

    func pass() { isOpen.patiently("a gate") { $0 ? () : nil } }
}

/// The log of a coordinator. Any thread may log and wait.
struct LogLines: LogHandler {
    private let lines = Monitor<[String]>([])
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        lines.update { $0.append("\(event.level): \(event.message) \(event.metadata?.keys.sorted() ?? [])") }
    }

    func waitUntil(_ text: String) {
        lines.patiently("a line in the log with: \(text)") { $0.contains { $0.contains(text) } ? () : nil }
    }

    func count(_ text: String) -> Int { lines.withLock { $0.count { $0.contains(text) } } }
}

/// The events of jobs, in order. Any thread may note and wait.
final class Events: Sendable {
    private let events = Monitor<[JobEvent]>([])
    private let refusals = Monitor<[String]>([])

    func note(refused message: String) {
        refusals.update { $0.append(message) }
    }

    /// A frame could not be opened.
    var hasRefusal: Bool { refusals.withLock { !$0.isEmpty } }

    /// Waits for a frame that could not be opened, and returns its answer.
    var refusal: String { refusals.wait { $0.first } }

    func note(_ event: JobEvent) {
        events.update { $0.append(event) }
    }

    /// Waits until so many jobs have ended, and gives back all ends.
    func ends(_ count: Int) -> [Ending] {
        events.patiently("\(count) jobs to end") { events in
            let ends = events.compactMap { if case .ended(let ending) = $0 { Ending(ending) } else { nil } }
            return ends.count >= count ? ends : nil
        }
    }

    /// `accepted a 1`, `ended a 1`: everything so far.
    var all: [String] { events.withLock { $0.map(Self.described) } }

    /// Waits until that, as in ``all``, has happened.
    func waitUntil(_ event: String) {
        events.patiently(event) { $0.contains { Self.described($0) == event } ? () : nil }
    }

    private static func described(_ event: JobEvent) -> String {
        switch event {
        case .accepted(let id, let sequence): "accepted \(id) \(sequence)"
        case .progress(let id, let staged, let merged): "progress \(id) \(staged) \(merged)"
        case .ended(let ending): "ended \(ending.id) \(ending.sequence.map(String.init) ?? "-")"
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
    /// Nil unless the job asked for them.
    let objects: ReplyObjects?

    init(_ ending: JobCompletion) {
        id = ending.id
        sequence = ending.sequence
        objects = ending.objects
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

    init(_ result: Result<JobCompletion?, StoreError>) {
        switch result {
        case .success(let ending): self = ending.map { .ended(Ending($0)) } ?? .unknown
        case .failure: self = .failed
        }
    }

    var ending: Ending? {
        if case .ended(let ending) = self { ending } else { nil }
    }
}

/// Another process that reads the store as the connection `reader` of a Python script does. It ends with this object.
final class OtherProcess {
    private let process = Process()
    private let output = Pipe()

    /// - Parameters:
    ///   - name: of its program, as the kernel reports it.
    ///   - script: runs when the read transaction is open.
    init(named name: String, store: String, then script: String) throws {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        let begin = """
            import sqlite3, sys, time
            open("/proc/self/comm", "w").write(sys.argv[2])
            def connection():
                return sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
            def read():
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM Row").fetchall()
            reader = connection()
            read()
            print("reads", flush=True)

            """
        process.arguments = ["python3", "-c", begin + script, store, name]
        process.standardInput = Pipe()
        process.standardOutput = output
        try process.run()
        // Its line, or nothing if it could not read.
        _ = output.fileHandleForReading.availableData
    }

    deinit {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    var pid: Int32 { process.processIdentifier }
}

extension Coordinator {
    /// Fetches in a frame of its own: it sees the jobs that were admitted before from that source.
    func fetch(
        _ request: FetchRequest, from source: Int = 0, of user: UInt32 = 0,
        isWanted: @escaping @Sendable () -> Bool = { true }, mayBeLong: @escaping @Sendable () -> Bool = { true },
        notify: @escaping @Sendable (FetchEnd) -> Void
    ) {
        admit(from: source, payloadBytes: 0) { [self] _ in
            .question { ticket in
                self.fetch(
                    request, before: ticket, from: source, of: user, isWanted: isWanted, mayBeLong: mayBeLong,
                    notify: notify)
            }
        } refuse: { _ in
            preconditionFailure("there is room for nothing")
        }
    }
}
