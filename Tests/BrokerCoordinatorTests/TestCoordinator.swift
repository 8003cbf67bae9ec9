import BrokerFastJSON
import BrokerJSON
import BrokerModel
import BrokerSchema
import BrokerStaging
import BrokerStore
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
        _ model: String, in folder: TemporaryFolder = TemporaryFolder(),
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
        try coordinator.start(logger) { payload, logged, memory in
            // The log has the payload alone; of jobs that are not `process`, the id says what they do.
            let predicate = logged.id.hasPrefix("delete-") ? "TRUEPREDICATE" : nil
            let opened = Self.opened(
                JSONText(copying: payload), memory, logged.isIDMade ? nil : logged.id, logged.owner, .fail, predicate,
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
        let operations = withExtendedLifetime(document) {
            document.root.members.map { key, value in
                JobOperation(
                    entity: key.string!, json: value,
                    predicate.map { .deleteMatching(where: $0, arguments: $0.contains("%@") ? value : nil) }
                        ?? (isSync ? Self.syncAll : .process(object: nil)),
                    entityPointer: "/\(key.string!)")
            }
        }
        return .job(
            Job(
                id: id, owner: owner, document: document, operations: ShortList(operations), policy: policy,
                wantsKeys: wantsKeys, wantsObjects: wantsObjects, wantsAcceptance: wantsAcceptance, content: text,
                observer: observer))
    }

    /// A job that processes what the payload names.
    static func job(
        _ payload: [UInt8], id: String, _ observer: @escaping @Sendable (JobEvent) -> Void
    ) -> Job {
        let text = JSONText(copying: payload)
        guard let document = try? JSONDocument(parsing: text) else { fatalError("no JSON: \(payload)") }
        let operations = withExtendedLifetime(document) {
            document.root.members.map { key, value in
                JobOperation(
                    entity: key.string!, json: value, .process(object: nil), entityPointer: "/\(key.string!)")
            }
        }
        return Job(
            id: id, document: document, operations: ShortList(operations), policy: .fail, wantsKeys: false,
            wantsAcceptance: false,
            content: text, observer: observer)
    }

    deinit {
        // On a thread of its own, so that a stop that hangs is noticed.
        let isStopped = Monitor(false)
        let thread = BrokerCoordinator.Thread(named: "stopping") { [coordinator] in
            coordinator.stop()
            isStopped.broadcast {
                $0 = true
                return true
            }
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
    func submit(
        _ payload: String, id: String? = nil, _ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = false,
        wantsObjects: Bool = false, deletingWhere predicate: String? = nil, isSync: Bool = false,
        wantsAcceptance: Bool = false, behind gate: Gate? = nil, from source: Int = 0, as owner: JobOwner = .server,
        changed change: @escaping @Sendable (inout Job) -> Void = { _ in }
    ) {
        let text = JSONText(copying: Array(payload.utf8))
        let events = events
        coordinator.admit(
            from: source, payloadBytes: text.count,
            // A waiting task is not short: others must not wait for it.
            contentBytesAtMost: gate == nil ? 0 : CoordinatorLimits.openedHereBytes + 1,
            payload: { Array(payload.utf8) },
            open: { memory in
                gate?.pass()
                let opened = Self.opened(
                    text, memory, id, owner, policy, predicate, isSync: isSync, wantsKeys: wantsKeys,
                    wantsObjects: wantsObjects, wantsAcceptance: wantsAcceptance
                ) { events.note($0) }
                guard case .job(var job) = opened else { return opened }
                change(&job)
                return .job(job)
            },
            refuse: { events.note(refused: $0) })
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
        let answer = Monitor<String?>(nil)
        coordinator.cancel(id, before: ticket, as: asker) { result in
            answer.broadcast {
                $0 = "\(result)"
                return true
            }
        }
        return answer.patiently("an answer to a cancel") { $0 }
    }

    /// Changes the model; gives the lines of what changed, or the refusal.
    func reload(_ model: String) -> [String] { startReloading(model).patiently("another model") { $0 } }

    func startReloading(_ model: String, _ removal: RemovalPolicy? = nil) -> Monitor<[String]?> {
        let answer = Monitor<[String]?>(nil)
        coordinator.reload(removal: removal) {
            Self.read(model)
        } notify: { result in
            answer.broadcast {
                switch result {
                case .success(let migration): $0 = migration.changes.map(\.text)
                case .failure(let fault): $0 = ["refused \(fault.code): \(fault.message)"]
                }
                return true
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
        let answer = Monitor<[String]?>(nil)
        coordinator.compare(removal: removal, reading: { Self.read(model) }) { result in
            answer.broadcast {
                switch result {
                case .success(let changes): $0 = changes.map { "\($0.verdict) \($0.subject) \($0.loss?.count ?? 0)" }
                case .failure(let fault): $0 = ["refused \(fault.code): \(fault.message)"]
                }
                return true
            }
        }
        return answer.patiently("a comparison") { $0 }
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

    /// Waits until ``statistics`` hold that text.
    func waitUntil(_ text: String) { waitUntil("\(text) in the statistics") { statistics.contains(text) } }

    /// Waits until so many frames have not been opened. Queues do not show it: a frame that a worker is opening is in none.
    func waitUntil(unopened count: Int) {
        waitUntil("\(count) unopened frames") { coordinator.jobTable.withLock { $0.unopened == count } }
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
        let answer = Monitor<String?>(nil)
        coordinator.history { history in
            answer.broadcast {
                $0 = history?.text ?? ""
                return true
            }
        }
        return answer.patiently("the history") { $0 }
    }

    var storePath: String { folder.path("store.sqlite") }

    /// The rows that a reader of the file sees, columns with `|` between them.
    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: storePath) }
}

extension Monitor<Awaited?> {
    func notify(_ result: Result<JobCompletion?, StoreError>) {
        broadcast {
            $0 = Awaited(result)
            return true
        }
    }

    /// Waits for the answer.
    var answer: Awaited { patiently("an answer about a job") { $0 } }
}
