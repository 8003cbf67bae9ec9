import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// Who is left out of those that claim unique values: the rule by itself, then in the store.
@Suite(.timeLimit(.minutes(5))) struct UniqueClaimsTests {
    private typealias Claim = UniqueClaims.Claim

    private static func value(_ number: Int) -> StoredKey { StoredKey([.integer(Int64(number))]) }

    /// A claim of the value at that place; of list 0 unless told.
    private static func claim(
        _ new: Int, at place: UInt32, list: Int = 0, old: Int? = nil, within: [Int] = []
    ) -> Claim {
        Claim(list: list, claimedAt: place, old: old.map(value), new: value(new), within: within)
    }

    /// Who is out, by object and list.
    private static func refused(_ objects: [[Claim]], holders: [Int: UniqueClaims.Holder] = [:]) -> [Int: Int] {
        let held = Dictionary(uniqueKeysWithValues: holders.map { (value($0), $1) })
        var claims = UniqueClaims(objects) { list, key in list == 0 ? held[key] ?? .nobody : .nobody }
        claims.settle()
        return claims.refused
    }

    @Test func `of two that claim one value the later is out, and its other claims count for nothing`() {
        let objects = [
            [Self.claim(1, at: 10), Self.claim(1, at: 10, list: 1)],
            [Self.claim(2, at: 20), Self.claim(1, at: 20, list: 1)],
            [Self.claim(2, at: 30), Self.claim(2, at: 30, list: 1)],
        ]
        #expect(Self.refused(objects) == [1: 1])
    }

    @Test func `who is left out keeps what it had, and who wanted that is out, too`() {
        let objects = [
            [Self.claim(9, at: 10, old: 1)], [Self.claim(1, at: 20, old: 2)], [Self.claim(2, at: 30)],
            [Self.claim(4, at: 40)],
        ]
        let holders: [Int: UniqueClaims.Holder] = [9: .stranger, 1: .leaving(object: 0), 2: .leaving(object: 1)]
        #expect(Self.refused(objects, holders: holders) == [0: 0, 1: 0, 2: 0])
    }

    @Test(arguments: [2, 3, 100]) func `objects exchange their values all round`(count: Int) {
        let objects = (0..<count).map { [Self.claim(($0 + 1) % count, at: UInt32($0), old: $0)] }
        let holders = Dictionary(
            uniqueKeysWithValues: (0..<count).map { ($0, UniqueClaims.Holder.leaving(object: $0)) })
        #expect(Self.refused(objects, holders: holders).isEmpty)
    }

    @Test func `what is nested in a record that is left out is decided by another staging`() {
        let objects = [
            [Self.claim(1, at: 10)], [Self.claim(1, at: 20)], [Self.claim(5, at: 25, within: [1])],
            [Self.claim(5, at: 30)],
            [Self.claim(5, at: 40)],
        ]
        // 3 and 4 hang on 2, which may be there no more; not before that is known is 4 behind 3.
        #expect(Self.refused(objects) == [1: 0])
        #expect(Self.refused([[], [], [], objects[3], objects[4]]) == [4: 0])
    }

    @Test func `a circle that another staging may break is left to it`() {
        let objects = [
            [Self.claim(1, at: 10)], [Self.claim(1, at: 20)],
            [Self.claim(5, at: 25, within: [1]), Self.claim(7, at: 40, list: 1)],
            [Self.claim(5, at: 30), Self.claim(7, at: 35, list: 1)],
        ]
        #expect(Self.refused(objects) == [1: 0])
    }

    @Test func `what is nested claims as anybody when what it is nested in stays`() {
        let objects = [[Self.claim(1, at: 10)], [Self.claim(5, at: 15, within: [0])], [Self.claim(5, at: 30)]]
        #expect(Self.refused(objects) == [2: 0])
        #expect(Self.refused(objects, holders: [5: .stranger]) == [1: 0, 2: 0])
    }

    @Test func `who keeps its value inside a record that is left out may give it up in another staging`() {
        let objects = [
            [Self.claim(1, at: 10)], [Self.claim(5, at: 15, old: 5, within: [0])], [Self.claim(5, at: 30)],
        ]
        #expect(Self.refused(objects, holders: [5: .leaving(object: 1)]) == [2: 0])
        #expect(Self.refused(objects, holders: [5: .leaving(object: 1), 1: .stranger]) == [0: 0])
    }

    @Test func `who would be beaten by what is nested in it goes before who is beaten by that`() {
        let objects = [[Self.claim(1, at: 70)], [Self.claim(1, at: 14, within: [0])], [Self.claim(1, at: 60)]]
        #expect(Self.refused(objects) == [0: 0])
    }

    @Test func `a circle of claims is broken at the first that is lost in the text`() {
        let objects = [
            [Self.claim(1, at: 10), Self.claim(1, at: 40, list: 1)],
            [Self.claim(1, at: 20), Self.claim(1, at: 30, list: 1)],
        ]
        #expect(Self.refused(objects) == [1: 0])
    }

    @Test func `an object that claims a held value only inside its own record is left out`() {
        let objects = [[Self.claim(1, at: 20, within: [1, 0])], [Self.claim(2, at: 10, within: [0])]]
        #expect(Self.refused(objects, holders: [1: .stranger]) == [0: 0])
    }

    @Test func `long chains, where each hangs on the one before, are decided at once`() {
        let count = 100_000
        let contested = (0..<count).map { object in
            [Self.claim(object / 2, at: UInt32(object)), Self.claim((object + 1) / 2, at: UInt32(object), list: 1)]
        }
        let everySecond = Dictionary(uniqueKeysWithValues: stride(from: 1, to: count, by: 2).map { ($0, 0) })
        #expect(Self.refused(contested) == everySecond)
        let shifted = (0..<count).map { [Self.claim($0 + 1, at: UInt32($0), old: $0)] }
        var holders = Dictionary(
            uniqueKeysWithValues: (0..<count).map { ($0, UniqueClaims.Holder.leaving(object: $0)) })
        #expect(Self.refused(shifted, holders: holders).isEmpty)
        holders[count] = .stranger
        #expect(Self.refused(shifted, holders: holders).count == count)
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
    ]) func `what a left out record claims, or what is nested in it, costs no other its place`(
        records: String, rejections: [String], rows: [String]
    ) throws {
        let store = try TestStore(Self.model)
        let outcome = try store.outcome(#"{"U": \#(records)}"#, .skip)
        #expect(outcome.rejections == rejections)
        #expect(try store.rows("SELECT id, u, v FROM U ORDER BY id") == rows)
    }

    @Test func `a value of which the job does not speak hangs on nothing that the job leaves out`() throws {
        let store = try TestStore(Self.model)
        _ = try store.outcome(
            #"{"U": [{"id": 8, "u": "p"}, {"id": 2, "u": "2", "v": "x"}, {"id": 4, "u": "9"}]}"#, .skip)
        // 2 loses its claim whatever becomes of 5, and keeps "x"; what is nested in it then says nothing of 5.
        let outcome = try store.outcome(
            #"""
            {"U": [{"id": 5, "child": {"id": 2, "child": {"id": 5, "u": "p"}}}, {"id": 1, "u": "9"}, {"id": 4, "u": "2"},
                   {"id": 2, "u": "9"}]}
            """#, .skip)
        #expect(
            outcome.rejections == [
                "constraintViolation /U/0/child", "constraintViolation /U/1", "constraintViolation /U/2",
            ])
        #expect(
            try store.rows("SELECT id, u, v FROM U ORDER BY id") == ["2|2|x", "4|9|NULL", "5|NULL|NULL", "8|p|NULL"])
    }

    @Test func `an object that only left out records would have made is not looked for`() throws {
        let store = try TestStore(
            Self.model.replacing(#""u": "string""#, with: #""u": {"type": "string", "optional": false}"#))
        let told = try store.outcome(
            #"{"U": [{"id": 1, "u": "a", "maybe": 5, "surely": 6}, {"id": 2, "room": 5, "child": {"id": 3, "u": "b", "room": 6}}]}"#,
            .skip)
        #expect(told.rejections == ["objectNotFound /U/0/surely", "missingValue /U/1"])
    }
}
