import BrokerJSON
import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// Pages of sorted objects, each after the position of the last object of the page before.
@Suite(.timeLimit(.minutes(5))) struct SortedPageTests {
    private struct Row {
        let number: Int
        let a: Int?
        let b: Int?
        let team: Int?
    }

    private static let model = """
        {"entities": {
          "Row": {"identity": ["row", "number"],
                  "attributes": {"row": "string", "number": "integer64", "n": "integer64", "a": "integer64", "b": "decimal"},
                  "relationships": {"team": {"entity": "Team"}}},
          "Team": {"identity": "id", "attributes": {"id": "integer64", "rank": "integer64"}}}}
        """

    /// The numbers of the rows in an order, by the rule of the contract: null is less than any value, and equal objects are in the
    /// order of their keys.
    private func sorted(_ rows: [Row], by terms: [String]) -> [String] {
        func value(_ row: Row, _ name: Substring) -> Int {
            switch name {
            case "a": row.a ?? .min
            case "b": row.b ?? .min
            default: row.team.flatMap { $0 == 0 ? nil : $0 } ?? .min
            }
        }
        func key(_ row: Row) -> (String, Int) { ("r\(row.number % 3)", row.number) }
        let order = rows.sorted { one, other in
            for term in terms {
                let name = term.hasPrefix("-") ? term.dropFirst() : term[...]
                let (left, right) = (value(one, name), value(other, name))
                if left != right { return (left < right) != term.hasPrefix("-") }
            }
            return key(one) < key(other)
        }
        return order.map { "\($0.number)" }
    }

    @Test func `pages by random sort keys with nulls and ties are the sorted whole`() throws {
        var random = SeededGenerator()
        for round in 0..<30 {
            let rows = (0..<Int.random(in: 1...40, using: &random)).map { number in
                Row(
                    number: number, a: [nil, -1, 0, 1].randomElement(using: &random)!,
                    b: [nil, -15, 2, 10].randomElement(using: &random)!,
                    team: [nil, 0, 1, 2].randomElement(using: &random)!)
            }
            let store = try TestStore(Self.model)
            let records = rows.map { row in
                #"{"row": "r\#(row.number % 3)", "number": \#(row.number), "n": \#(row.number), "#
                    + #""a": \#(row.a.map { "\($0)" } ?? "null"), "b": \#(row.b.map { "\($0)" } ?? "null"), "#
                    + #""team": \#(row.team.map { "\($0)" } ?? "null")}"#
            }
            // The rank of team 0 is null, as is that of a row without a team.
            try store.apply(
                """
                {"Team": [{"id": 0}, {"id": 1, "rank": 1}, {"id": 2, "rank": 2}],
                 "Row": [\(records.joined(separator: ","))]}
                """)
            var terms = ["a", "b", "team.rank"].shuffled(using: &random)
                .map { Bool.random(using: &random) ? "-\($0)" : $0 }
            terms.removeLast(Int.random(in: 0...2, using: &random))
            let page = Int.random(in: 1...7, using: &random)
            let found = try store.pages("Row", "n", of: page) { $0.sort = terms }
            #expect(found == sorted(rows, by: terms), "round \(round), \(terms), \(page) at a time")
            let predicate = "a != nil"
            let some = try store.pages("Row", "n", of: page) { ($0.sort, $0.predicate) = (terms, predicate) }
            #expect(some == sorted(rows.filter { $0.a != nil }, by: terms), "round \(round), with a predicate")
        }
    }

    @Test(arguments: FetchAfterTests.identities)
    func `pages sorted by values of any type are the whole`(_ values: FetchAfterTests.Identity) throws {
        let store = try TestStore(
            """
            {"entities": {"Row": {"identity": "n", "attributes": {"n": "integer64", "k": \(values.attribute)}}}}
            """)
        let all = values.values + ["null"] + values.values
        let rows = all.enumerated().map { #"{"n": \#($0), "k": \#($1)}"# }
        try store.apply(#"{"Row": [\#(rows.joined(separator: ","))]}"#)
        for sort in ["k", "-k"] {
            let whole = try store.pages("Row", "n", of: 1_000) { $0.sort = [sort] }
            #expect(whole.count == all.count)
            for page in 1...3 {
                #expect(try store.pages("Row", "n", of: page) { $0.sort = [sort] } == whole, "\(page) by \(sort)")
            }
        }
    }

    private static let notes =
        #"{"entities": {"Note": {"attributes": {"n": {"type": "integer64", "indexed": true}, "text": "string"}}}}"#

    @Test func `objects that stay are neither omitted nor repeated while others come and go`() throws {
        let store = try TestStore(Self.notes)
        try store.apply(#"{"Note": [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}, {"n": 5}]}"#)
        let first = try store.page("Note", after: nil) { ($0.sort, $0.limit) = (["-n"], 2) }
        #expect(first.last == "[4,4]")
        // The object of the position itself is gone.
        try store.execute(#"DELETE FROM "Note" WHERE n IN (4, 2)"#)
        try store.apply(#"{"Note": [{"n": 9}, {"n": 0}]}"#)
        let rest = try store.page("Note", after: first.last) { ($0.sort, $0.select) = (["-n"], ["n"]) }
        #expect(rest.objects == #"[{"n":3},{"n":1},{"n":0}]"#)
    }

    @Test func `a position that is none is refused, with its place and what it is`() throws {
        let store = try TestStore(Self.notes)
        for (after, path) in [
            ("1", "/after"), ("[]", "/after"), ("[1]", "/after"), ("[1, 1, 1]", "/after"), (#"{"n": 1}"#, "/after"),
            (#"["x", 1]"#, "/after/0"), ("[[], 1]", "/after/0"), ("[1, null]", "/after/1"), (#"[1, "x"]"#, "/after/1"),
        ] {
            let fault = #expect(throws: Fault.self) { try store.fetch("Note", after: after) { $0.sort = ["n"] } }
            #expect(fault?.code == .invalidValue, "\(after)")
            #expect(fault?.path == path, "\(after)")
        }
    }

    @Test func `a page in the order of an index costs no more however far it is`() throws {
        let store = try TestStore(Self.notes)
        let rows = (0..<20_000).map { #"{"n": \#($0)}"# }
        try store.apply(#"{"Note": [\#(rows.joined(separator: ","))]}"#)
        var limits = FetchLimits.long
        limits.steps = 3_000
        for after in [nil, "[10000,10001]", "[19000,19001]"] as [String?] {
            let page = try store.page("Note", after: after, limits: limits) { ($0.sort, $0.limit) = (["n"], 10) }
            #expect(page.objects.matches(of: #/"n"/#).count == 10)
        }
    }

    @Test func `a sorted stream goes on after the position of any part`() throws {
        let store = try TestStore(Self.notes)
        let rows = (0..<300).map { #"{"n": \#(300 - $0), "text": "note \#($0 % 7)"}"# }
        try store.apply(#"{"Note": [\#(rows.joined(separator: ","))]}"#)
        let sort = ["-text", "n"]
        let whole = try store.pages("Note", "n", of: 1_000) { $0.sort = sort }
        let limits = FetchLimits(answerBytes: 1_000, certainBytes: 1_000, gatheredBytes: 4_000)
        let request = try store.request("Note") { ($0.sort, $0.isStreamed, $0.select) = (sort, true, ["n"]) }
        let stream = ObjectStream(request, on: try store.reader(), limits, in: TestStore.keyEnvelope)
        defer { stream.end() }
        var count = 0
        while true {
            let part = try stream.next()
            let lines = part.text.split(separator: "\n")
            count += lines[0].matches(of: #/"n"/#).count
            let rest = try store.page("Note", after: String(lines[1])) { ($0.sort, $0.select) = (sort, ["n"]) }
            #expect(rest.objects.matches(of: #/"n":(\d+)/#).map { String($0.1) } == Array(whole[count...]))
            guard part.hasMore else { break }
        }
        #expect(count == 300)
    }
}
