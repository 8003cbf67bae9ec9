import BrokerModel
import TestSupport
import Testing

@testable import BrokerStaging

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
