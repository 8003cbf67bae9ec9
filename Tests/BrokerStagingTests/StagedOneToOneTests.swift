import BrokerModel
import Testing
import TestSupport

@testable import BrokerStaging

/// One-to-one pairs are consistent on both sides at every step of a job.
@Suite(.timeLimit(.minutes(5))) struct StagedOneToOneTests {
    private let staging: Staging

    init() throws { staging = try Staging(company) }

    @Test func `a link exists on both sides`() throws {
        let staged = try staging.stage(#"{"Employee": {"id": 1, "desk": {"id": 50}}, "Desk": {"id": 51, "owner": 2}}"#)
        #expect(staged("Employee") == ["id=1 desk=@50", "id=2 desk=@51"])
        #expect(staged("Desk") == ["id=50 owner=@1", "id=51 owner=@2"])
    }

    @Test func `a new partner frees the old ones`() throws {
        let staged = try staging.stage(
            #"{"Employee": [{"id": 1, "desk": 50}, {"id": 2, "desk": 51}, {"id": 1, "desk": 51}]}"#)
        #expect(staged("Employee") == ["id=1 desk=@51", "id=2 desk=nil"])
        #expect(staged("Desk") == ["id=50 owner=nil", "id=51 owner=@1"])
    }

    @Test func `null frees the partner`() throws {
        let staged = try staging.stage(#"{"Employee": [{"id": 1, "desk": 50}, {"id": 1, "desk": null}]}"#)
        #expect(staged("Employee") == ["id=1 desk=nil"])
        #expect(staged("Desk") == ["id=50 owner=nil"])
    }

    @Test func `naming the same partner again changes nothing`() throws {
        let staged = try staging.stage(#"{"Employee": {"id": 1, "desk": {"id": 50, "owner": {"id": 1, "desk": 50}}}}"#)
        #expect(staged("Employee") == ["id=1 desk=@50"])
        #expect(staged("Desk") == ["id=50 owner=@1"])
    }

    @Test func `a pair within one entity, even of an object with itself`() throws {
        let staged = try staging.stage(
            #"{"Employee": [{"id": 1, "spouse": 2}, {"id": 3, "spouse": {"id": 2}}, {"id": 4, "spouse": 4}]}"#)
        #expect(
            staged("Employee") == ["id=1 spouse=nil", "id=2 spouse=@3", "id=3 spouse=@2", "id=4 spouse=@4"])
    }

    @Test func `a new partner frees an object that is linked to itself`() throws {
        let staged = try staging.stage(#"{"Employee": [{"id": 1, "spouse": 1}, {"id": 1, "spouse": 2}]}"#)
        #expect(staged("Employee") == ["id=1 spouse=@2", "id=2 spouse=@1"])
    }

    @Test func `pairs are consistent in united collections, with null and moves`() throws {
        let staged = try staging.stage(
            """
            {"Employee": [{"id": 1, "desk": 50}, {"id": 2, "desk": 51},
              {"id": 3, "desk": 52}], "Desk": {"id": 50, "owner": null},
             "Employee": {"id": 2, "desk": 52}}
            """)
        #expect(staged("Employee") == ["id=1 desk=nil", "id=2 desk=@52", "id=3 desk=nil"])
        #expect(staged("Desk") == ["id=50 owner=nil", "id=51 owner=nil", "id=52 owner=@2"])
    }
}
