import BrokerModel
import Testing

@testable import BrokerModelSources

@Suite(.timeLimit(.minutes(5))) struct IdentityChoiceTests {
    private func identity(
        _ records: String, of entity: String = "Thing", at index: Int = 0, isComplete: Bool = true
    ) throws -> [String] {
        let inferred = try Samples(entity, records).inferred(isComplete: isComplete)
        let model = try ModelReader.read(.init(copying: Array(inferred.text.utf8)))
        return model.entities[index].identity.map { model.entities[index].attributes[$0].name }
    }

    private func records(_ count: Int, _ record: (Int) -> String) -> String {
        "[\((0..<count).map(record).joined(separator: ", "))]"
    }

    @Test(arguments: [
        (#"[{"name": "a", "code": "x"}, {"name": "b", "code": "y"}]"#, ["code"]),
        (#"[{"url": "u", "slug": "s"}]"#, ["slug"]),
        (#"[{"_id": {"$oid": "5f"}, "n": 1}, {"_id": {"$oid": "60"}, "n": 1}]"#, ["_id"]),
        (#"[{"objectID": "a", "title": "t"}]"#, ["objectID"]),
        (#"[{"cca3": "AFG", "name": "n"}]"#, ["cca3"]),
        (#"[{"@id": "a", "x": 1}]"#, ["id"]),
        (#"[{"code": "x", "n": 1}, {"code": "x", "n": 2}]"#, []),
        (#"[{"code": "", "n": 1}]"#, []),
    ])
    func `a key that is named like an identifier or a code identifies`(records: String, expected: [String]) throws {
        #expect(try identity(records) == expected)
    }

    @Test func `versions of one object are evidence for its id`() throws {
        let feed = records(20) {
            #"{"id": \#($0 % 4), "title": "t\#($0 % 4)", "votes": \#($0), "state": "open", "by": "b\#($0 % 4)"}"#
        }
        #expect(try identity(feed) == ["id"])
        let readings = records(20) {
            #"{"id": \#($0 % 2), "date": "2024-01-\#(10 + $0)", "value": \#($0), "min": \#($0 * 2), "max": \#($0 * 3)}"#
        }
        #expect(try identity(readings) == ["id", "date"])
    }

    @Test func `a key without such a name identifies if its values are unique in all of a sufficient input`() throws {
        let cities = records(6) {
            #"{"population": \#($0 * 7919 % 13), "city": "c\#($0)", "part": \#(Double($0) + 0.5)}"#
        }
        #expect(try identity(cities) == ["city"])
        #expect(try identity(cities, isComplete: false) == [])
        #expect(try identity(records(4) { #"{"city": "c\#($0)"}"# }) == [])
    }

    @Test func `keys identify together where none does alone, and a number that happens to be unique is none`() throws {
        let years = records(12) {
            #"{"country": "c\#($0 % 3)", "year": \#(2000 + $0 / 3), "gdp": \#($0 * 7919 % 101), "x": 1}"#
        }
        #expect(try identity(years) == ["country", "year"])
    }

    @Test(arguments: [
        // Unique in two parents, but only twice.
        (#"[{"id": 1, "tags": [{"code": "a", "n": 1}]}, {"id": 2, "tags": [{"code": "b", "n": 1}]}]"#, 1),
        // Key and value.
        (#"[{"id": 1, "tags": [{"key": "a", "value": 1}]}, {"id": 2, "tags": [{"key": "a", "value": 1}]}]"#, 1),
        // Equal ones in one list are two.
        (
            #"[{"id": 1, "tags": [{"code": "a", "n": 1}, {"code": "a", "n": 1}, {"code": "a", "n": 1}, {"code": "a", "n": 1}]}]"#,
            1
        ),
        // Numbered in each parent.
        (#"[{"id": 1, "tags": [{"id": 1, "n": 1}, {"id": 2, "n": 5}]}]"#, 1),
        (#"[{"id": 1, "tags": [{"id": 8, "n": 1, "m": 1}]}, {"id": 2, "tags": [{"id": 8, "n": 5, "m": 6}]}]"#, 1),
    ])
    func `nested objects without an identity of their own belong to their parent`(records: String, owned: Int) throws {
        let model = try Samples("Order", records).model().model
        #expect(model.entities[0].relationships.count(where: \.isOwned) == owned)
    }

    @Test func `nested objects of one id that differ are columns, whatever others agree`() throws {
        let kinds = [7, 7, 23].enumerated().map { #"{"id": \#($0), "kind": {"id": "a", "v": \#($1)}}"# }
        #expect(try Samples("Thing", "[\(kinds.joined(separator: ","))]").model().model.entities.count == 1)
    }

    @Test func `nested objects that several parents share have the key that names them`() throws {
        let shared = records(10) {
            #"{"id": \#($0), "license": {"key": "k\#($0 % 2)", "name": "n\#($0 % 2)"}, "labels": [{"name": "l\#($0 % 3)", "color": "c\#($0 % 3)"}]}"#
        }
        #expect(try identity(shared, at: 1) == ["key"])
        #expect(try identity(shared, at: 2) == ["name"])
    }

    @Test func `evidence is bounded, and more values than are compared are not called unique`() {
        let budget = EvidenceBudget(rows: 2, values: 3)
        var values = DistinctValues()
        for value in 0..<3 { values.insert(value, budget) }
        #expect(values.areUnique)
        values.insert(3, budget)
        #expect(!values.areUnique)
        var rows = RowSample(budget)
        for row in 0..<3 {
            rows.begin(inList: nil)
            rows.note(row, at: 0)
        }
        #expect(rows.count == 2 && rows.isCut && !rows.areUnique(together: [0]))
    }

    @Test func `a named identity is used, and its candidates are known`() throws {
        let inferred = try Samples("Thing", #"[{"id": 1, "a": "x", "b": 2}, {"id": 2, "a": "x", "b": 3}]"#)
            .inferred(identities: ["Thing": ["a", "b"]])
        let model = try ModelReader.read(.init(copying: Array(inferred.text.utf8)))
        #expect(model.entities[0].identity.map { model.entities[0].attributes[$0].name } == ["a", "b"])
        #expect(inferred.keys["Thing"]?.filter { $0.nonidentityReason == nil }.map(\.path) == ["id", "a", "b"])
        #expect(inferred.identities.map(\.text) == ["identified by a and b (as --identity says)"])
        let repeated = try Samples("Thing", #"[{"n": "a", "v": 1}, {"n": "a", "v": 2}]"#).inferred(identities: [
            "Thing": ["n"]
        ])
        #expect(repeated.identities[0].text.contains("1 of 2 repeat an earlier one, and replace it"))
        // A key of a nested object is not compared by what is around it.
        let nested = try Samples("Thing", #"[{"o": {"n": "a"}, "v": 1}, {"o": {"n": "b"}, "v": 2}]"#).inferred(
            identities: [
                "Thing": ["o.n"]
            ])
        #expect(nested.identities[0].text == "identified by o_n (as --identity says)")
        let big = try Samples("Thing", #"[{"n": 18446744073709551615, "t": true}, {"n": 7, "t": false}]"#).inferred()
        let reasons = big.keys["Thing"]?.map { $0.nonidentityReason ?? "none" }
        #expect(reasons == ["none", "its values are booleans; whole numbers or texts identify"])
    }
}
