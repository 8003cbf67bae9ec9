import BrokerJSON
import BrokerModel
import BrokerStaging
import CSQLite
import TestSupport
import Testing

@testable import BrokerStore

/// Pages of objects after a key.
@Suite(.timeLimit(.minutes(5))) struct FetchAfterTests {
    struct Identity: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// The attribute of the identity.
        let attribute: String
        /// JSON values, in no order.
        let values: [String]

        /// - Parameter values: with spaces between them.
        init(_ description: String, _ attribute: String, _ values: String) {
            (testDescription, self.attribute) = (description, attribute)
            self.values = values.split(separator: " ").map(String.init)
        }
    }

    static let identities = [
        Identity("integers", #""integer64""#, "-9223372036854775808 -1 0 3 20 9223372036854775807"),
        Identity(
            "texts, by their bytes", #""string""#, #""B" "" "a" "aa" "z" "\u00e9" "e\u0301" "\u0000x" "%" "😀" "￿""#),
        Identity(
            "decimals, by their stored texts", #""decimal""#,
            "10 9.5 -1 0.1 123456789012345678901234567890.25 1.50"),
        Identity(
            "doubles", #""double""#, "0.1 -2.5 1e300 -1e-300 0 4.9406564584124654e-324 9007199254740993"),
        Identity("floats", #""float""#, "0.1 16777217 -3.25"),
        Identity("booleans", #""boolean""#, "true false"),
        Identity(
            "UUIDs", #""uuid""#,
            #""00000000-0000-0000-0000-00000000000a" "F0000000-0000-0000-0000-000000000000" "#
                + #""00000000-0000-0000-0000-000000000000""#),
        Identity("binary", #""binary""#, #""AA==" "" "/w==" "AP8=" "YWJj""#),
        Identity("URIs", #""uri""#, #""http://b.example/" "http://a.example/?q=%20""#),
        Identity(
            "dates", #""date""#,
            #""2011-12-22T02:24:51.001Z" "2011-12-22T02:24:51Z" "0001-01-01T00:00:00Z" 1e9"#),
        Identity(
            "dates of a format that loses the time of the day",
            #"{"type": "date", "format": "yyyy-MM-dd", "storage": "coreData"}"#,
            #""2011-12-22" 1324520691.0000001 1324520691.0000004 -3.25 978307200"#),
        Identity(
            "dates in seconds", #"{"type": "date", "format": "UnixTime", "storage": "unix"}"#, "1324520691 5 -7"),
    ]

    private func model(_ attribute: String) -> String {
        #"{"entities": {"Row": {"identity": "k", "attributes": {"k": \#(attribute), "n": "integer64"}}}}"#
    }

    @Test(arguments: identities) func `pages after a key of any type are the whole`(_ identity: Identity) throws {
        let store = try TestStore(model(identity.attribute))
        let rows = identity.values.enumerated().map { #"{"k": \#($1), "n": \#($0)}"# }.joined(separator: ",")
        try store.apply(#"{"Row": [\#(rows)]}"#)
        #expect(try store.rows(#"SELECT count(*) FROM "Row""#) == ["\(identity.values.count)"])
        let order = try store.rows(#"SELECT n FROM "Row" ORDER BY k"#)
        for page in 1...3 { #expect(try store.pages("Row", "n", of: page) == order, "\(page) at a time") }
    }

    @Test func `a key is compared as it is stored, also one that the attribute's transform would change`() throws {
        let store = try TestStore(model(#"{"type": "string", "transform": ["trim", "lowercase"]}"#))
        try store.apply(#"{"Row": [{"k": "a", "n": 1}]}"#)
        // As another program may have written them.
        try store.execute(#"INSERT INTO "Row" (k, n) VALUES ('  B ', 2), ('B', 3), ('b', 4), ('b ', 5)"#)
        #expect(try store.pages("Row", "n", of: 1) == ["2", "3", "1", "4", "5"])
    }

    private let company = """
        {"entities": {
          "Seat": {"identity": ["row", "number"], "attributes": {"row": "string", "number": "integer64", "n": "integer64"}},
          "Note": {"attributes": {"n": "integer64"}},
          "Guest": {"identity": "id", "identityOptional": true, "attributes": {"id": "integer64", "n": "integer64"}},
          "Record": {"attributes": {"n": "integer64"}},
          "User": {"parent": "Record", "identity": "name", "attributes": {"name": "string"}},
          "Admin": {"parent": "User", "attributes": {"level": "integer64"}},
          "Tag": {"parent": "Record", "attributes": {"text": "string"}}}}
        """

    @Test func `pages after compound keys, row numbers and keys of subentities are the whole`() throws {
        let store = try TestStore(company)
        let seats = ["a", "b", "B"].flatMap { row in
            [2, 1, 10].map { #"{"row": "\#(row)", "number": \#($0), "n": \#($0)}"# }
        }
        try store.apply(
            """
            {"Seat": [\(seats.joined(separator: ","))], "Note": [{"n": 1}, {"n": 2}, {"n": 3}],
             "Guest": [{"id": 9, "n": 1}, {"n": 2}, {"id": 7, "n": 3}, {"n": 4}],
             "User": [{"name": "d", "n": 1}, {"name": "a", "n": 2}],
             "Admin": [{"name": "c", "n": 3}, {"name": "b", "n": 4}], "Tag": [{"n": 5}]}
            """)
        for page in 1...4 {
            #expect(
                try store.pages("Seat", "n", of: page)
                    == store.rows(#"SELECT number FROM "Seat" ORDER BY "row", number"#))
            #expect(try store.pages("Note", "n", of: page) == ["1", "2", "3"])
            #expect(try store.pages("Guest", "n", of: page) == ["1", "2", "3", "4"])
            #expect(try store.pages("User", "n", of: page) == ["2", "4", "3", "1"], "by the identity")
            #expect(try store.pages("Admin", "n", of: page) == ["4", "3"])
            #expect(try store.pages("Record", "n", of: page) == ["1", "2", "3", "4", "5"])
            #expect(try store.pages("Seat", "n", of: page) { $0.predicate = "number > 1" }.count == 6)
        }
    }

    @Test func `a key that names no object is a place all the same`() throws {
        let store = try TestStore(company)
        try store.apply(#"{"Seat": [{"row": "a", "number": 1}, {"row": "b", "number": 1}], "Note": [{}, {}, {}]}"#)
        #expect(try store.fetch("Seat", after: #"{"number": 99, "row": "a"}"#).contains(#""row":"b""#))
        #expect(try store.fetch("Note", after: "-5").matches(of: #/"n"/#).count == 3)
        #expect(try store.fetch("Note", after: "3") == "[]")
        let one = try store.fetch("Note", after: "1") { ($0.offset, $0.result) = (1, .object) }
        #expect(one == #"{"n":null}"#)
    }

    @Test func `a key that is none is refused`() throws {
        let store = try TestStore(company)
        for (entity, key) in [
            ("Seat", "1"), ("Seat", #"{"row": "a"}"#), ("Seat", #"{"row": "a", "number": null}"#), ("Note", #""1""#),
            ("Note", "null"), ("User", "null"), ("User", "[]"), ("Guest", #"{"id": 1}"#),
        ] {
            let fault = #expect(throws: Fault.self) { try store.fetch(entity, after: key) }
            #expect(fault?.code == .invalidValue, "\(key) of \(entity)")
            #expect(fault?.path?.hasPrefix("/after") == true)
        }
    }

    @Test(arguments: ["Seat", "Note", "User", "Admin"])
    func `a page costs no more however far it is`(entity: String) throws {
        let store = try TestStore(company)
        let count = 20_000
        let rows = (0..<count).map {
            #"{"row": "\#($0 / 1_000)", "number": \#($0), "n": \#($0), "name": "\#($0)", "level": 1}"#
        }
        try store.apply(#"{"\#(entity)": [\#(rows.joined(separator: ","))]}"#)
        var limits = FetchLimits.long
        limits.steps = 2_000
        // The table is read neither before the page nor after it.
        for after in [nil, 10_000, 19_000] as [Int?] {
            let key: String? =
                switch entity {
                case "Seat": after.map { #"{"row": "\#($0 / 1_000)", "number": \#($0)}"# }
                case "Note": after.map { "\($0)" }
                default: after.map { #""\#($0)""# }
                }
            let page = try store.page(entity, after: key, limits: limits) { $0.limit = 10 }
            #expect(page.objects.matches(of: #/"n"/#).count == 10)
        }
    }

    @Test func `the last key is that of the last object that a frame holds`() throws {
        let store = try TestStore(company)
        let rows = (100..<400).map { #"{"name": "user \#($0)"}"# }.joined(separator: ",")
        try store.apply(#"{"User": [\#(rows)]}"#)
        let limits = FetchLimits(answerBytes: 1_000, certainBytes: 500, gatheredBytes: 1_000)
        let reader = try store.reader()
        let found = try reader.fetch(store.request("User"), limits: limits, in: TestStore.keyEnvelope)
        for objects in [found, try #require(found.shortened)] {
            let text = objects.text.split(separator: "\n")
            let last = try #require(text[0].matches(of: #/user \d+/#).last)
            #expect(text[1] == #""\#(last.0)""#)
        }
    }
}

/// The work that a fetch, or a part of a stream, may do.
@Suite(.timeLimit(.minutes(5))) struct FetchWorkTests {
    private static let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string", "n": "decimal"}}}}"#

    private func store(_ count: Int, text: Int) throws -> TestStore {
        let store = try TestStore(Self.model)
        let value = String(repeating: "x", count: text)
        let rows = (0..<count).map { #"{"id": \#($0), "text": "\#(value)\#($0)", "n": \#(count - $0)}"# }
        try store.apply(payload("Row", rows))
        return store
    }

    /// Whether the fetch ends because of its work.
    private func isTooLong(
        _ store: TestStore, work: Int = JobWork.maximum, steps: Int = JobWork.maximum,
        _ adjust: (inout FetchDescription) -> Void
    ) throws -> Bool {
        var limits = FetchLimits.long
        (limits.work, limits.steps) = (work, steps)
        do {
            _ = try store.fetched("Row", limits: limits, adjust)
            return false
        } catch FetchFailure.tooLong {
            return true
        }
    }

    @Test(arguments: ["text LIKE 'y%*'", "text == 'y%'", "text BEGINSWITH 'y%'", "text CONTAINS[c] 'xy%'"])
    func `long texts count each time that they are compared`(comparison: String) throws {
        let store = try store(1, text: 4 << 20)
        func fetch(_ count: Int) throws -> Bool {
            try isTooLong(store) { description in
                description.predicate = (0..<count).map { comparison.replacing("%", with: "\($0)") }
                    .joined(separator: " OR ")
            }
        }
        #expect(try !fetch(2))
        #expect(try fetch(400))
        #expect(FetchLimits.maximumWork == 6 * JobWork.maximum)
    }

    @Test func `each object that is examined and that is sorted counts`() throws {
        let store = try store(400, text: 100)
        #expect(try isTooLong(store, steps: 1_000) { $0.predicate = "text == ''" })
        #expect(try isTooLong(store, work: 390) { $0.predicate = "text == ''" })
        #expect(try !isTooLong(store, work: 400 * 20) { $0.predicate = "text == ''" })
        // 32 for an object, and one for each byte of the text by which it is sorted.
        #expect(try isTooLong(store, work: 400 * 130) { $0.sort = ["-text"] })
        #expect(try isTooLong(store, work: 400 * 30) { $0.sort = ["n"] })
        #expect(try !isTooLong(store, work: 400 * 400) { $0.sort = ["n", "-text"] })
    }

    @Test func `a part of a stream may do as much work as a fetch`() throws {
        let store = try store(4_000, text: 10)
        var limits = FetchLimits.part
        limits.answerBytes = 2_000
        limits.steps = 20_000
        let (request, reader) = (
            try store.request("Row") { ($0.predicate, $0.isStreamed) = ("text != ''", true) }, try store.reader()
        )
        let stream = ObjectStream(request, on: reader, limits)
        defer { stream.end() }
        var parts = 0
        while try stream.next().hasMore { parts += 1 }
        #expect(parts > 50, "all of them took more steps than one may")
    }

    @Test(arguments: [["n"], ["-text"]])
    func `an open sorted stream has read its order, and holds no object`(sort: [String]) throws {
        let store = try store(40, text: 200_000)
        var limits = FetchLimits.part
        limits.answerBytes = 1
        let (request, reader) = (
            try store.request("Row") { ($0.sort, $0.isStreamed) = (sort, true) }, try store.reader()
        )
        let stream = ObjectStream(request, on: reader, limits)
        defer { stream.end() }
        var ids: [String] = []
        var hasMore = true
        while hasMore {
            let part = try stream.next()
            hasMore = part.hasMore
            ids += part.text.matches(of: #/"id":(\d+)/#).map { String($0.1) }
            // The statement that sorts has ended: SQLite has none of its rows.
            #expect(!reader.connection.isSorting)
        }
        let order = sort == ["n"] ? Array((0..<40).reversed()) : (0..<40).sorted { "\($0)" > "\($1)" }
        #expect(ids == order.map { "\($0)" })
    }
}

extension Connection {
    /// A statement that sorts has not ended.
    fileprivate var isSorting: Bool {
        var statement: OpaquePointer?
        while let next = sqlite3_next_stmt(handle, statement) {
            statement = next
            let text = String(cString: sqlite3_sql(next))
            if text.contains("broker_work(32, 32"), sqlite3_stmt_busy(next) != 0 { return true }
        }
        return false
    }
}

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

        func request(_ store: TestStore, isStreamed: Bool = true) throws -> FetchRequest {
            try store.request(entity) {
                ($0.predicate, $0.sort, $0.include) = (predicate, sort, include)
                ($0.offset, $0.limit, $0.isStreamed) = (offset, limit, isStreamed)
            }
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
        let reader = try store.reader()
        let whole = try reader.fetch(fetch.request(store, isStreamed: false))
        #expect(!whole.hasMore || fetch.limit != nil)
        let request = try fetch.request(store)
        for bytes in [1, 300, 5_000, 1 << 20] {
            let limits = FetchLimits(
                answerBytes: bytes, objectBytes: 1 << 20, certainBytes: 1 << 20, gatheredBytes: 1 << 20)
            let parts = try self.parts(ObjectStream(request, on: reader, limits))
            #expect(whole.bytes == Array("[\(parts.map { $0.dropFirst().dropLast() }.joined(separator: ","))]".utf8))
            // No part is empty, but for one of no objects.
            #expect(parts.count == 1 || !parts.contains("[]"))
            for part in parts { #expect(part.utf8.count <= bytes + 1 || part.matches(of: #/"id"/#).count > 0) }
            if bytes == 1 { #expect(parts.count == max(1, try whole.count())) }
        }
    }

    private func parts(_ stream: ObjectStream) throws -> [String] {
        defer { stream.end() }
        var parts: [String] = []
        while true {
            let part = try stream.next()
            parts.append(part.text)
            guard part.hasMore else { return parts }
        }
    }

    @Test func `all parts are of one moment, whatever is written between them`() throws {
        let store = try company()
        let reader = try store.reader()
        let request = try Case(entity: "Employee", include: ["department"]).request(store)
        let before = try reader.fetch(
            Case(entity: "Employee", include: ["department"]).request(store, isStreamed: false))
        let limits = FetchLimits(answerBytes: 10_000, certainBytes: 1 << 20, gatheredBytes: 1 << 20)
        let stream = ObjectStream(request, on: reader, limits)
        var parts: [String] = []
        var part = try stream.next()
        while part.hasMore {
            parts.append(part.text)
            let round = parts.count
            try store.apply(
                #"{"Employee": [{"id": \#(round), "name": "new"}, {"id": \#(3_000 + round)}, {"id": \#(2_001 - round), "department": 0}], "Department": {"id": \#(round), "name": "new"}}"#
            )
            part = try stream.next()
        }
        parts.append(part.text)
        stream.end()
        #expect(parts.count > 5)
        #expect(before.bytes == Array("[\(parts.map { $0.dropFirst().dropLast() }.joined(separator: ","))]".utf8))
    }

    @Test func `an object that is larger than a part is a part, and one that no answer holds is a fault`() throws {
        let store = try TestStore(Self.model)
        let large = String(repeating: "x", count: 5_000)
        try store.apply(#"{"Employee": [{"id": 1}, {"id": 2, "name": "\#(large)"}, {"id": 3}, {"id": 4}]}"#)
        let reader = try store.reader()
        let request = try Case(entity: "Employee").request(store)
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
        let reader = try store.reader()
        for limit in [nil, 11_000, 200_000] as [Int?] {
            let request = try Case(entity: "Department", limit: limit).request(store)
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
        let reader = try store.reader()
        let request = try Case(entity: "Employee").request(store)
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
        let reader = try store.reader()
        let request = try Case(entity: "Employee", predicate: "name MATCHES '(n*)*x'").request(store)
        let stream = ObjectStream(request, on: reader) { false }
        defer { stream.end() }
        #expect(throws: FetchFailure.self) { try stream.next() }
    }

    @Test(arguments: [FetchResult.object, .dictionary])
    func `a stream is an array`(result: FetchResult) throws {
        let store = try company()
        let fault = #expect(throws: Fault.self) {
            try store.request("Employee") { ($0.isStreamed, $0.result) = (true, result) }
        }
        #expect(fault?.code == .unsupportedMessage && fault?.path == "/stream")
    }
}
