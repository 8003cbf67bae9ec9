import TestSupport
import Testing

@testable import BrokerStore

/// Operations of one job take effect as they would in jobs of their own, the order of ordered relationships included.
@Suite(.timeLimit(.minutes(5))) struct OperationOrderTests {
    private static let model = """
        {"entities": {
          "A": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "bs": {"entity": "B", "toMany": true, "ordered": true, "inverse": "as"},
            "cs": {"entity": "C", "toMany": true, "ordered": true, "inverse": "a"},
            "rs": {"entity": "C", "toMany": true, "ordered": true, "assignment": "replace", "inverse": "r"}}},
          "B": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "as": {"entity": "A", "toMany": true, "ordered": true, "assignment": "replace", "inverse": "bs"}}},
          "C": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "a": {"entity": "A", "inverse": "cs"}, "r": {"entity": "A", "inverse": "rs"}}}
        }}
        """

    private static let setups = [
        #"{"A": [{"id": 1}, {"id": 2}]}"#, #"{"A": [{"id": 1, "bs": [1], "cs": [1], "rs": [1]}, {"id": 2}]}"#,
    ]

    /// The orders of all sets, without their positions.
    private static func orders(_ store: TestStore) throws -> [String] {
        try store.rows("SELECT 'bs', source, destination FROM A_bs ORDER BY source, position")
            + store.rows("SELECT 'as', destination, source FROM A_bs ORDER BY destination, inverse_position")
            + store.rows("SELECT 'cs', a, id FROM C WHERE a IS NOT NULL ORDER BY a, a_position")
            + store.rows("SELECT 'rs', r, id FROM C WHERE r IS NOT NULL ORDER BY r, r_position")
    }

    private static func difference(_ setup: String, _ operations: [String]) throws -> String? {
        let (together, apart) = (try TestStore(model), try TestStore(model))
        try together.apply(setup)
        try apart.apply(setup)
        _ = try together.run(operations.joined(separator: ", "))
        for operation in operations { _ = try apart.run(operation) }
        let (found, expected) = (try orders(together), try orders(apart))
        return found == expected ? nil : "\(operations): \(found), apart \(expected)"
    }

    @Test(
        arguments: setups,
        [
            // A set that replaces names the link again, so the link keeps its position.
            [#"{"entity": "A", "json": {"id": 1, "bs": [1, 2]}}"#, #"{"entity": "B", "json": {"id": 1, "as": [1]}}"#],
            // A set that replaces ends the link, and a later operation makes it again.
            [#"{"entity": "B", "json": {"id": 1, "as": [2]}}"#, #"{"entity": "A", "json": {"id": 1, "bs": [2, 1]}}"#],
            [
                #"{"entity": "A", "json": {"id": 1, "bs": [1, 2]}}"#, #"{"entity": "B", "json": {"id": 1, "as": []}}"#,
                #"{"entity": "A", "json": {"id": 1, "bs": [1]}}"#,
            ],
            [
                #"{"entity": "A", "json": {"id": 1, "bs": [1, 2]}}"#, #"{"entity": "B", "json": {"id": 1, "as": []}}"#,
                #"{"entity": "B", "json": {"id": 1, "as": [1]}}"#,
            ],
            [#"{"entity": "B", "json": {"id": 1, "as": null}}"#, #"{"entity": "B", "json": {"id": 1, "as": [2, 1]}}"#],
            [#"{"entity": "C", "json": {"id": 1, "a": 2}}"#, #"{"entity": "A", "json": {"id": 1, "cs": [2, 1]}}"#],
            [#"{"entity": "C", "json": {"id": 2, "r": 1}}"#, #"{"entity": "A", "json": {"id": 1, "rs": [1, 2]}}"#],
        ])
    func `Two operations give the order that two jobs give`(setup: String, operations: [String]) throws {
        #expect(try Self.difference(setup, operations) == nil)
    }

    @Test func `Random operations give the orders that they give as jobs of their own`() throws {
        let seed = SeededGenerator.testSeed(for: "orders of operations")
        var generator = SeededGenerator(seed: seed)
        func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
        for _ in 0..<150 {
            let operations = (0..<number(2...4)).map { _ in
                let records = (0..<number(1...2)).map { _ in
                    let (entity, name, isToMany) = [
                        ("A", "bs", true), ("B", "as", true), ("A", "cs", true), ("A", "rs", true), ("C", "a", false),
                        ("C", "r", false),
                    ][number(0...5)]
                    let list = (0..<number(0...3)).map { _ in "\(number(1...3))" }.joined(separator: ", ")
                    let value = number(0...4) == 0 ? "null" : isToMany ? "[\(list)]" : "\(number(1...2))"
                    return (entity, #"{"id": \#(number(1...(entity == "A" ? 2 : 3))), "\#(name)": \#(value)}"#)
                }
                let entity = records[0].0
                let own = records.filter { $0.0 == entity }.map(\.1).joined(separator: ", ")
                return #"{"entity": "\#(entity)", "json": [\#(own)]}"#
            }
            let difference = try Self.difference(Self.setups[number(0...1)], operations)
            #expect(difference == nil, "seed \(seed)")
            if difference != nil { return }
        }
    }
}
