import BrokerJSON
import BrokerJournal
import BrokerModel
import BrokerStaging
import BrokerStore
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import BrokerCoordinator

/// The memory that the operations of a job take before anything is staged.
@Suite(.timeLimit(.minutes(5))) struct JobStepsTests {
    private final class Allowance: StagingAllowance {
        let taken = Atomic(0)
        let limit: Int

        init(_ limit: Int) { self.limit = limit }

        func take(_ bytes: Int) -> Bool { taken.add(bytes, ordering: .relaxed).newValue <= limit }
    }

    private static func model(_ text: String) throws -> Model {
        try ModelReader.read(JSONText(copying: Array(text.utf8)))
    }

    private static func model(routes: [String] = []) throws -> Model {
        try Self.model(
            """
            {"entities": {"E": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}},
             "mappings": {"m": {"entity": "E"}}, "routes": [\(routes.joined(separator: ","))]}
            """)
    }

    /// The memory of operations' steps; nil when they are refused.
    ///
    /// - Parameter operations: members of an array, each with the `json` and the other fields of an operation.
    private func memory(
        _ operations: [String], in model: Model, limit: Int = .max,
        _ action: (JSONValue) -> JobOperation.Action
    ) throws -> Int? {
        let text = JSONText(copying: Array("[\(operations.joined(separator: ","))]".utf8))
        let document = try JSONDocument(parsing: text)
        let operations = document.root.elements.map {
            JobOperation(entity: "E", json: $0["json"]!, action($0), entityPointer: "/entity")
        }
        let allowance = Allowance(limit)
        do throws(StagingRefusal) {
            _ = try JobSteps(ShortList(operations), in: document, model, allowance)
            return allowance.taken.load(ordering: .relaxed)
        } catch {
            guard case .noRoom = error else { throw error }
            return nil
        }
    }

    @Test func `each step takes memory`() throws {
        let model = try Self.model(routes: [])
        let deletes = Array(repeating: #"{"json": [1]}"#, count: 1_000)
        let taken = try #require(try memory(deletes, in: model) { _ in .delete })
        #expect(taken >= 1_000 * MemoryLayout<StepPlan>.stride)
        #expect(try memory(deletes, in: model, limit: taken - 1) { _ in .delete } == nil)
    }

    @Test func `the routes of a path take memory once for operations with the same path, and once for each other path`()
        throws
    {
        let model = try Self.model(routes: (0..<50).map { _ in #"{"path": "/a/:id", "mapping": "m", "keyPath": "k"}"# })
        func taken(_ paths: [String]) throws -> Int {
            let operations = paths.map { #"{"path": "\#($0)", "json": {"k": {"id": 1}}}"# }
            return try #require(try memory(operations, in: model) { .map(mapping: nil, path: $0["path"]) })
        }
        let value = String(repeating: "x", count: 1_000)
        let one = try taken(["/a/\(value)"])
        // The value is in the parameters of each route.
        #expect(one > 50 * value.utf8.count)
        let step = try taken(["/a/\(value)", "/a/\(value)"]) - one
        #expect(step < one / 10)
        #expect(try taken((0..<100).map { _ in "/a/\(value)" }) == one + 99 * step)
        #expect(try taken((0..<100).map { "/a/\(value)\($0 % 10)" }) >= 100 * one)
    }

    @Test func `the definition of a part of a sync takes as much as its arguments`() throws {
        let arguments = "[\"\(String(repeating: "a", count: 100_000))\"]"
        let part = try memory(
            [#"{"json": [], "arguments": \#(arguments)}"#], in: Self.model(routes: [])
        ) {
            .sync(
                where: "name == %@", arguments: $0["arguments"], actions: (true, true, true),
                part: (id: "p", isLast: true))
        }
        #expect(try #require(part) > 100_000)
    }

    @Test func `a text that is longer than any name names no mapping, and is not decoded`() throws {
        let long = String(repeating: "m", count: 10_000)
        let error = #expect(throws: StagingRefusal.self) {
            try memory([#"{"mapping": "\#(long)", "json": {}}"#], in: Self.model(routes: [])) {
                .map(mapping: $0["mapping"], path: nil)
            }
        }
        guard case .fault(let fault) = error else {
            Issue.record("it was staged")
            return
        }
        #expect(fault.code == .unknownMapping)
        #expect(fault.message.utf8.count < 500)
    }

    @Test func `a deletion that may reach many objects is a search, and another is none`() throws {
        let model = try Self.model(
            """
            {"entities": {
                "Parent": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"rows": {"entity": "Row", "toMany": true, "inverse": "parent"}}},
                "Row": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"parent": {"entity": "Parent", "inverse": "rows"}, "tag": {"entity": "Tag"}}},
                "Tag": {"identity": "id", "attributes": {"id": "integer64"}},
                "Key": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"lock": {"entity": "Lock", "inverse": "key"}}},
                "Lock": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"key": {"entity": "Key", "inverse": "lock"}}},
                "Guard": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"row": {"entity": "Row", "deleteRule": "deny"}}},
                "Base": {"identity": "id", "attributes": {"id": "integer64"}},
                "Child": {"parent": "Base", "relationships": {"tags": {"entity": "Tag", "toMany": true}}}}}
            """)
        let document = try JSONDocument(parsing: JSONText(copying: Array("[1]".utf8)))
        let searches = model.entities.map(\.name).filter { name in
            JobOperation(entity: name, json: document.root, .delete, entityPointer: "/entity").isSearch(in: model)
        }
        // A row is linked to one parent, one tag and, by a relationship without inverse, to any number of guards.
        #expect(searches == ["Parent", "Row", "Tag", "Guard", "Base", "Child"])
    }

    @Test func `an operation that may read all objects is a search, and another is none`() throws {
        let model = try Self.model(Models.of(["Row": "id integer64"]))
        let document = try JSONDocument(parsing: JSONText(copying: Array("[1]".utf8)))
        let key = document.root
        func isSearch(_ action: JobOperation.Action) -> Bool {
            JobOperation(entity: "Row", json: key, action, entityPointer: "/entity").isSearch(in: model)
        }
        func sync(deletes: Bool = true, part isLast: Bool? = nil) -> JobOperation.Action {
            .sync(
                where: nil, arguments: nil, actions: (inserts: true, updates: true, deletes: deletes),
                part: isLast.map { (id: "s", isLast: $0) })
        }
        for action in [.process(object: key), .deleteMatching(where: nil, arguments: nil), sync(), sync(part: true)] {
            #expect(isSearch(action), "\(action)")
        }
        for action in [
            .process(object: nil), .delete, .relate(object: key, relationship: key), .map(mapping: nil, path: nil),
            sync(deletes: false), sync(part: false),
        ] { #expect(!isSearch(action), "\(action)") }
    }

    private static let linkedModel = """
        {"entities": {
            "Team": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
                "members": {"entity": "Member", "toMany": true, "inverse": "team"},
                "tags": {"entity": "Tag", "toMany": true, "assignment": "replace", "key": ["extra.labels"]},
                "list": {"entity": "Tag", "toMany": true, "ordered": true},
                "notes": {"entity": "Note", "toMany": true, "owned": true},
                "plan": {"entity": "Plan", "owned": true}}},
            "Member": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"team": {"entity": "Team", "inverse": "members"}}},
            "Tag": {"identity": "id", "attributes": {"id": "integer64"}},
            "Note": {"attributes": {"text": "string"}}, "Plan": {"attributes": {"text": "string"}}}}
        """

    /// The content of a job that processes a record of a team.
    private func content(
        _ record: String, _ model: String = linkedModel, operations: Int = 1, _ change: (Job) -> Void = { _ in }
    ) throws -> ScanContent {
        let plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(model.utf8))))
        let text = JSONText(copying: Array(record.utf8))
        let document = try JSONDocument(parsing: text)
        let operation = JobOperation(entity: "Team", json: document.root, entityPointer: "/entity")
        let job = Job(
            id: nil, document: document, operations: ShortList(Array(repeating: operation, count: operations)),
            policy: .fail, wantsKeys: false, wantsAcceptance: false, content: text, observer: { _ in })
        change(job)
        return withExtendedLifetime(document) { job.content(under: plan) }
    }

    @Test(arguments: [
        (#"{"id": 1, "name": "a"}"#, false), (#"{"id": 1, "members": [{"id": 1}, 2]}"#, false),
        (#"{"id": 1, "members": null}"#, true), (#"{"id": 1, "extra": {"labels": []}}"#, true),
        (#"{"id": 1, "list": [4]}"#, true), (#"{"id": 1, "notes": [{"text": "a"}]}"#, true),
        (#"{"id": 1, "plan": null}"#, true), (#"[{"id": 1}, {"id": 2, "members": [{"team": {"notes": []}}]}]"#, true),
        (#"{"id": 1, "tags": []}"#, false),
    ])
    func `a record that may end very many links or delete very many objects makes its job take turns`(
        record: String, isLinking: Bool
    ) throws {
        #expect(try content(record) == (isLinking ? .linking : .job))
        // A job that is undone may be sent again.
        let undone: ScanContent = isLinking ? .search : .job
        #expect(try content(record) { $0.isDryRun = true } == undone)
        #expect(try content(record) { $0.mayDelete = false } == undone)
        #expect(try content(record) { $0.maximumDeletions = .objects(5) } == undone)
        #expect(try content(record, operations: 2) == undone)
        let denying = Self.linkedModel.replacing(
            #""inverse": "members"}"#, with: #""inverse": "members", "deleteRule": "deny"}"#)
        #expect(try content(record, denying) == undone)
    }

    @Test func `any record of a model with a tombstone that deletes others makes its job take turns`() throws {
        let model = Self.linkedModel.replacing(
            #""Team": {"identity""#, with: #""Team": {"tombstone": "name == 'gone'", "identity""#)
        #expect(try content(#"{"id": 1}"#, model) == .linking)
    }
}
