import BrokerJSON
import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// Pages of objects after a key.
@Suite(.timeLimit(.minutes(5))) struct FetchAfterTests {
    struct Identity: Sendable, CustomTestStringConvertible {
        let name: String
        /// The attribute of the identity.
        let attribute: String
        /// JSON values, in no order.
        let values: [String]

        var testDescription: String { name }
    }

    private static let identities = [
        Identity(
            name: "integers", attribute: #""integer64""#,
            values: ["-9223372036854775808", "-1", "0", "3", "20", "9223372036854775807"]),
        Identity(
            name: "texts, by their bytes", attribute: #""string""#,
            values: [
                #""""#, #""B""#, #""a""#, #""aa""#, #""z""#, #""\u00e9""#, #""e\u0301""#, #""\u0000x""#, #""%""#,
                #""😀""#, #""￿""#,
            ]),
        Identity(
            name: "decimals, by their stored texts", attribute: #""decimal""#,
            values: ["10", "9.5", "-1", "0.1", "123456789012345678901234567890.25", "1.50"]),
        Identity(
            name: "doubles", attribute: #""double""#,
            values: ["0.1", "-2.5", "1e300", "-1e-300", "0", "4.9406564584124654e-324", "9007199254740993"]),
        Identity(name: "floats", attribute: #""float""#, values: ["0.1", "16777217", "-3.25"]),
        Identity(name: "booleans", attribute: #""boolean""#, values: ["true", "false"]),
        Identity(
            name: "UUIDs", attribute: #""uuid""#,
            values: [
                #""00000000-0000-0000-0000-00000000000a""#, #""F0000000-0000-0000-0000-000000000000""#,
                #""00000000-0000-0000-0000-000000000000""#,
            ]),
        Identity(
            name: "binary", attribute: #""binary""#, values: [#""""#, #""AA==""#, #""/w==""#, #""AP8=""#, #""YWJj""#]),
        Identity(name: "URIs", attribute: #""uri""#, values: [#""http://b.example/""#, #""http://a.example/?q=%20""#]),
        Identity(
            name: "dates", attribute: #""date""#,
            values: [#""2011-12-22T02:24:51.001Z""#, #""2011-12-22T02:24:51Z""#, #""0001-01-01T00:00:00Z""#, "1e9"]),
        Identity(
            name: "dates of a format that loses the time of the day",
            attribute: #"{"type": "date", "format": "yyyy-MM-dd", "storage": "coreData"}"#,
            values: [#""2011-12-22""#, "1324520691.0000001", "1324520691.0000004", "-3.25", "978307200"]),
        Identity(
            name: "dates in seconds", attribute: #"{"type": "date", "format": "UnixTime", "storage": "unix"}"#,
            values: ["1324520691", "5", "-7"]),
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
        let one = try store.fetch("Note", after: "1") {
            $0.offset = 1
            $0.result = .object
        }
        #expect(one == #"{"n":null}"#)
    }

    @Test func `a key that is none is refused, and a sorted fetch has no place after a key`() throws {
        let store = try TestStore(company)
        for (entity, key) in [
            ("Seat", "1"), ("Seat", #"{"row": "a"}"#), ("Seat", #"{"row": "a", "number": null}"#), ("Note", #""1""#),
            ("Note", "null"), ("User", "null"), ("User", "[]"), ("Guest", #"{"id": 1}"#),
        ] {
            let fault = #expect(throws: Fault.self) { try store.fetch(entity, after: key) }
            #expect(fault?.code == .invalidValue, "\(key) of \(entity)")
            #expect(fault?.path?.hasPrefix("/after") == true)
        }
        let fault = #expect(throws: Fault.self) { try store.fetch("Note", after: "1") { $0.sort = ["n"] } }
        #expect(fault?.code == .unsupportedMessage)
        #expect(fault?.path == "/after")
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
        let reader = try StoreReader(path: store.path, plan: store.plan)
        let found = try reader.fetch(
            store.plan.fetchRequest(FetchDescription(entity: "User")), limits: limits, in: TestStore.keyEnvelope)
        for objects in [found, try #require(found.shortened)] {
            let text = String(decoding: objects.bytes, as: UTF8.self).split(separator: "\n")
            let last = try #require(text[0].matches(of: #/user \d+/#).last)
            #expect(text[1] == #""\#(last.0)""#)
        }
    }
}

extension TestStore {
    /// The key of the last object follows the objects on a line of its own.
    static let keyEnvelope = FetchEnvelope(beginning: []) { _, last in Array("\n".utf8) + (last ?? []) }

    func fetch(_ entity: String, after: String, _ adjust: (inout FetchDescription) -> Void = { _ in }) throws -> String
    {
        try page(entity, after: after, adjust).objects
    }

    /// One page, and the key of its last object if there are more.
    func page(
        _ entity: String, after: String?, limits: FetchLimits = .long,
        _ adjust: (inout FetchDescription) -> Void = { _ in }
    ) throws -> (objects: String, last: String?) {
        let document = try JSONDocument(parsing: JSONText(copying: Array((after ?? "0").utf8)))
        return try withExtendedLifetime(document) {
            var description = FetchDescription(entity: entity)
            if after != nil { description.after = document.root }
            adjust(&description)
            let found = try StoreReader(path: path, plan: plan).fetch(
                plan.fetchRequest(description), limits: limits, in: Self.keyEnvelope)
            let text = String(decoding: found.bytes, as: UTF8.self)
            let end = text.lastIndex(of: "\n")!
            let last = text[text.index(after: end)...]
            #expect(last.isEmpty == !found.hasMore, "\(text)")
            return (String(text[..<end]), last.isEmpty ? nil : String(last))
        }
    }

    /// The values of one member in all objects, fetched page by page.
    func pages(
        _ entity: String, _ member: String, of count: Int, _ adjust: (inout FetchDescription) -> Void = { _ in }
    ) throws -> [String] {
        var values: [String] = []
        var last: String?
        repeat {
            let page = try page(entity, after: last) {
                $0.limit = count
                $0.names = .local
                adjust(&$0)
            }
            let document = try JSONDocument(parsing: JSONText(copying: Array(page.objects.utf8)))
            withExtendedLifetime(document) {
                values += document.root.elements.map {
                    String(decoding: $0[member]?.bytes ?? .init(start: nil, count: 0), as: UTF8.self)
                }
            }
            last = page.last
            // A page that repeats an object would never end.
        } while last != nil && values.count < 1_000
        return values
    }
}
