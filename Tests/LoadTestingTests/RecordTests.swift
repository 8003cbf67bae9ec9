import BrokerJSON
import BrokerWire
import CSQLite
import TestSupport
import Testing

@testable import brokerload

@Suite(.timeLimit(.minutes(5)))
struct RecordTests {
    private func text(_ options: RecordOptions, _ numbers: Range<Int>, version: Int = 0) -> [String] {
        var generator = GeneratedRecords(options)
        return numbers.map { number in
            var bytes: [UInt8] = []
            generator.write(number, version: version, to: &bytes)
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    private func parse(_ text: String) throws -> JSONDocument {
        try JSONDocument(parsing: JSONText(copying: Array(text.utf8)))
    }

    /// All that is chance is in these.
    private static func varying(_ shape: RecordShape, seed: UInt64) -> RecordOptions {
        RecordOptions(shape: shape, presence: 0.6, nulls: 0.3, keyOrder: .random, keys: .uuid, seed: seed)
    }

    @Test(arguments: RecordShape.allCases)
    func `the same seed gives the same records, and another seed others`(shape: RecordShape) {
        let seed = SeededGenerator.testSeed()
        let records = text(Self.varying(shape, seed: seed), 0..<50)
        #expect(text(Self.varying(shape, seed: seed), 0..<50) == records)
        #expect(text(Self.varying(shape, seed: seed &+ 1), 0..<50) != records)
        // The record of a number needs none before it.
        #expect(text(Self.varying(shape, seed: seed), 40..<50) == records.suffix(10))
    }

    @Test(arguments: RecordShape.allCases)
    func `every record is an object whose keys the layout has`(shape: RecordShape) throws {
        let options = Self.varying(shape, seed: 7)
        let keys = Set(RecordLayout(options).fields.map(\.key))
        for record in text(options, 0..<200) {
            let document = try parse(record)
            #expect(document.root.kind == .object)
            let found = document.root.members.map { String(decoding: $0.key.bytes, as: UTF8.self) }
            #expect(Set(found).isSubset(of: keys))
            #expect(Set(found).count == found.count)
            #expect(found.contains("id"))
        }
    }

    @Test func `two versions of a record differ in every value but its identity and links`() throws {
        for (shape, links) in [(RecordShape.nested, ["department"]), (.ragged, [])] {
            let options = RecordOptions(shape: shape, presence: 1)
            for (first, second) in zip(text(options, 0..<300), text(options, 0..<300, version: 1)) {
                let (before, after) = (try parse(first), try parse(second))
                for field in RecordLayout(options).fields {
                    let isSame = before.root[field.key]?.jsonText == after.root[field.key]?.jsonText
                    #expect(isSame == (field.key == "id" || links.contains(field.key)), "\(first) \(second)")
                }
            }
        }
    }

    @Test func `presence and nulls are as probable as was asked for`() throws {
        let options = RecordOptions(shape: .ragged, attributes: 20, presence: 0.25, nulls: 0.5, seed: 3)
        var (there, null) = (0, 0)
        for record in text(options, 0..<2_000) {
            let document = try parse(record)
            withExtendedLifetime(document) {
                for (key, value) in document.root.members where key.string != "id" {
                    there += 1
                    if value.isNull { null += 1 }
                }
            }
        }
        // A hundredth is more than four times the deviation of 40,000 draws.
        #expect(abs(Double(there) / 40_000 - 0.25) < 0.01)
        #expect(abs(Double(null) / Double(there) - 0.5) < 0.03)
    }
}

@Suite(.timeLimit(.minutes(5)))
struct RecordMixTests {
    @Test func `the shares of a mix are exact in each of its periods`() throws {
        let mix = try #require(RecordMix("new:80,changed:15,unchanged:5"))
        #expect(mix.period == 20)
        var order = MixOrder(mix, seed: 11)
        for _ in 0..<50 {
            var counts: [RecordKind: Int] = [:]
            for _ in 0..<20 { counts[order.next(), default: 0] += 1 }
            #expect(counts == [.new: 16, .changed: 3, .unchanged: 1])
        }
    }

    @Test(arguments: [
        "", "new", "old:1", "new:-1", "new:1,new:2", "new:0", "new:9223372036854775807,changed:2",
    ])
    func `an invalid mix is none`(text: String) {
        #expect(RecordMix(text) == nil)
    }

    /// The records of some jobs by their identity, in order.
    private func records(_ options: JobOptions, jobs: Int) throws -> [(id: Int, text: String)] {
        var source = JobSource(options)
        return try (0..<jobs).flatMap { _ in
            let document = try JSONDocument(parsing: JSONText(copying: source.nextRecords()))
            return document.root.elements.map {
                (Int($0["id"]?.int64 ?? -1), String(decoding: $0.jsonText, as: UTF8.self))
            }
        }
    }

    @Test func `an unchanged record is as it was sent last, and a changed one is not`() throws {
        var before = JobOptions(RecordOptions())
        before.recordsOfJob = 30
        var stored: [Int: String] = [:]
        for (id, text) in try records(before, jobs: 1) { stored[id] = text }
        let mix = try #require(RecordMix("new:1,changed:2,unchanged:3"))
        var options = JobOptions(RecordOptions(), mix)
        options.recordsOfJob = 6
        options.existing = 30
        var counts: [RecordKind: Int] = [:]
        for (id, text) in try records(options, jobs: 100) {
            let kind: RecordKind = stored[id] == nil ? .new : stored[id] == text ? .unchanged : .changed
            counts[kind, default: 0] += 1
            stored[id] = text
        }
        #expect(counts == [.new: 100, .changed: 200, .unchanged: 300])
    }

    @Test func `a job is what the server reads, with an id of its own`() throws {
        var options = JobOptions(RecordOptions())
        options.recordsOfJob = 2
        options.wantsAccepted = true
        var source = JobSource(options)
        for number in 0..<3 {
            let content = source.next()
            let envelope = try ClientEnvelope.decode(parsing: JSONText(copying: content))
            guard case .job = envelope.message else {
                Issue.record("no job")
                continue
            }
            #expect(envelope.id == "\(options.run)-\(number)")
            withExtendedLifetime(envelope.document) {
                #expect(envelope.document.root["notify"]?.elements.map(\.string) == ["accepted", "completed"])
            }
        }
        #expect(JobOptions(RecordOptions()).run != JobOptions(RecordOptions()).run)
    }
}

@Suite(.timeLimit(.minutes(5)))
struct BaselineTests {
    private let folder = TemporaryFolder()

    private func value(_ sql: String) throws -> String? {
        var handle: OpaquePointer?
        var statement: OpaquePointer?
        defer {
            sqlite3_finalize(statement)
            sqlite3_close(handle)
        }
        try #require(sqlite3_open_v2(folder.path("f"), &handle, SQLITE_OPEN_READONLY, nil) == SQLITE_OK)
        try #require(sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK, "\(sql)")
        guard sqlite3_step(statement) == SQLITE_ROW else { return nil }
        return sqlite3_column_text(statement, 0).map { String(cString: $0) }
    }

    private func payloads(_ options: RecordOptions, _ mix: RecordMix = .allNew, existing: Int = 0) -> [JSONText] {
        var job = JobOptions(options, mix)
        job.recordsOfJob = 50
        job.existing = existing
        return Baseline.payloads(job, jobs: 4)
    }

    @Test(arguments: RecordShape.allCases, RecordKeys.allCases)
    func `the baseline keeps every record of every shape`(shape: RecordShape, keys: RecordKeys) throws {
        for (presence, order) in [(1.0, RecordKeyOrder.declared), (0.5, .random)] {
            let options = RecordOptions(shape: shape, presence: presence, nulls: 0.2, keyOrder: order, keys: keys)
            var baseline = Baseline(path: folder.path("f"), records: options)
            baseline.transactionRows = 33
            let results = try baseline.load([payloads(options), payloads(options)])
            #expect(results.map(\.amount) == [200, 200])
            #expect(try value("SELECT count(*) FROM \(RecordLayout(options).entity)") == "200")
        }
    }

    @Test func `the baseline writes what the records say`() throws {
        let options = RecordOptions(shape: .nested, keyOrder: .random)
        _ = try Baseline(path: folder.path("f"), records: options).load([payloads(options)])
        #expect(
            try value(
                "SELECT name || '|' || email || '|' || salary || '|' || score || '|' || active || '|' || hiredAt || '|' "
                    + "|| level || '|' || department FROM Employee WHERE id = 137")
                == "Employee 137|employee137@example.com|3137.57|17.125|0|2015-03-26T17:30:00Z|5|137")
        #expect(try value("SELECT name FROM Department WHERE id = 137") == "Department 137")
    }

    @Test func `a second pass changes what its mix says`() throws {
        let options = RecordOptions()
        let mix = try #require(RecordMix("changed:1,unchanged:3"))
        _ = try Baseline(path: folder.path("f"), records: options).load([
            payloads(options), payloads(options, mix, existing: 200),
        ])
        #expect(try value("SELECT count(*) FROM Employee WHERE name <> 'Employee ' || id") == "50")
        #expect(try value("SELECT count(*) FROM Employee") == "200")
    }

    @Test func `a link that is absent leaves the one that was there`() throws {
        let options = RecordOptions(presence: 0.5, seed: 4)
        let baseline = Baseline(path: folder.path("f"), records: options)
        _ = try baseline.load([payloads(RecordOptions(presence: 1)), payloads(options)])
        #expect(try value("SELECT count(*) FROM Employee WHERE department IS NULL OR name IS NULL") == "0")
    }

    @Test(arguments: [1, 7, GroupBaseline.mostInFlight])
    func `the group baseline answers every job and commits for groups`(inFlight: Int) throws {
        let baseline = GroupBaseline(path: folder.path("f"), records: RecordOptions(), inFlight: inFlight, jobs: 500)
        let result = try baseline.run()
        #expect(result.amount == 500)
        #expect(result.latencies?.count == 500)
        let commits = try #require(result.commits)
        #expect(commits <= 500 && commits * inFlight >= 500)
        #expect(try value("SELECT count(*) FROM Employee") == "500")
    }

    @Test func `the group baseline with a ledger notes every job once, in the order of answers`() throws {
        var baseline = GroupBaseline(path: folder.path("f"), records: RecordOptions(), inFlight: 7, jobs: 300)
        baseline.hasLedger = true
        #expect(try baseline.run().amount == 300)
        #expect(try value("SELECT count(*) || ' ' || min(sequence) || ' ' || max(sequence) FROM ledger") == "300 1 300")
        #expect(try value("SELECT count(DISTINCT id) FROM ledger WHERE outcome LIKE '%\"inserted\":1%'") == "300")
    }

    @Test func `a file that is no database cannot be the database of a baseline`() {
        let error = #expect(throws: (any Error).self) {
            try Baseline(path: "/nowhere/f", records: RecordOptions()).load([])
        }
        #expect("\(error as Any)".contains("/nowhere/f"))
    }
}
