import Testing

/// The largest models that are read can be stored.
@Suite(.timeLimit(.minutes(10))) struct LargestModelTests {
    @Test func `a table of 2,000 columns with names of 255 bytes is made, filled, changed and read`() throws {
        let names = (0..<2_000).map { number in
            "c\(number)_" + String(repeating: "é", count: 120).padding(number)
        }
        let attributes = names.map { "\"\($0)\": \"integer32\"" }.joined(separator: ", ")
        let store = try TestStore(
            "{\"entities\": {\"Wide\": {\"identity\": \"\(names[0])\", \"attributes\": {\(attributes)}}}}")
        func record(_ value: Int) -> String {
            let members = names.enumerated().map { "\"\($1)\": \($0 == 0 ? 1 : value + $0)" }.joined(separator: ", ")
            return "{\"Wide\": [{\(members)}]}"
        }
        #expect(try store.changes(record(0)) == ["Wide +1 ~0 =0 !0"])
        #expect(try store.changes(record(0)) == ["Wide +0 ~0 =1 !0"])
        #expect(try store.changes(record(7)) == ["Wide +0 ~1 =0 !0"])
        #expect(try store.changes("{\"Wide\": {\"\(names[0])\": 1, \"\(names[1_999])\": 5}}") == ["Wide +0 ~1 =0 !0"])
        #expect(try store.rows("SELECT \"\(names[1_998])\", \"\(names[1_999])\" FROM Wide") == ["2005|5"])
        #expect(try store.isSound())
        try store.reopen()
    }

    @Test(arguments: ["integer64", "string"])
    func `objects of 2,000 attributes are fetched, also nested and by their keys`(identity: String) throws {
        let names = (1..<2_000).map { "c\($0)" }
        let attributes = names.map { "\"\($0)\": \"integer32\"" }.joined(separator: ", ")
        let key = identity == "string" ? "\"k\"" : "7"
        let store = try TestStore(
            """
            {"entities": {
              "Wide": {"identity": "id", "attributes": {"id": "\(identity)", \(attributes)}},
              "Owner": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"wides": {"entity": "Wide", "toMany": true}}}}}
            """)
        let object = "{\"id\":\(key)," + names.enumerated().map { "\"\($1)\":\($0)" }.joined(separator: ",") + "}"
        try store.apply("{\"Owner\": {\"id\": 1, \"wides\": [\(object)]}}")
        #expect(try store.fetch("Wide") == "[\(object)]")
        #expect(try store.fetch("Wide", object: key) == "[\(object)]")
        #expect(
            try store.fetch("Wide") { $0.result = .dictionary } == "{\(identity == "string" ? key : "\"7\""):\(object)}"
        )
        #expect(try store.fetch("Owner") { $0.include = ["wides"] } == "[{\"id\":1,\"wides\":[\(object)]}]")
    }

    @Test func `keys of linked objects count among the columns of a result`() throws {
        // Each relationship has a column, and a second one is read for the identity of what it links to.
        let names = (0..<1_200).map { "r\($0)" }
        let links = names.map { "\"\($0)\": {\"entity\": \"Guest\"}" }.joined(separator: ", ")
        let store = try TestStore(
            """
            {"entities": {
              "Guest": {"identity": "name", "identityOptional": true, "attributes": {"name": "string"}},
              "Host": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {\(links)}}}}
            """)
        let object = "{\"id\":1," + names.map { "\"\($0)\":\"\($0)\"" }.joined(separator: ",") + "}"
        try store.apply("{\"Host\": \(object)}")
        #expect(try store.fetch("Host") == "[\(object)]")
    }
}

extension String {
    /// To 255 bytes together with `c`, the number and `_`.
    fileprivate func padding(_ number: Int) -> String {
        self + String(repeating: "x", count: 255 - utf8.count - "c\(number)_".utf8.count)
    }
}
