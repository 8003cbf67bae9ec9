import BrokerModel
import BrokerSchema
import BrokerStaging
import BrokerStore
import Testing
import Glibc
import TestSupport

@testable import BrokerCoordinator

/// Another model, between two jobs.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorReloadTests {
    private let old =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#
    private let new = #"""
        {"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64", "name": "string"}}}}
        """#

    private func row(_ id: Int) -> String { "{\"Row\": {\"id\": \(id), \"value\": 1, \"name\": \"n\"}}" }

    @Test func `jobs before a reload are read with the old model, and later jobs with the new one`() throws {
        let test = try TestCoordinator(old)
        let gate = Gate()
        test.submit(row(1), id: "before", behind: gate)
        let changes = test.startReloading(new)
        test.waitUntilHolding()
        for number in 2...200 { test.submit(row(number), id: "\(number)") }
        #expect(test.events.all.isEmpty)
        gate.open()
        #expect(test.events.ends(200).allSatisfy { $0.code == nil })
        #expect(changes.patiently("the new model") { $0 }.count == 1)
        #expect(try test.rows("SELECT count(*) FROM Row WHERE name IS NULL") == ["1"])
        #expect(try test.rows("SELECT name FROM Row WHERE id = 200") == ["n"])
        // Known outcomes stay known.
        test.submit(row(7), id: "7")
        #expect(test.events.ends(201)[200].isDuplicate)
        #expect(test.await("before").ending?.sequence == 1)
        #expect(test.await("150").ending?.sequence == 150)
    }

    @Test func `a job that is being staged ends before the model is changed`() throws {
        let test = try TestCoordinator(old)
        let rows = (1...50_000).map { "{\"id\": \($0), \"value\": 1, \"name\": \"n\"}" }.joined(separator: ",")
        test.submit("{\"Row\": [\(rows)]}", id: "large", wantsAcceptance: true)
        test.events.waitUntil("accepted large 1")
        #expect(test.reload(new).count == 1)
        #expect(test.events.all.count == 2)
        #expect(try test.rows("SELECT count(*) FROM Row WHERE name IS NULL") == ["50000"])
    }

    @Test func `a model that the store refuses, or an invalid one, changes nothing, and is reported`() throws {
        let test = try TestCoordinator(new)
        test.submit(row(1), id: "a")
        _ = test.events.ends(1)
        let refusal = test.reload(old)
        #expect(refusal.count == 1 && refusal[0].contains("name") && refusal[0].hasPrefix("refused storeUnavailable"))
        #expect(test.reload("{}")[0].hasPrefix("refused validationFailed"))
        test.submit(row(2), id: "b")
        #expect(test.events.ends(2)[1].code == nil)
        #expect(try test.rows("SELECT name FROM Row ORDER BY id") == ["n", "n"])
    }

    @Test func `a reload does not wait for paused jobs`() throws {
        let test = try TestCoordinator(old)
        #expect(test.coordinator.pause())
        #expect(test.reload(new)[0].hasPrefix("refused busy"))
        test.coordinator.resume()
        #expect(test.reload(new).count == 1)
    }

    @Test func `a comparison reports what a reload would do, and changes nothing, also while jobs are paused`() throws {
        let test = try TestCoordinator(new)
        test.submit(row(1), id: "a")
        _ = test.events.ends(1)
        let schema = "SELECT name, sql FROM sqlite_schema ORDER BY 1"
        let before = try test.rows(schema)
        #expect(test.coordinator.pause())
        for (removal, verdict) in [(RemovalPolicy.refuse, "refused"), (.keep, "kept"), (.drop, "dropped")] {
            let lost = verdict == "kept" ? "0" : "1"
            #expect(test.compare(old, removal) == ["\(verdict) Row.name \(lost)"])
        }
        #expect(test.compare("{}", .drop)[0].hasPrefix("refused validationFailed"))
        test.coordinator.resume()
        #expect(try test.rows(schema) == before)
        #expect(try test.rows("SELECT name FROM Row") == ["n"])
    }

    @Test func `a reload drops what the model lacks only if it is asked to, for once`() throws {
        let test = try TestCoordinator(new)
        test.submit(row(1), id: "a")
        _ = test.events.ends(1)
        #expect(test.reload(old)[0].hasPrefix("refused storeUnavailable"))
        #expect(test.startReloading(old, .drop).patiently("the old model") { $0 }.count == 1)
        #expect(try test.rows("SELECT count(*) FROM pragma_table_info('Row') WHERE name = 'name'") == ["0"])
        #expect(test.reload(new).count == 1)
        test.submit(row(2), id: "b")
        #expect(test.events.ends(2)[1].code == nil)
        #expect(test.reload(old)[0].hasPrefix("refused storeUnavailable"))
    }

    @Test func `a journal goes on with the new model, over a crash`() throws {
        let folder = TemporaryFolder()
        let journaled = { (model: String) in try TestCoordinator(model, in: folder) { $0.keepsJournal = true } }
        do {
            let test = try journaled(old)
            test.submit(row(1), id: "a")
            _ = test.events.ends(1)
            #expect(test.reload(new).count == 1)
            test.submit(row(2), id: "b")
            #expect(test.events.ends(2)[1].code == nil)
        }
        let test = try journaled(new)
        test.submit(row(3), id: "c")
        _ = test.events.ends(1)
        #expect(try test.rows("SELECT id, ifnull(name, '') FROM Row ORDER BY id") == ["1|", "2|n", "3|n"])
    }
}

extension TestCoordinator {
    /// Waits until a reload holds what comes.
    func waitUntilHolding() {
        while coordinator.jobTable.withLock({ $0.reloadTicket == nil }) { sched_yield() }
    }
}
