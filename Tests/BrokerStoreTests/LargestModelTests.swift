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
}

extension String {
    /// To 255 bytes together with `c`, the number and `_`.
    fileprivate func padding(_ number: Int) -> String {
        self + String(repeating: "x", count: 255 - utf8.count - "c\(number)_".utf8.count)
    }
}
