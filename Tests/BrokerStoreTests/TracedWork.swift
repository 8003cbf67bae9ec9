import BrokerJSON
import BrokerStaging
import TestSupport

@testable import BrokerStore

/// Transactions with distinct traces, and the answers about each.
///
/// Each has two jobs, `<number>a` and `<number>b`, and leaves three parts; the last of them takes those away that the one
/// two transactions before it left.
struct TracedWork {
    static let model = """
        {"entities": {
          "Part": {"identity": "id", "tombstone": "gone == YES", "unique": [["name"]],
            "attributes": {"id": "integer64", "gone": "boolean", "name": "string", "text": "string"},
            "relationships": {"box": {"entity": "Box", "inverse": "parts"}}},
          "Box": {"identity": "id", "attributes": {"id": "integer64", "newest": "integer64"},
            "relationships": {"parts": {"entity": "Part", "toMany": true, "inverse": "box"},
              "labels": {"entity": "Label", "toMany": true}}},
          "Label": {"identity": "text", "attributes": {"text": "string"}}
        }}
        """

    private static let partsOfEach = 3
    static let log = "a journal"

    let plan: StagingPlan
    let transactions: ClosedRange<Int>
    var options = StoreOptions()
    /// The jobs are those of a journal.
    var isLogged = false
    /// Transactions that end with a job that fails, `<number>c`.
    var failing: Set<Int> = []
    /// The newest position that the store called durable.
    private(set) var durablePosition: Int64 = 0
    /// Transactions whose COMMIT came back.
    private(set) var acknowledged: Set<Int> = []
    /// Transactions that ended with an error.
    private(set) var failed: Set<Int> = []

    init(_ transactions: ClosedRange<Int>, plan: StagingPlan? = nil) throws {
        self.transactions = transactions
        self.plan = try plan ?? stagingPlan(Self.model)
        // The WAL reaches its size, or four times that, in the midst of the work, and is copied then.
        options.walPages = 4
    }

    // MARK: - Work

    /// Opens the store and does all of it, as well as it goes; afterwards the store is closed.
    ///
    /// - Parameter isStillTrue: called after each COMMIT: whether a client may still be sent its answer.
    mutating func run(at path: String, isStillTrue: () -> Bool = { true }) {
        do throws(StoreError) {
            let store = try Store(path: path, plan: plan, options: options)
            if isLogged { try store.beginLog(Self.log, after: 0) }
            for number in transactions { work(number, on: store, isStillTrue) }
            store.idle()
            if !isLogged { try store.checkpoint() }
        } catch {
            // Transactions that were acknowledged before are still there.
        }
    }

    private mutating func work(_ number: Int, on store: Store, _ isStillTrue: () -> Bool) {
        do throws(StoreError) {
            try store.begin()
            for job in jobs(number) { _ = try store.apply(job) }
            try store.commit()
            if isStillTrue() { acknowledged.insert(number) }
            store.copyWALIfDue()
            if let position = store.durablePosition, isStillTrue() { durablePosition = position }
        } catch {
            store.rollback()
            failed.insert(number)
        }
    }

    private func jobs(_ number: Int) -> [StoreJob] {
        let text = String(repeating: "x", count: 2_000)
        func part(_ index: Int) -> String {
            "{\"id\": \(number * 10 + index), \"name\": \"\(number).\(index)\", \"text\": \"\(text)\", \"box\": 1}"
        }
        let gone = (1...Self.partsOfEach).map { "{\"id\": \((number - 2) * 10 + $0), \"gone\": true}" }
        let payloads = [
            "{\"Part\": [\(part(1)), \(part(2))]}",
            "{\"Part\": [\(part(3)), \(gone.joined(separator: ", "))], "
                + "\"Box\": {\"id\": 1, \"newest\": \(number), \"labels\": [\"even\", \"\(number % 3)\"]}}",
        ]
        var works: [(String, StoreJob.Work)] = zip(["a", "b"], payloads).map { name, payload in
            let work: StoreJob.Work
            do {
                work = try stage(JSONText(copying: Array(payload.utf8)), plan)
            } catch {
                preconditionFailure("the payload is made here: \(error)")
            }
            return (name, work)
        }
        if failing.contains(number) { works.append(("c", .refused(.busy("No memory.")))) }
        return works.enumerated().map { index, job in
            StoreJob(
                id: "\(number)\(job.0)", contentHash: [UInt8(number)], sequence: Int64(number * 3 + index),
                policy: .fail, wantsKeys: false, bookmark: Bookmark(name: "newest", value: "\(number)"), work: job.1,
                now: 0)
        }
    }

    // MARK: - Looking

    /// The faults of a database after such a failure; empty for none. It is opened as a store first, so
    /// that what is in the log is found.
    ///
    /// - Parameter before: transactions of earlier work that were acknowledged.
    /// - Returns: also the transactions that are there.
    func faults(at path: String, before: Set<Int> = []) throws -> (faults: [String], found: Set<Int>) {
        let store = try Store(path: path, plan: plan)
        defer { withExtendedLifetime(store) {} }
        var faults: [String] = []
        let soundness =
            try SQLRows.of("PRAGMA integrity_check", in: path) + SQLRows.of("PRAGMA foreign_key_check", in: path)
        if soundness != ["ok"] { faults.append("not sound: \(soundness)") }
        let jobs = Set(try SQLRows.of("SELECT id FROM _broker_jobs WHERE failed = 0", in: path))
        let numbers = (before.min() ?? transactions.lowerBound)...transactions.upperBound
        let found = Set(numbers.filter { jobs.contains("\($0)a") })
        for number in numbers where jobs.contains("\(number)b") != found.contains(number) {
            faults.append("half of transaction \(number) is in the ledger")
        }
        for number in acknowledged.union(before) where !found.contains(number) {
            faults.append("transaction \(number) was acknowledged and is lost")
        }
        for number in numbers {
            let isThere = found.contains(number) && !found.contains(number + 2)
            let parts = try SQLRows.of(
                "SELECT count(*) FROM Part WHERE id BETWEEN \(number * 10 + 1) AND \(number * 10 + 3)", in: path)
            if parts != [isThere ? "\(Self.partsOfEach)" : "0"] {
                faults.append("transaction \(number) has \(parts) parts, and should it have them? \(isThere)")
            }
        }
        let newest = try SQLRows.of("SELECT newest FROM Box", in: path)
        if newest != (found.max().map { ["\($0)"] } ?? []) { faults.append("the newest is \(newest) of \(found)") }
        let bookmark = try SQLRows.of("SELECT value FROM _broker_bookmarks", in: path)
        if bookmark != newest { faults.append("the bookmark is \(bookmark), and the newest is \(newest)") }
        return (faults, found)
    }
}
