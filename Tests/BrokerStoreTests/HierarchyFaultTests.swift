import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// Faults in hierarchies, and their effect on the rest of a job.
@Suite(.timeLimit(.minutes(5))) struct HierarchyFaultTests {
    private static let model = """
        {"entities": {
            "Person": {"identity": "id", "attributes": {"id": "integer64", "name": {"type": "string", "optional": false}}},
            "Staff": {"parent": "Person", "abstract": true},
            "Employee": {"parent": "Staff",
                "attributes": {"badge": {"type": "string", "unique": true}, "salary": {"type": "decimal", "optional": false}}},
            "Guest": {"parent": "Person", "attributes": {"title": {"type": "string", "unique": true}}},
            "Thing": {"abstract": true, "identity": "id", "attributes": {"id": "integer64"}},
            "Car": {"parent": "Thing", "abstract": true},
            "Taxi": {"parent": "Car"},
            "Team": {"identity": "id", "attributes": {"id": "integer64", "name": {"type": "string", "optional": false}},
                "relationships": {
                    "lead": {"entity": "Staff"}, "advisor": {"entity": "Staff", "missing": "ignore"},
                    "member": {"entity": "Employee", "missing": "ignore"}, "host": {"entity": "Person"},
                    "guest": {"entity": "Guest", "missing": "ignore"}, "speaker": {"entity": "Guest", "missing": "fail"},
                    "car": {"entity": "Car"}, "thing": {"entity": "Thing"}}}}}
        """

    private func people(_ test: TestStore) throws -> [String] {
        try test.rows("SELECT id, _entity FROM Person ORDER BY id")
    }

    @Test func `an object of an ancestor does not become one of an abstract entity`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Person": [{"id": 1, "name": "a"}]}"#)
        let record = try test.outcome(#"{"Staff": [{"id": 1, "name": "b"}]}"#, .skip)
        #expect(record.rejections == ["unmappable /Staff/0"])
        #expect(try test.fault(#"{"Staff": [{"id": 1}]}"#)?.code == .unmappable)
        let keys = try test.outcome(#"{"Team": [{"id": 1, "name": "t", "lead": 1, "advisor": 1}]}"#, .skip)
        #expect(keys.rejections == ["objectNotFound /Team/0/lead"])
        #expect(try test.rows("SELECT lead, advisor FROM Team") == ["NULL|NULL"])
        #expect(try people(test) == ["1|Person"])
        try test.apply(#"{"Employee": [{"id": 1, "salary": 1}], "Team": [{"id": 1, "lead": 1}]}"#)
        #expect(try test.changes(#"{"Staff": [{"id": 1, "name": "c"}]}"#) == ["Employee +0 ~1 =0 !0"])
        #expect(try test.rows("SELECT lead FROM Team") == ["1"])
    }

    @Test func `an object that loses a unique value is rejected as one of its concrete entity`() throws {
        let test = try TestStore(Self.model)
        let outcome = try test.outcome(
            #"{"Guest": [{"id": 1, "name": "a", "title": "x"}, {"id": 2, "name": "b", "title": "x"}]}"#, .skip)
        #expect(outcome.described == ["Guest +1 ~0 =0 !1"])
        #expect(outcome.rejected.first?.entity == "Guest")
        #expect(outcome.rejected.first?.message.contains("Another Guest") == true)
    }

    @Test func `a key with missing ignore does not hide the fault of a record`() throws {
        let test = try TestStore(Self.model)
        let outcome = try test.outcome(
            #"{"Team": [{"id": 1, "name": "t", "advisor": 5}], "Staff": [{"id": 5, "name": "s"}]}"#, .skip)
        #expect(outcome.rejections == ["unmappable /Staff/0"])
        #expect(try test.rows("SELECT id, advisor FROM Team") == ["1|NULL"])
    }

    @Test(arguments: [InvalidRecordPolicy.fail, .skip])
    func `a key with missing ignore is ignored where its object cannot become the key's entity`(
        policy: InvalidRecordPolicy
    ) throws {
        let test = try TestStore(Self.model)
        let outcome = try test.outcome(
            #"{"Team": [{"id": 1, "name": "t", "member": 5}], "Person": [{"id": 5, "name": "p"}]}"#, policy)
        #expect(outcome.rejections == [])
        #expect(try test.rows("SELECT id, member FROM Team") == ["1|NULL"])
        #expect(try people(test) == ["5|Person"])
    }

    @Test(
        arguments: [InvalidRecordPolicy.fail, .skip],
        [
            #"{"Team": {"id": 1, "name": "t", "member": 5}, "Guest": {"id": 5, "name": "p"}}"#,
            #"{"Team": {"id": 1, "name": "t", "advisor": 5}, "Person": {"id": 5, "name": "p"}}"#,
            #"{"Team": {"id": 1, "name": "t", "advisor": 5, "member": 5, "host": {"id": 5, "name": "p"}}}"#,
            #"{"Guest": {"id": 5, "name": "p"}, "Team": {"id": 1, "name": "t", "member": 5}}"#,
            #"{"Person": {"id": 5, "name": "p"}, "Team": {"id": 1, "name": "t", "guest": 5}}"#,
        ])
    func `a key that may lead nowhere names no object that is of another entity after the job's records`(
        policy: InvalidRecordPolicy, job: String
    ) throws {
        let test = try TestStore(Self.model)
        for _ in 0..<2 {
            #expect(try test.outcome(job, policy).rejections == [])
            #expect(try test.rows("SELECT advisor, member, guest FROM Team") == ["NULL|NULL|NULL"])
            #expect(try people(test) == [job.contains("Guest") ? "5|Guest" : "5|Person"])
        }
    }

    @Test func `a key that makes nothing names an object that a later record makes one of its entity`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Person": {"id": 5, "name": "p"}}"#)
        let outcome = try test.outcome(
            #"{"Team": {"id": 1, "name": "t", "advisor": 5, "member": 5}, "Employee": {"id": 5, "salary": 1}}"#)
        #expect(outcome.described == ["Employee +0 ~1 =0 !0", "Team +1 ~0 =0 !0"])
        #expect(try test.rows("SELECT advisor, member FROM Team") == ["5|5"])
    }

    @Test func `a key that must find an object of its entity does not make it so`() throws {
        let test = try TestStore(Self.model)
        let job = #"{"Person": {"id": 5, "name": "p"}, "Team": [{"id": 1, "name": "t", "speaker": 5}, {"id": 2}]}"#
        let fault = try test.fault(job.replacing(#", {"id": 2}"#, with: ""))
        #expect(fault?.code == .objectNotFound && fault?.entity == "Guest" && fault?.path == "/Team/0/speaker")
        #expect(
            try test.outcome(job, .skip).rejections == ["objectNotFound /Team/0/speaker", "missingValue /Team/1"])
        #expect(try people(test) == ["5|Person"])
    }

    @Test func `a key fails the job at the key where its object cannot become the key's entity`() throws {
        let test = try TestStore(Self.model.replacing(#""Employee", "missing": "ignore""#, with: #""Employee""#))
        let fault = try test.fault(
            #"{"Person": [{"id": 5, "name": "p"}], "Team": [{"id": 1, "name": "t", "member": 5}]}"#)
        #expect(fault?.code == .missingValue && fault?.path == "/Team/0/member")
        #expect(try people(test) == [])
    }

    @Test func `several keys of abstract entities name a missing object, and each is listed`() throws {
        let test = try TestStore(Self.model)
        let outcome = try test.outcome(#"{"Team": [{"id": 1, "name": "t", "car": 7, "thing": 7}]}"#, .skip)
        #expect(outcome.rejections == ["objectNotFound /Team/0/car", "objectNotFound /Team/0/thing"])
    }

    @Test func `a rejected record does not change the entity of its object`() throws {
        let test = try TestStore(Self.model)
        // The team lacks its name; and what it says of 1 would make that lack its salary.
        let outcome = try test.outcome(
            #"{"Team": [{"id": 1, "member": {"id": 1}}], "Person": [{"id": 1, "name": "a"}]}"#, .skip)
        #expect(outcome.rejections == ["missingValue /Team/0"])
        #expect(try people(test) == ["1|Person"])
    }

    @Test func `a unique default that an object would take by becoming more special is a claim like others`() throws {
        let test = try TestStore(
            """
            {"entities": {
                "Person": {"identity": "id", "attributes": {"id": "integer64"}},
                "Chair": {"parent": "Person", "attributes": {"seat": {"type": "string", "default": "first", "unique": true}}}}}
            """)
        try test.apply(#"{"Person": [{"id": 1}, {"id": 2}], "Chair": [{"id": 3}]}"#)
        #expect(try test.fault(#"{"Chair": [{"id": 1}]}"#)?.attribute == "seat")
        let outcome = try test.outcome(#"{"Chair": [{"id": 1}, {"id": 2, "seat": "second"}]}"#, .skip)
        #expect(outcome.rejections == ["constraintViolation /Chair/0"])
        #expect(
            try test.rows("SELECT id, _entity, seat FROM Person ORDER BY id") == [
                "1|Person|NULL", "2|Chair|second", "3|Chair|first",
            ])
        // Its holder gives it up in the same job.
        try test.apply(#"{"Chair": [{"id": 1}, {"id": 3, "seat": null}]}"#)
        #expect(try test.rows("SELECT id, seat FROM Chair ORDER BY id") == ["1|first", "2|second", "3|NULL"])
    }
}
