import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// Which objects are rejected for unique values: the rule by itself, then in the store.
@Suite(.timeLimit(.minutes(5))) struct UniqueConflictsTests {
    private typealias Claim = UniqueConflicts.Claim

    private static func value(_ number: Int) -> StoredKey { StoredKey([.integer(Int64(number))]) }

    /// A claim of the value at that offset; of list 0 unless given.
    private static func claim(
        _ new: Int, at offset: UInt32, list: Int = 0, old: Int? = nil, within: [Int] = []
    ) -> Claim {
        Claim(list: list, claimedAt: offset, old: old.map(value), new: value(new), within: within)
    }

    /// The rejected objects, with the list for which each is.
    ///
    /// - Parameter retained: values of list 0 that other objects retain.
    private static func rejected(_ objects: [[Claim]], retained: [Int] = []) -> [Int: Int] {
        let retained = retained.map(value)
        var claims = UniqueConflicts(objects) { list, key in list == 0 && retained.contains(key) }
        claims.settle()
        return claims.rejected
    }

    @Test func `the later of two claims on one value is lost, and the other claims of its object do not count`() {
        let objects = [
            [Self.claim(1, at: 10), Self.claim(1, at: 10, list: 1)],
            [Self.claim(2, at: 20), Self.claim(1, at: 20, list: 1)],
            [Self.claim(2, at: 30), Self.claim(2, at: 30, list: 1)],
        ]
        #expect(Self.rejected(objects) == [1: 1])
    }

    @Test func `a rejected object retains its value, and an object that claims that is rejected, too`() {
        let objects = [
            [Self.claim(9, at: 10, old: 1)], [Self.claim(1, at: 20, old: 2)], [Self.claim(2, at: 30)],
            [Self.claim(4, at: 40)],
        ]
        #expect(Self.rejected(objects, retained: [9]) == [0: 0, 1: 0, 2: 0])
    }

    @Test func `an object that loses a value to an earlier claim retains its own, and its claimant is rejected, too`() {
        let objects = [[Self.claim(1, at: 10)], [Self.claim(1, at: 20, old: 2)], [Self.claim(2, at: 30)]]
        #expect(Self.rejected(objects) == [1: 0, 2: 0])
    }

    @Test(arguments: [2, 3, 100]) func `objects exchange their values in a circle`(count: Int) {
        let objects = (0..<count).map { [Self.claim(($0 + 1) % count, at: UInt32($0), old: $0)] }
        #expect(Self.rejected(objects).isEmpty)
    }

    @Test func `a claim inside a rejected record waits for the next staging`() {
        let objects = [
            [Self.claim(1, at: 10)], [Self.claim(1, at: 20)], [Self.claim(5, at: 25, within: [1])],
            [Self.claim(5, at: 30)], [Self.claim(5, at: 40)],
        ]
        #expect(Self.rejected(objects) == [1: 0, 4: 0])
        let retained = [[Self.claim(1, at: 10)], [Self.claim(5, at: 15, within: [0])]]
        #expect(Self.rejected(retained, retained: [1, 5]) == [0: 0], "the first in the text goes first")
    }

    @Test func `a claim inside a record that stays counts as any other`() {
        let objects = [[Self.claim(1, at: 10)], [Self.claim(5, at: 15, within: [0])], [Self.claim(5, at: 30)]]
        #expect(Self.rejected(objects) == [2: 0])
        #expect(Self.rejected(objects, retained: [5]) == [1: 0, 2: 0])
    }

    @Test func `retained values are judged before values that two objects claim`() {
        let objects = [
            [Self.claim(1, at: 10, list: 1), Self.claim(7, at: 40)], [Self.claim(1, at: 20, list: 1)],
        ]
        #expect(Self.rejected(objects, retained: [7]) == [0: 0], "a claim of an object that goes anyway costs nothing")
    }

    @Test func `where each of two objects would cost the other its claim, the first lost in the text goes`() {
        let objects = [
            [Self.claim(1, at: 10), Self.claim(1, at: 40, list: 1)],
            [Self.claim(1, at: 20), Self.claim(1, at: 30, list: 1)],
        ]
        #expect(Self.rejected(objects) == [1: 0])
    }

    @Test func `an object that claims a retained value only inside its own record is rejected`() {
        let objects = [[Self.claim(1, at: 20, within: [1, 0])], [Self.claim(2, at: 10, within: [0])]]
        #expect(Self.rejected(objects, retained: [1]) == [0: 0])
    }

    @Test func `long chains, where each depends on the one before, are decided at once`() {
        let count = 100_000
        let contested = (0..<count).map { object in
            [Self.claim(object / 2, at: UInt32(object)), Self.claim((object + 1) / 2, at: UInt32(object), list: 1)]
        }
        let everySecond = Dictionary(uniqueKeysWithValues: stride(from: 1, to: count, by: 2).map { ($0, 0) })
        #expect(Self.rejected(contested) == everySecond)
        let shifted = (0..<count).map { [Self.claim($0 + 1, at: UInt32($0), old: $0)] }
        #expect(Self.rejected(shifted).isEmpty)
        #expect(Self.rejected(shifted, retained: [count]).count == count)
    }

    // MARK: - In the store

    private static let model = """
        {"entities": {
          "U": {"identity": "id", "unique": [["v"], ["u"]], "attributes": {
            "id": "integer64", "u": "string", "v": "string"}, "relationships": {
            "child": {"entity": "U"}, "room": {"entity": "R"},
            "maybe": {"entity": "R", "missing": "ignore"}, "surely": {"entity": "R", "missing": "fail"}}},
          "R": {"identity": "id", "attributes": {"id": "integer64", "name": {"type": "string", "optional": false}}}}}
        """

    @Test(arguments: [
        (
            #"[{"id": 1, "u": "a", "v": "p"}, {"id": 2, "u": "a", "v": "q"}, {"id": 3, "u": "b", "v": "q"}]"#,
            ["constraintViolation /U/1"], ["1|a|p", "3|b|q"]
        ),
        (
            #"[{"id": 1, "u": "a"}, {"id": 2, "u": "a", "child": {"id": 9, "v": "q"}}, {"id": 3, "v": "q"}]"#,
            ["constraintViolation /U/1"], ["1|a|NULL", "3|NULL|q"]
        ),
        (
            #"[{"id": 1, "u": "a"}, {"id": 2, "child": {"id": 3, "u": "a", "child": {"id": 4, "u": "b"}}}, {"id": 5, "u": "b"}]"#,
            ["constraintViolation /U/1/child"], ["1|a|NULL", "2|NULL|NULL", "5|b|NULL"]
        ),
    ]) func `a claim of a rejected record, or of one nested in it, costs no other object its value`(
        records: String, rejections: [String], rows: [String]
    ) throws {
        let store = try TestStore(Self.model)
        let outcome = try store.outcome(#"{"U": \#(records)}"#, .skip)
        #expect(outcome.rejections == rejections)
        #expect(try store.rows("SELECT id, u, v FROM U ORDER BY id") == rows)
    }

    @Test func `an object retains the values that the job does not name, whatever becomes of its records`() throws {
        let store = try TestStore(Self.model)
        _ = try store.outcome(
            #"{"U": [{"id": 8, "u": "p"}, {"id": 2, "u": "2", "v": "x"}, {"id": 4, "u": "9"}]}"#, .skip)
        // 5 claims what 8 retains. Then 2 loses its claim and retains "2" and "x", 4 loses that claim, and so does 1.
        let outcome = try store.outcome(
            #"""
            {"U": [{"id": 5, "child": {"id": 2, "child": {"id": 5, "u": "p"}}}, {"id": 1, "u": "9"}, {"id": 4, "u": "2"},
                   {"id": 2, "u": "9"}]}
            """#, .skip)
        #expect(
            outcome.rejections == [
                "constraintViolation /U/0", "constraintViolation /U/1", "constraintViolation /U/2",
                "constraintViolation /U/3",
            ])
        #expect(try store.rows("SELECT id, u, v FROM U ORDER BY id") == ["2|2|x", "4|9|NULL", "8|p|NULL"])
    }

    @Test func `an object that only rejected records would have made is not looked for`() throws {
        let store = try TestStore(
            Self.model.replacing(#""u": "string""#, with: #""u": {"type": "string", "optional": false}"#))
        let outcome = try store.outcome(
            #"{"U": [{"id": 1, "u": "a", "maybe": 5, "surely": 6}, {"id": 2, "room": 5, "child": {"id": 3, "u": "b", "room": 6}}]}"#,
            .skip)
        #expect(outcome.rejections == ["objectNotFound /U/0/surely", "missingValue /U/1"])
    }

    /// An earlier record's claim does not count more than that the value is there.
    @Test func `an object whose record has its own value again retains it, however late the record is`() throws {
        let store = try TestStore(Self.model)
        _ = try store.outcome(#"{"U": [{"id": 2, "u": "a"}]}"#)
        let outcome = try store.outcome(#"{"U": [{"id": 1, "u": "a"}, {"id": 2, "u": "a", "v": "q"}]}"#, .skip)
        #expect(outcome.rejections == ["constraintViolation /U/0"])
        #expect(try store.rows("SELECT id, u, v FROM U ORDER BY id") == ["2|a|q"])
        #expect(
            try store.fault(#"{"U": [{"id": 1, "u": "a"}, {"id": 2, "u": "a", "v": "r"}]}"#)?.path == "/U/0")
    }

    @Test func `rejections are found in rounds, and are final`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "A": {"identity": "id", "identityOptional": true, "attributes": {"id": "string", "mark": "integer64"},
                "relationships": {"s1": {"entity": "B", "toMany": true}, "r3": {"entity": "B"}}},
              "B": {"identity": ["k1", "k2"], "attributes": {"k1": "integer64", "k2": "string",
                "p": {"type": "decimal", "unique": true}}, "relationships": {
                "s0": {"entity": "A", "toMany": true}, "r4": {"entity": "B"}}}}}
            """)
        try store.apply(#"{"B": [{"k1": 2, "k2": "a", "p": 2}, {"k1": 2, "k2": "b", "p": 1.5}]}"#)
        let outcome = try store.outcome(
            #"""
            {"A": [{"mark": 15, "r3": {"k1": 2, "k2": "a", "r4": {"k1": 4, "k2": "c", "p": 2}}},
                   {"mark": 16, "r3": {"k1": 1, "k2": "b", "p": 2, "s0": [{"mark": 17, "s1": [{"k1": 2, "k2": "a", "p": 1.5}]}]}}]}
            """#, .skip)
        // B 2 a claims what B 2 b retains, so it retains its 2, which B 1 b claims.
        #expect(outcome.rejections == ["constraintViolation /A/0/r3", "constraintViolation /A/1/r3"])
        #expect(try store.rows("SELECT k1, k2, p FROM B ORDER BY 1, 2") == ["2|a|2", "2|b|1.5"])
    }

    @Test func `an object that two rounds would reject has the fault of the first`() throws {
        let store = try TestStore(
            """
            {"entities": {"B": {"identity": "id", "attributes": {"id": "integer16", "p": {"type": "string", "optional": false},
              "r": {"type": "boolean", "unique": true}}, "relationships": {
              "r2": {"entity": "B", "toMany": true}, "r3": {"entity": "B", "toMany": true}}}}}
            """)
        try store.apply(#"{"B": [{"id": 2, "p": "x"}, {"id": 3, "p": "y", "r": 1}]}"#)
        let outcome = try store.outcome(
            #"""
            {"B": [{"id": 3, "r2": [{"id": 2, "r2": {"id": 1, "p": "z"}, "r3": [{"id": 4, "r2": [{"id": 2, "r": true}]}]}]},
                   {"id": 1, "r": true}, {"id": 4, "p": "w"}]}
            """#, .skip)
        #expect(outcome.rejections == ["constraintViolation /B/0/r2/0", "constraintViolation /B/1"])
        #expect(try store.rows("SELECT id, p, r FROM B ORDER BY 1") == ["2|x|NULL", "3|y|1", "4|w|NULL"])
    }

    /// `{}` separates operations that are not judged together.
    @Test(arguments: [
        // The holder has been rejected, so no object has the value.
        (#"{"id": 1, "u": "a", "v": "p"}, {"id": 2, "v": "p"}"#, ["9|a|b", "2|NULL|p"], ["/0/json/0"]),
        (#"{"id": 1, "u": "a", "v": "p"}], {}, [{"id": 2, "v": "p"}"#, ["9|a|b", "2|NULL|p"], ["/0/json/0"]),
        // The value is given up in the end, but not by the first that claimed it: then each claim is judged at once.
        (
            #"{"id": 1, "u": "a"}], {}, [{"id": 2, "u": "a"}], {}, [{"id": 9, "u": "c"}"#, ["9|c|b"],
            ["/0/json/0", "/2/json/0"]
        ),
        (#"{"id": 1, "u": "a"}], {}, [{"id": 9, "u": "c"}"#, ["9|c|b", "1|a|NULL"], []),
    ]) func `a claim of a later operation meets no rejected holder`(
        records: String, rows: [String], rejections: [String]
    ) throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"U": [{"id": 9, "u": "a", "v": "b"}]}"#)
        let operations = "[\(records)]".split(separator: ", {}, ").map { #"{"entity": "U", "json": \#($0)}"# }
        let outcome = try store.outcome(
            ofOperations: operations.joined(separator: #", {"op": "delete", "entity": "U", "objects": []}, "#), .skip)
        #expect(outcome.rejections == rejections.map { "constraintViolation \($0)" })
        #expect(try Set(store.rows("SELECT id, u, v FROM U")) == Set(rows))
    }
}
