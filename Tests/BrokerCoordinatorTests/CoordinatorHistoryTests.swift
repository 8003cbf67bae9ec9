import BrokerJournal
import BrokerModel
import BrokerStore
import Foundation
import TestSupport
import Testing

@testable import BrokerCoordinator

/// The same journal makes the same store, down to the row keys, and the digest distinguishes different stores.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorHistoryTests {
    private static let model = """
        {"entities": {
          "Note": {"attributes": {"text": "string"}},
          "Card": {"identity": "code", "identityOptional": true, "attributes": {"code": "string", "note": "string"}},
          "Row": {"identity": "id", "unique": [["mail"]], "attributes": {"id": "integer64", "mail": "string"}}}}
        """

    private struct Job {
        /// `sync-` and `delete-` at its beginning say what the job does.
        let id: String
        let payload: String
        var isIDMade = false
    }

    /// A store that applied the jobs from a journal.
    ///
    /// - Parameters:
    ///   - portions: how many jobs each start of the server finds in the journal.
    ///   - configure: of the start for the portion of that number.
    /// - Returns: the history and all rows.
    private func replayed(
        _ jobs: [Job], portions: [Int], _ configure: (Int, inout CoordinatorLimits) -> Void = { _, _ in }
    ) throws -> [String] {
        let folder = TemporaryFolder()
        var history = try start(folder) { _ in }
        var rest = jobs[...]
        var position: Int64 = 0
        for (number, count) in portions.enumerated() {
            try append(rest.prefix(count), after: position, to: folder)
            rest = rest.dropFirst(count)
            position += Int64(count)
            history = try start(folder) { configure(number, &$0) }
        }
        #expect(rest.isEmpty)
        let tables = ["Note", "Card", "Row", "_broker_jobs"]
        return try [history]
            + tables.flatMap { try SQLRows.of("SELECT * FROM \($0) ORDER BY 1", in: folder.path("store.sqlite")) }
    }

    private func start(
        _ folder: TemporaryFolder, _ configure: (inout CoordinatorLimits) -> Void
    ) throws -> String {
        try TestCoordinator(Self.model, in: folder) {
            $0.keepsJournal = true
            $0.store.synchronous = .full
            configure(&$0.limits)
        }.history
    }

    /// Appends the jobs to the journal of a server that is not running, as one that accepted them and was killed would have.
    private func append(_ jobs: ArraySlice<Job>, after position: Int64, to folder: TemporaryFolder) throws {
        let identity = try SQLRows.of(
            "SELECT value FROM _broker_meta WHERE key = 'log'", in: folder.path("store.sqlite"))
        let journal = try Journal(
            path: folder.path("store.sqlite.journal"), expected: JournalIdentity(identity[0]), applied: position,
            idOfApplied: nil, mode: 0o600, system: PosixSystem())
        try journal.append(
            jobs.enumerated().map { number, job in
                JournalEntry(
                    .job, position: position + Int64(number) + 1, id: job.id, isIDMade: job.isIDMade, user: 1,
                    time: 1_000_000, payload: Array(job.payload.utf8))
            })
    }

    private func randomJobs(_ count: Int, _ generator: inout SeededGenerator) -> [Job] {
        (1...count).map { number in
            let value = Int.random(in: 0..<5, using: &generator)
            let id = "\(number)"
            switch Int.random(in: 0..<10, using: &generator) {
            case 0..<3: return Job(id: id, payload: #"{"Note": [{"text": "a\#(number)"}, {"text": "b"}]}"#)
            case 3..<5: return Job(id: id, payload: #"{"Card": [{"code": "c\#(value)", "note": "\#(number)"}, {}]}"#)
            case 5..<7:
                // The first step takes keys; in the second, two records claim one unique value.
                return Job(
                    id: "sync-\(id)",
                    payload: """
                        {"Note": [{"text": "lost"}], "Card": [{}, {"code": "d\(number)"}],
                         "Row": [{"id": 1, "mail": "x"}, {"id": 2, "mail": "x"}]}
                        """)
            case 7:
                return Job(
                    id: "sync-\(id)",
                    payload: #"{"Note": [{"text": "only"}], "Row": [{"id": \#(value), "mail": "m\#(value)"}]}"#)
            case 8: return Job(id: "delete-\(id)", payload: #"{"\#(value < 3 ? "Note" : "Card")": []}"#)
            default: return Job(id: id, payload: #"{"Row": {"id": \#(value), "mail": "m\#(value)"}}"#)
            }
        }
    }

    @Test func `the same jobs give the same keys and history, in whatever batches and with whatever starts between`()
        throws
    {
        var generator = SeededGenerator()
        for _ in 0..<Cases.count(1, of: 4) {
            let jobs = randomJobs(40, &generator)
            let whole = try replayed(jobs, portions: [40])
            #expect(!whole[0].isEmpty)
            #expect(try replayed(jobs, portions: Array(repeating: 1, count: 40)) == whole)
            var portions: [Int] = []
            while portions.reduce(0, +) < 40 {
                portions.append(min(Int.random(in: 1...12, using: &generator), 40 - portions.reduce(0, +)))
            }
            let limits = portions.map { _ in Int.random(in: 1...6, using: &generator) }
            #expect(try replayed(jobs, portions: portions) { $1.jobs = limits[$0] } == whole)
        }
    }

    @Test func `a failed job leaves no gap in the keys, and a start and other entities' deletions none`() throws {
        let note = #"{"Note": {"text": "a"}}"#
        let failing = #"{"Note": [{"text": "b"}], "Row": [{"id": 1, "mail": "x"}, {"id": 2, "mail": "x"}]}"#
        let cards = "{\"Card\": [\(Array(repeating: "{}", count: 20).joined(separator: ","))]}"
        let folder = TemporaryFolder()
        _ = try start(folder) { _ in }
        let jobs = [
            Job(id: "1", payload: note), Job(id: "sync-2", payload: failing), Job(id: "3", payload: note),
            Job(id: "4", payload: cards), Job(id: "delete-5", payload: #"{"Card": []}"#), Job(id: "6", payload: note),
        ]
        for (number, job) in jobs.enumerated() {
            try append([job], after: Int64(number), to: folder)
            _ = try start(folder) { _ in }
        }
        #expect(
            try SQLRows.of("SELECT _pk FROM Note ORDER BY _pk", in: folder.path("store.sqlite")) == ["1", "2", "3"])
    }

    @Test func `another content gives another history, also of a job without an id`() throws {
        let histories = try [#"{"Note": {"text": "a"}}"#, #"{"Note": {"text":  "a"}}"#, #"{"Note": {"text": "b"}}"#].map
        {
            try replayed([Job(id: "made", payload: $0, isIDMade: true)], portions: [1])[0]
        }
        #expect(Set(histories).count == 3, "\(histories)")
    }

    @Test(arguments: [true, false])
    func `a start warns of waiting jobs that were accepted under another fingerprint, and applies them`(isOther: Bool)
        throws
    {
        let folder = TemporaryFolder()
        func coordinator() throws -> TestCoordinator {
            try TestCoordinator(Self.model, in: folder) {
                $0.keepsJournal = true
                $0.store.synchronous = .full
            }
        }
        do {
            let statistics = try coordinator().statistics
            #expect(statistics.contains(/"fingerprint":"[0-9a-f]{16}"/))
        }
        let store = folder.path("store.sqlite")
        if isOther {
            try Locker(store).execute(
                "UPDATE _broker_meta SET value = replace(value, 'sqlite=20', 'sqlite=19') WHERE key = 'fingerprint'; COMMIT"
            )
        }
        try append([Job(id: "a", payload: #"{"Row": {"id": 1, "mail": "x"}}"#)], after: 0, to: folder)
        let warning = "warning: Jobs wait in the journal that were accepted by a server with other versions"
        for count in [isOther ? 1 : 0, 0] {
            let test = try coordinator()
            #expect(try test.rows("SELECT id FROM Row") == ["1"])
            #expect(test.log.count(warning) == count)
        }
    }
}
