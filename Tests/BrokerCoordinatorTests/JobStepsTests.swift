import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore
import Synchronization
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

    private static func model(_ routes: [String]) throws -> Model {
        try ModelReader.read(
            JSONText(
                copying: Array(
                    """
                    {"entities": {"E": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}},
                     "mappings": {"m": {"entity": "E"}}, "routes": [\(routes.joined(separator: ","))]}
                    """.utf8)))
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
        let model = try Self.model([])
        let deletes = Array(repeating: #"{"json": [1]}"#, count: 1_000)
        let taken = try #require(try memory(deletes, in: model) { _ in .delete })
        #expect(taken >= 1_000 * MemoryLayout<StepPlan>.stride)
        #expect(try memory(deletes, in: model, limit: taken - 1) { _ in .delete } == nil)
    }

    @Test func `the routes of a path take memory once for operations with the same path, and once for each other path`()
        throws
    {
        let model = try Self.model((0..<50).map { _ in #"{"path": "/a/:id", "mapping": "m", "keyPath": "k"}"# })
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
            [#"{"json": [], "arguments": \#(arguments)}"#], in: Self.model([])
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
            try memory([#"{"mapping": "\#(long)", "json": {}}"#], in: Self.model([])) {
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
        let model = try ModelReader.read(
            JSONText(
                copying: Array(
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
                    """.utf8)))
        let document = try JSONDocument(parsing: JSONText(copying: Array("[1]".utf8)))
        let searches = model.entities.map(\.name).filter { name in
            JobOperation(entity: name, json: document.root, .delete, entityPointer: "/entity").isSearch(in: model)
        }
        // A row is linked to one parent, one tag and, by a relationship without inverse, to any number of guards.
        #expect(searches == ["Parent", "Row", "Tag", "Guard", "Base", "Child"])
    }

    @Test func `an operation that may read all objects is a search, and another is none`() throws {
        let model = try ModelReader.read(
            JSONText(
                copying: Array(
                    #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#.utf8)))
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
}
