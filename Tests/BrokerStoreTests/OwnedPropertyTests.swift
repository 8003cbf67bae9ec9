import Testing
import TestSupport

@testable import BrokerStore

/// Owned objects under random jobs, against orders to which one record after the other is applied.
@Suite(.timeLimit(.minutes(5))) struct OwnedPropertyTests {
    @Test func `orders have what the last record of each says`() throws {
        let store = try TestStore(OwnedTests.model)
        var orders = RandomOrders(SeededGenerator(for: "orders have what the last record of each says"))
        for number in 0..<Cases.count(250, of: 2_000) {
            let job = orders.job()
            try store.run(job)
            let rows = try store.rows(
                #"SELECT parent_id, position, sku, quantity FROM OrderLine WHERE "order" = parent_id ORDER BY 1, 2"#)
            try #require(rows == orders.lines, "job \(number): \(job)")
            try #require(
                try store.rows("SELECT parent_parent_id, parent_position, name, rate FROM Tax ORDER BY 1, 2, 3")
                    == orders.taxes, "job \(number): \(job)")
            try #require(
                try store.rows(#"SELECT "order", city FROM Address WHERE parent_id = "order" ORDER BY 1"#)
                    == orders.addresses, "job \(number): \(job)")
            #expect(try store.rows("SELECT count(*) FROM OrderLine") == ["\(rows.count)"])
            guard orders.isRepeatable else { continue }
            let again = try store.run(job)
            try #require(!again.contains { "+~-".contains($0) }, "job \(number) again: \(again): \(job)")
        }
        #expect(try store.isSound())
    }
}

/// Makes jobs, and knows what they do.
private struct RandomOrders {
    private struct Line {
        let sku: String
        let quantity: Int
        let taxes: [String: Int]
    }

    private struct Order {
        var lines: [Line] = []
        var city: String?
    }

    private var generator: SeededGenerator
    private var orders: [Int: Order] = [:]
    private(set) var isRepeatable = true

    init(_ generator: SeededGenerator) { self.generator = generator }

    private mutating func number(_ range: Range<Int>) -> Int { Int.random(in: range, using: &generator) }

    // MARK: - Jobs

    mutating func job() -> String {
        isRepeatable = true
        return (0..<number(1..<4)).map { _ in operation() }.joined(separator: ", ")
    }

    private mutating func operation() -> String {
        let known = orders.keys.sorted()
        switch number(0..<8) {
        case 0:
            isRepeatable = false
            let id = number(1..<5)
            orders[id] = nil
            return #"{"op": "delete", "entity": "Order", "objects": [\#(id)]}"#
        case 1 where !known.isEmpty:
            isRepeatable = false
            let (old, new) = (known[number(0..<known.count)], number(1..<7))
            guard old == new || orders[new] == nil else { return operation() }
            orders[new] = orders.removeValue(forKey: old)
            return #"{"entity": "Order", "object": \#(old), "json": \#(record(new))}"#
        case 2: return #"{"entity": "Product", "json": {"id": \#(number(1..<3))}}"#
        default:
            let records = (0..<number(1..<4)).map { _ in record(number(1..<5)) }
            return #"{"entity": "Order", "json": [\#(records.joined(separator: ", "))]}"#
        }
    }

    private mutating func record(_ id: Int) -> String {
        var order = orders[id] ?? Order()
        var fields = [#""id": \#(id)"#]
        if number(0..<3) > 0 {
            let count = number(0..<4)
            order.lines = (0..<count).map { _ in line() }
            let texts = order.lines.map(Self.text)
            let value = count == 0 ? ["null", "[]"][number(0..<2)] : "[\(texts.joined(separator: ", "))]"
            fields.append(#""lines": \#(count == 1 && number(0..<2) == 0 ? texts[0] : value)"#)
        }
        if number(0..<2) == 0 {
            order.city = number(0..<3) == 0 ? nil : "c\(number(0..<3))"
            fields.append(#""address": \#(order.city.map { #"{"city": "\#($0)"}"# } ?? "null")"#)
        }
        orders[id] = order
        return "{\(fields.shuffled(using: &generator).joined(separator: ", "))}"
    }

    private mutating func line() -> Line {
        var taxes: [String: Int] = [:]
        for _ in 0..<number(0..<3) { taxes["t\(number(0..<3))"] = number(0..<3) }
        return Line(sku: "s\(number(0..<3))", quantity: number(0..<3), taxes: taxes)
    }

    private static func text(_ line: Line) -> String {
        let taxes = line.taxes.sorted { $0.key < $1.key }.map { #"{"name": "\#($0)", "rate": \#($1)}"# }
        return #"{"sku": "\#(line.sku)", "quantity": \#(line.quantity), "taxes": [\#(taxes.joined(separator: ", "))]}"#
    }

    // MARK: - Rows

    var lines: [String] {
        orders.sorted { $0.key < $1.key }.flatMap { id, order in
            order.lines.enumerated().map { "\(id)|\($0)|\($1.sku)|\($1.quantity)" }
        }
    }

    var taxes: [String] {
        orders.sorted { $0.key < $1.key }.flatMap { id, order in
            order.lines.enumerated().flatMap { position, line in
                line.taxes.sorted { $0.key < $1.key }.map { "\(id)|\(position)|\($0)|\(Double($1))" }
            }
        }
    }

    var addresses: [String] {
        orders.sorted { $0.key < $1.key }.compactMap { id, order in order.city.map { "\(id)|\($0)" } }
    }
}
