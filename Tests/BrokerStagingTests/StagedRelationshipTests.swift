import BrokerModel
import TestSupport
import Testing

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
                "Employee.projects 3-7 named by 3 and 7", "Employee.projects 3-8 named by 3",
            ])
    }

    @Test func `a relationship that is its own inverse links both ways, and an object to itself once`() throws {
        let staged = try staging.stage(#"{"Employee": {"id": 1, "friends": [2, 1]}}"#)
        #expect(
            staged.links == [
                "Employee.friends 1-2 named by 1", "Employee.friends 2-1 named by 1",
                "Employee.friends 1-1 named by 1 and 1",
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
              "manager": {"id": 2, "manager": "x"}}, {"id": "y", "department": {"id": 12}}],
             "Department": [{"id": 11, "employees": [{"id": 3}, {"name": "z"},
               {"id": 4, "department": {"id": 13, "name": {}}}]}]}
            """, .skip)
        #expect(staged("Employee") == ["id=1 name=a manager=@2", "id=2", "id=3 department=@11", "id=4 department=@11"])
        #expect(staged("Department") == ["id=11"])
        #expect(
            staged.rejections == [
                "invalidValue /Employee/0/department/name", "invalidValue /Employee/0/manager/manager",
                "invalidValue /Employee/1/id", "missingIdentity /Department/0/employees/1",
                "invalidValue /Department/0/employees/2/department/name",
            ])
    }
}

/// One-to-one pairs are consistent on both sides at every step of a job.
@Suite(.timeLimit(.minutes(5))) struct StagedOneToOneTests {
    private let staging: Staging

    init() throws { staging = try Staging(company) }

    @Test func `a link exists on both sides`() throws {
        let staged = try staging.stage(#"{"Employee": {"id": 1, "desk": {"id": 50}}, "Desk": {"id": 51, "owner": 2}}"#)
        #expect(staged("Employee") == ["id=1 desk=@50", "id=2 desk=@51"])
        #expect(staged("Desk") == ["id=50 owner=@1", "id=51 owner=@2"])
    }

    @Test(arguments: [
        #"{"Employee": [{"id": 1, "desk": 50}, {"id": 2, "desk": 51}, {"id": 1, "desk": 51}]}"#,
        #"{"Employee": [{"id": 1, "desk": 50}, {"id": 1, "desk": null}]}"#,
        #"{"Employee": [{"id": 1, "desk": 50}], "Desk": {"id": 50, "owner": null}}"#,
        #"{"Employee": [{"id": 1, "spouse": 2}, {"id": 3, "spouse": {"id": 2}}]}"#,
        #"{"Employee": [{"id": 1, "spouse": 1}, {"id": 1, "spouse": 2}]}"#,
    ])
    func `records that give an object several partners are applied one after the other`(_ payload: String) throws {
        #expect(try staging.stage(payload).rows.reason == .links)
    }

    @Test func `naming the same partner again changes nothing`() throws {
        let staged = try staging.stage(#"{"Employee": {"id": 1, "desk": {"id": 50, "owner": {"id": 1, "desk": 50}}}}"#)
        #expect(staged("Employee") == ["id=1 desk=@50"])
        #expect(staged("Desk") == ["id=50 owner=@1"])
    }

    @Test func `a pair within one entity, even of an object with itself`() throws {
        let staged = try staging.stage(#"{"Employee": [{"id": 1, "spouse": 2}]}"#)
        #expect(staged("Employee") == ["id=1 spouse=@2", "id=2 spouse=@1"])
        #expect(staged.rows.reason == nil)
        let itself = try staging.stage(#"{"Employee": [{"id": 4, "spouse": 4}]}"#)
        #expect(itself("Employee") == ["id=4 spouse=@4"])
        #expect(itself.rows.reason == .links, "the inverse key of the record may say something else")
    }

    @Test func `pairs come along in united collections`() throws {
        let staged = try staging.stage(
            #"{"Employee": [{"id": 1, "desk": 50}], "Desk": {"id": 51, "owner": 2}, "Employee": {"id": 2, "desk": 51}}"#
        )
        #expect(staged("Employee") == ["id=1 desk=@50", "id=2 desk=@51"])
        #expect(staged("Desk") == ["id=50 owner=@1", "id=51 owner=@2"])
        #expect(staged.rows.reason == nil)
    }
}

/// Collections are staged separately, and their union equals the result of one context.
@Suite(.timeLimit(.minutes(5))) struct StagedUnitingTests {
    @Test func `later collections win attribute by attribute, and links come along`() throws {
        let staged = try Staging(company).stage(
            """
            {"Employee": [{"id": 1, "name": "a", "department": 10}, {"id": 2}], "Department": [{"id": 10, "name": "x"}],
             "Employee": [{"id": 2, "name": "b"}, {"id": 1, "department": null}],
               "Department": {"id": 11, "employees": [1]}}
            """)
        #expect(staged("Employee") == ["id=1 name=a department=@11", "id=2 name=b"])
        #expect(staged("Department") == ["id=10 name=x", "id=11"])
        #expect(staged.origins("Department") == [.record, .record])
    }

    @Test func `rejections of all collections are listed in payload order`() throws {
        let staged = try Staging(company).stage(
            #"{"Employee": [{"id": "x"}], "Department": [{}], "Employee": [{"id": 1}, {"id": "y"}]}"#, .skip)
        #expect(
            staged.rejections == [
                "invalidValue /Employee/0/id", "missingIdentity /Department/0", "invalidValue /Employee/1/id",
            ])
    }

    @Test func `a job without operations is one empty collection`() throws {
        #expect(try Staging(company).stage("{}")("Employee") == [])
    }

    @Test func `random collections, staged separately and united, equal those staged in one context`() throws {
        let staging = try Staging(company)
        var generator = SeededGenerator(for: "collections united")
        for _ in 0..<300 {
            var payload = CompanyPayload(generator: generator)
            let text = payload.collections(count: 6)
            generator = payload.generator
            let apart = try staging.stage(text, .skip)
            let together = try staging.stageTogether(text, .skip)
            for entity in staging.plan.model.entities.map(\.name) {
                #expect(apart(entity).sorted() == together(entity).sorted(), "\(entity) of \(text)")
            }
            #expect(apart.links.sorted() == together.links.sorted(), "\(text)")
            #expect(apart.replacements.sorted() == together.replacements.sorted(), "\(text)")
            #expect(apart.rejections == together.rejections, "\(text)")
            #expect(apart.warnings.sorted() == together.warnings.sorted(), "\(text)")
        }
    }
}

/// Values that a nested record takes from the record around it.
@Suite(.timeLimit(.minutes(5))) struct StagedHolderTests {
    /// Lines are identified by their order and their place, and may be in an offer, too.
    private static let model = """
        {"entities": {
          "Order": {"identity": "id", "attributes": {"id": {"type": "integer64", "key": "head.id"}, "note": "string"},
             "relationships": {"lines": {"entity": "Line", "toMany": true, "key": "body.lines"},
                               "best": {"entity": "Line"}}},
          "Offer": {"identity": "id", "attributes": {"id": "integer64"},
             "relationships": {"lines": {"entity": "Line", "toMany": true, "mapping": "lines"}}},
          "Line": {"identity": ["order", "place"], "attributes": {
             "order": {"type": "integer64", "key": "@parent.id"}, "place": {"type": "integer64", "key": ["at", "@parent.@index"]},
             "sku": "string"}},
          "Plain": {"relationships": {"lines": {"entity": "Line", "toMany": true}}}},
         "mappings": {"lines": {"entity": "Line", "nestingKey": "sku", "collection": true}}}
        """

    private func model(_ change: (String) -> String = { $0 }) throws -> Staging {
        try Staging(
            change(
                Self.model.replacing(
                    #""Plain": {"relationships": {"lines": {"entity": "Line", "toMany": true}}}"#, with: #""Plain": {}"#
                )))
    }

    @Test func `a nested record has its holder's identity and its place`() throws {
        let staged = try model().stage(
            #"{"Order": [{"body": {"lines": [{"sku": "a"}, {"sku": "b"}]}, "head": {"id": 7}}, "#
                + #"{"head": {"id": 8}, "body": {"lines": {"sku": "c"}}, "best": {"sku": "d"}}]}"#)
        #expect(staged("Line") == ["order=7 place=0 sku=a", "order=7 place=1 sku=b", "order=8 place=0 sku=d"])
    }

    @Test func `a key of the record before the holder's counts first`() throws {
        let staged = try model().stage(
            #"{"Order": {"head": {"id": 7}, "body": {"lines": [{"at": 5}, {"at": null}, {}]}}}"#)
        #expect(staged("Line") == ["order=7 place=5", "order=7 place=1", "order=7 place=2"])
    }

    @Test func `the places of a dictionary are those of its members`() throws {
        let staged = try model().stage(#"{"Offer": {"id": 3, "lines": [{"a": {}, "b": {}}, {"c": {}}]}}"#)
        #expect(staged("Line") == ["order=3 place=0 sku=a", "order=3 place=1 sku=b", "order=3 place=2 sku=c"])
    }

    @Test func `skipped elements count`() throws {
        let staged = try model().stage(
            #"{"Order": {"head": {"id": 7}, "body": {"lines": [{"sku": "a"}, {"sku": []}, null, {"sku": "b"}]}}}"#,
            .skip)
        #expect(staged("Line") == ["order=7 place=0 sku=a", "order=7 place=3 sku=b"])
        #expect(staged.rejections == ["invalidValue /Order/body/lines/1/sku", "invalidValue /Order/body/lines/2"])
    }

    @Test func `a record that is not nested has no such value`() throws {
        let fault = try #require(try model().fault(#"{"Line": {"sku": "a"}}"#))
        #expect(fault.code == .missingIdentity)
        #expect(fault.message.contains(#"identity order (key "@parent.id"). Send the record nested"#))
    }

    @Test func `faults of a job that fails are found in the order of the text`() throws {
        let staging = try model()
        let text = #"{"Order": {"body": {"lines": [{"sku": []}]}, "head": {"id": 7}, "note": {}}}"#
        #expect(try staging.fault(text)?.path == "/Order/body/lines/0/sku")
        let good = text.replacing("[]", with: "1")
        #expect(try staging.fault(good)?.path == "/Order/note")
        // A holder whose own identity is wrong makes no nested record wrong.
        #expect(try staging.fault(good.replacing("7", with: #""x""#))?.path == "/Order/head/id")
    }

    @Test func `parts of a job are staged as the whole is`() throws {
        let staging = try model()
        let text =
            #"{"Order": {"head": {"id": 7}, "body": {"lines": [{"sku": "a"}]}}, "Line": [], "#
            + #""Offer": {"id": 7, "lines": {"b": {}}}}"#
        #expect(try staging.stage(text)("Line") == ["order=7 place=0 sku=b"])
        #expect(try staging.stageTogether(text)("Line") == ["order=7 place=0 sku=b"])
    }

    // MARK: - Owned records

    private static let owned = """
        {"entities": {
          "Order": {"identity": "id", "attributes": {"id": "integer64"},
             "relationships": {"lines": {"entity": "Line", "toMany": true, "owned": true}}},
          "Line": {"attributes": {"sku": "string"}, "relationships": {"product": {"entity": "Product", "inverse": "lines"}}},
          "Product": {"identity": "id", "attributes": {"id": "integer64"},
             "relationships": {"lines": {"entity": "Line", "toMany": true}}}}}
        """

    @Test(arguments: [
        (#"{"Line": {"sku": "a"}}"#, "missingIdentity /Line"),
        (#"{"Product": {"id": 1, "lines": [{"sku": "a"}]}}"#, "missingIdentity /Product/lines/0"),
        (#"{"Order": {"id": 1, "lines": [5]}}"#, "invalidValue /Order/lines/0"),
        (#"{"Order": {"id": 1, "lines": "x"}}"#, "invalidValue /Order/lines"),
    ])
    func `an owned record is nested in its owner's`(payload: String, fault: String) throws {
        let staged = try Staging(Self.owned).stage(payload, .skip)
        #expect(staged.rejections == [fault])
        #expect(staged("Line").isEmpty)
    }

    @Test func `two records that say what an object owns are applied one after the other`() throws {
        let staging = try Staging(Self.owned)
        let text =
            #"{"Order": [{"id": 1, "lines": [{"sku": "a"}, {"sku": "b"}]}, {"id": 1, "lines": [{"sku": "c"}]}, "#
            + #"{"id": 2, "lines": [{"sku": "d"}]}, {"id": 2}]}"#
        #expect(try staging.stage(text).rows.reason == .links)
        let parts = text.replacing(#"]}, {"id": 1, "#, with: #"]}], "Product": [], "Order": [{"id": 1, "#)
        #expect(try staging.stage(parts).rows.reason == .links)
        #expect(try staging.stage(#"{"Order": [{"id": 1, "lines": [{"sku": "a"}]}, {"id": 1}]}"#).rows.reason == nil)
    }
}
