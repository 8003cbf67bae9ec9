import BrokerModel
import Testing
import TestSupport

@testable import BrokerStaging

/// Nested records and bare keys: rows of their own, and links that are consistent on both sides.
@Suite(.timeLimit(.minutes(5))) struct StagedRelationshipTests {
    private let staging: Staging

    init() throws { staging = try Staging(company) }

    @Test func `a nested to-one record is found or created and linked`() throws {
        let staged = try staging.stage(
            #"{"Employee": [{"id": 1, "department": {"id": 10, "name": "R&D"}}, {"id": 2, "department": {"id": 10}}]}"#)
        #expect(staged("Employee") == ["id=1 department=@10", "id=2 department=@10"])
        #expect(staged("Department") == ["id=10 name=R&D"])
    }

    @Test func `nested to-many records link back to their parent, whose row has no column for them`() throws {
        let staged = try staging.stage(
            #"{"Department": {"id": 10, "employees": [{"id": 1}, 2, {"employee": {"id": 3, "name": "x"}}]}}"#)
        #expect(staged("Department") == ["id=10"])
        #expect(staged("Employee") == ["id=1 department=@10", "id=2 department=@10", "id=3 name=x department=@10"])
    }

    @Test(arguments: [#"{"id": 1}"#, "1", #""1""#])
    func `a to-many value may be one record or one bare key`(value: String) throws {
        let staged = try staging.stage(#"{"Department": {"id": 10, "employees": \#(value)}}"#)
        #expect(staged("Employee") == ["id=1 department=@10"])
    }

    @Test func `null unlinks a to-one, and marks a to-many as replaced by nothing`() throws {
        let staged = try staging.stage(
            #"{"Employee": {"id": 1, "department": null}, "Department": {"id": 10, "employees": null}}"#)
        #expect(staged("Employee") == ["id=1 department=nil"])
        #expect(staged.replacements == ["Department 10 employees"])
    }

    @Test func `a missing relationship and an empty union change nothing`() throws {
        let staged = try staging.stage(#"{"Employee": {"id": 1}, "Department": {"id": 10, "employees": []}}"#)
        #expect(staged("Employee") == ["id=1"])
        #expect(staged.replacements == [])
    }

    @Test func `an assignment of replace marks the relationship, with its new links`() throws {
        let staged = try staging.stage(#"{"Employee": [{"id": 1, "skills": ["a"]}, {"id": 2, "skills": []}]}"#)
        #expect(staged.links == ["Employee.skills 1-a named by 1"])
        #expect(staged.replacements == ["Employee 1 skills", "Employee 2 skills"])
    }

    @Test func `the same object at several depths is one row, and later values win`() throws {
        let staged = try staging.stage(
            """
            {"Employee": [{"id": 1, "name": "a", "manager": {"id": 2, "name": "b", "manager": {"id": 1, "name": "c"}}},
              {"id": 2, "department": {"id": 10, "employees": [{"id": 1, "name": "d"}]}}]}
            """)
        #expect(
            staged("Employee") == ["id=1 name=d department=@10 manager=@2", "id=2 name=b department=@10 manager=@1"])
    }

    @Test func `nested records override the values of the record around them`() throws {
        let staged = try staging.stage(
            #"{"Employee": {"id": 1, "manager": {"id": 1, "name": "inner"}, "name": "outer"}}"#)
        #expect(staged("Employee") == ["id=1 name=inner manager=@1"])
    }

    @Test func `a relationship to the own entity works in both directions`() throws {
        let staged = try staging.stage(
            #"{"Employee": {"id": 1, "manager": 2, "reports": [3, {"id": 4, "reports": 5}]}}"#)
        #expect(
            staged("Employee") == [
                "id=1 manager=@2", "id=2", "id=3 manager=@1", "id=4 manager=@1", "id=5 manager=@4",
            ])
    }

    @Test func `many-to-many links are in one table, whichever side names them`() throws {
        let staged = try staging.stage(
            """
            {"Project": {"id": 7, "members": [1, {"id": 2}]}, "Employee": [{"id": 3, "projects": [7, {"id": 8}]}]}
            """)
        #expect(
            staged.links == [
                "Employee.projects 1-7 named by 7", "Employee.projects 2-7 named by 7",
                "Employee.projects 3-7 named by 3", "Employee.projects 3-8 named by 3",
            ])
    }

    @Test func `a relationship that is its own inverse links both ways, and an object to itself once`() throws {
        let staged = try staging.stage(#"{"Employee": {"id": 1, "friends": [2, 1]}}"#)
        #expect(
            staged.links == [
                "Employee.friends 1-2 named by 1", "Employee.friends 2-1 named by 1", "Employee.friends 1-1 named by 1",
            ])
    }

    @Test func `a bare key inserts a stub, which an earlier or later record fills in`() throws {
        let staged = try staging.stage(
            """
            {"Employee": [{"id": 1, "department": 10}, {"id": 2, "department": 11},
              {"id": 3, "department": {"id": 10}}]}
            """
        )
        #expect(staged("Department") == ["id=10", "id=11"])
        #expect(staged.origins("Department") == [.record, .stub])
    }

    @Test func `the least demanding bare key of an object decides`() throws {
        let staged = try staging.stage(
            """
            {"Employee": [{"id": 1, "badge": "a", "locker": "b"}, {"id": 2, "badge": "b", "locker": "c"},
              {"id": 3, "tool": "a"}]}
            """
        )
        #expect(staged("Item") == ["code=a", "code=b", "code=c"])
        #expect(staged.origins("Item") == [.stub, .mustExist, .mayBeMissing])
    }

    @Test(arguments: [
        (#"{"Employee": {"id": 1, "department": [10]}}"#, "/Employee/department"),
        (#"{"Employee": {"id": 1, "department": "x"}}"#, "/Employee/department"),
        (#"{"Department": {"id": 1, "employees": [1, null]}}"#, "/Department/employees/1"),
        (#"{"Department": {"id": 1, "employees": [[1]]}}"#, "/Department/employees/0"),
        (#"{"Employee": {"id": 1, "seat": 5}}"#, "/Employee/seat"),
        (#"{"Employee": {"id": 1, "notes": ["x"]}}"#, "/Employee/notes/0"),
    ])
    func `a value that cannot name an object is an invalid value with its path`(payload: String, path: String) throws {
        let fault = try #require(try staging.fault(payload))
        #expect(fault.code == .invalidValue)
        #expect(fault.path == path)
    }

    @Test func `objects with a compound identity, or without one, are linked as records`() throws {
        let staged = try staging.stage(
            #"{"Employee": {"id": 1, "seat": {"row": "A", "number": 4}, "notes": [{"text": "x"}, {"text": "x"}]}}"#)
        #expect(staged("Employee") == ["id=1 seat=@A/4"])
        #expect(staged("Note") == ["text=x", "text=x"])
        #expect(staged.links == ["Employee.notes 1-#0 named by 1", "Employee.notes 1-#1 named by 1"])
    }

    @Test func `with skip the smallest object is rejected, and its parent loses only the link`() throws {
        let staged = try staging.stage(
            """
            {"Employee": [{"id": 1, "name": "a", "department": {"id": 10, "name": []},
              "manager": {"id": 2, "manager": "x"}},
              {"id": "y", "department": {"id": 12}}],
             "Department": [{"id": 11, "employees": [{"id": 3}, {"name": "z"},
               {"id": 4, "department": {"id": 13, "name": {}}}]}]}
            """, .skip)
        #expect(
            staged("Employee") == [
                "id=1 name=a manager=@2", "id=2", "id=3 department=@11", "id=4 department=@11",
            ])
        #expect(staged("Department") == ["id=11"])
        #expect(
            staged.rejections == [
                "invalidValue /Employee/0/department/name", "invalidValue /Employee/0/manager/manager",
                "invalidValue /Employee/1/id", "missingIdentity /Department/0/employees/1",
                "invalidValue /Department/0/employees/2/department/name",
            ])
    }
}
