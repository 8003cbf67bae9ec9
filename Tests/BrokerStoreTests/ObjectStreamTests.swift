import BrokerJSON
import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// The parts of a streamed fetch.
@Suite(.timeLimit(.minutes(5))) struct ObjectStreamTests {
    private static let model = """
        {"entities": {
          "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
            "employees": {"entity": "Employee", "toMany": true, "inverse": "department"}}},
          "Employee": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
            "department": {"entity": "Department", "inverse": "employees"}}}}}
        """

    /// 40 departments, of which some have many employees and some none.
    private func company(employees count: Int = 2_000) throws -> TestStore {
        let store = try TestStore(Self.model)
        let employees = (1...count).map { number in
            #"{"id": \#(number), "name": "\#(String(repeating: "n", count: number % 97))", "department": \#(number * number % 40)}"#
        }
        let departments = (0..<40).map { #"{"id": \#($0), "name": "d\#($0 % 7)"}"# }
        try store.apply(
            #"{"Department": [\#(departments.joined(separator: ","))], "Employee": [\#(employees.joined(separator: ","))]}"#
        )
        return store
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let entity: String
        var predicate: String?
        var sort: [String] = []
        var include: [String] = []
        var offset = 0
        var limit: Int?
        var testDescription: String { "\(entity) \(predicate ?? "") \(sort) \(include) \(offset) \(limit ?? -1)" }

        func request(_ plan: StagingPlan, isStreamed: Bool) throws -> FetchRequest {
            var description = FetchDescription(entity: entity)
            description.predicate = predicate
            description.sort = sort
            description.include = include
            description.offset = offset
            description.limit = limit
            description.isStreamed = isStreamed
            return try plan.fetchRequest(description)
        }
    }

    @Test(arguments: [
        Case(entity: "Employee"), Case(entity: "Employee", predicate: "department.name == 'd3'"),
        Case(entity: "Employee", sort: ["department.name", "-name"], offset: 7, limit: 300),
        Case(entity: "Employee", include: ["department.employees"], limit: 50),
        Case(entity: "Department", include: ["employees"]),
        Case(entity: "Department", include: ["employees.department"]),
        Case(entity: "Department", sort: ["-name"], include: ["employees"], offset: 3, limit: 30),
        Case(entity: "Employee", limit: 0), Case(entity: "Employee", predicate: "FALSEPREDICATE"),
        Case(entity: "Employee", limit: 400), Case(entity: "Employee", offset: 399),
    ])
    func `the parts of a stream are the whole, whatever their size is`(_ fetch: Case) throws {
        let store = try company(employees: 400)
        let reader = try StoreReader(path: store.path, plan: store.plan)
        let whole = try reader.fetch(fetch.request(store.plan, isStreamed: false))
        #expect(!whole.hasMore || fetch.limit != nil)
        let request = try fetch.request(store.plan, isStreamed: true)
        for bytes in [1, 300, 5_000, 1 << 20] {
            let limits = FetchLimits(
                answerBytes: bytes, objectBytes: 1 << 20, certainBytes: 1 << 20, gatheredBytes: 1 << 20)
            let parts = try self.parts(ObjectStream(request, on: reader, limits))
            #expect(whole.bytes == Array("[\(parts.map { $0.dropFirst().dropLast() }.joined(separator: ","))]".utf8))
            // No part is empty, but for one of no objects.
            #expect(parts.count == 1 || !parts.contains("[]"))
            for part in parts { #expect(part.utf8.count <= bytes + 1 || part.matches(of: #/"id"/#).count > 0) }
            if bytes == 1 { #expect(parts.count == max(1, try count(whole))) }
        }
    }

    private func parts(_ stream: ObjectStream) throws -> [String] {
        defer { stream.end() }
        var parts: [String] = []
        while true {
            let part = try stream.next()
            parts.append(String(decoding: part.bytes, as: UTF8.self))
            guard part.hasMore else { return parts }
        }
    }

    private func count(_ objects: FetchedObjects) throws -> Int {
        let document = try JSONDocument(parsing: JSONText(copying: objects.bytes))
        return withExtendedLifetime(document) { Array(document.root.elements).count }
    }

    @Test func `all parts are of one moment, whatever is written between them`() throws {
        let store = try company()
        let reader = try StoreReader(path: store.path, plan: store.plan)
        let request = try Case(entity: "Employee", include: ["department"]).request(store.plan, isStreamed: true)
        let before = try reader.fetch(
            Case(entity: "Employee", include: ["department"]).request(store.plan, isStreamed: false))
        let limits = FetchLimits(answerBytes: 10_000, certainBytes: 1 << 20, gatheredBytes: 1 << 20)
        let stream = ObjectStream(request, on: reader, limits)
        var parts: [String] = []
        var part = try stream.next()
        while part.hasMore {
            parts.append(String(decoding: part.bytes, as: UTF8.self))
            let round = parts.count
            try store.apply(
                #"{"Employee": [{"id": \#(round), "name": "new"}, {"id": \#(3_000 + round)}, {"id": \#(2_001 - round), "department": 0}], "Department": {"id": \#(round), "name": "new"}}"#
            )
            part = try stream.next()
        }
        parts.append(String(decoding: part.bytes, as: UTF8.self))
        stream.end()
        #expect(parts.count > 5)
        #expect(before.bytes == Array("[\(parts.map { $0.dropFirst().dropLast() }.joined(separator: ","))]".utf8))
    }

    @Test func `an object that is larger than a part is a part, and one that no answer holds is a fault`() throws {
        let store = try TestStore(Self.model)
        let large = String(repeating: "x", count: 5_000)
        try store.apply(#"{"Employee": [{"id": 1}, {"id": 2, "name": "\#(large)"}, {"id": 3}, {"id": 4}]}"#)
        let reader = try StoreReader(path: store.path, plan: store.plan)
        let request = try Case(entity: "Employee").request(store.plan, isStreamed: true)
        var limits = FetchLimits(answerBytes: 1_000, objectBytes: 6_000, certainBytes: 1_000, gatheredBytes: 20_000)
        let parts = try self.parts(ObjectStream(request, on: reader, limits))
        #expect(parts.map { $0.matches(of: #/"id"/#).count } == [1, 1, 2])
        limits.objectBytes = 5_000
        let stream = ObjectStream(request, on: reader, limits)
        defer { stream.end() }
        #expect(try stream.next().hasMore)
        #expect(throws: FetchFailure.self) { try stream.next() }
    }

    @Test
    func `a stream has no default limit, each part has the key of its last object, and only the last has no more`()
        throws
    {
        let store = try TestStore(Self.model)
        let rows = (1...12_000).map { #"{"id": \#($0)}"# }.joined(separator: ",")
        try store.apply(#"{"Department": [\#(rows)]}"#)
        let reader = try StoreReader(path: store.path, plan: store.plan)
        for limit in [nil, 11_000, 200_000] as [Int?] {
            let request = try Case(entity: "Department", limit: limit).request(store.plan, isStreamed: true)
            let limits = FetchLimits(answerBytes: 100_000, certainBytes: 1 << 20, gatheredBytes: 1 << 20)
            let stream = ObjectStream(request, on: reader, limits, in: TestStore.keyEnvelope)
            let ids = try parts(stream).flatMap { part in
                let lines = part.split(separator: "\n")
                let ids = lines[0].matches(of: #/"id":(\d+)/#).map { Int($0.1)! }
                #expect(ids.last == Int(lines[1]))
                return ids
            }
            #expect(ids == Array(1...min(12_000, limit ?? .max)))
        }
    }

    @Test func `the read transaction lasts from the first part to the end`() throws {
        let store = try company()
        let reader = try StoreReader(path: store.path, plan: store.plan)
        let request = try Case(entity: "Employee").request(store.plan, isStreamed: true)
        let limits = FetchLimits(answerBytes: 1_000, certainBytes: 1 << 20, gatheredBytes: 1 << 20)
        let stream = ObjectStream(request, on: reader, limits)
        #expect(try !isHeld(store), "nothing is read yet")
        try store.apply(#"{"Department": {"id": 50}}"#)
        #expect(try stream.next().hasMore)
        try store.apply(#"{"Department": {"id": 51}}"#)
        #expect(try isHeld(store))
        stream.end()
        stream.end()
        #expect(try !isHeld(store))
    }

    /// Copies the WAL. Returns whether a reader held a part of it.
    private func isHeld(_ store: TestStore) throws -> Bool {
        let result = try store.ownRows("PRAGMA wal_checkpoint(PASSIVE)")[0].split { !$0.isNumber }
        try #require(result.count == 3)
        return result[1] != result[2]
    }

    @Test func `a part that no client wants is interrupted`() throws {
        let store = try company()
        let reader = try StoreReader(path: store.path, plan: store.plan)
        let request = try Case(entity: "Employee", predicate: "name MATCHES '(n*)*x'").request(
            store.plan, isStreamed: true)
        let stream = ObjectStream(request, on: reader) { false }
        defer { stream.end() }
        #expect(throws: FetchFailure.self) { try stream.next() }
    }

    @Test(arguments: [FetchResult.object, .dictionary])
    func `a stream is an array`(result: FetchResult) throws {
        let store = try company()
        var description = FetchDescription(entity: "Employee")
        description.isStreamed = true
        description.result = result
        let fault = #expect(throws: Fault.self) { try store.plan.fetchRequest(description) }
        #expect(fault?.code == .unsupportedMessage)
        #expect(fault?.path == "/stream")
    }
}
