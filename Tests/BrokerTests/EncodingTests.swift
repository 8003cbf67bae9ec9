import Foundation
import TestSupport
import Testing

@testable import Broker

/// The JSON text of `Encodable` values.
@Suite(.timeLimit(.minutes(5))) struct EncodingTests {
    // MARK: - Dates

    /// Seconds since 1970 with a fraction of so many digits, without zeros at its end.
    private func text(_ seconds: Int, _ units: Int, _ digits: Int) -> String {
        var fraction =
            String(repeating: "0", count: digits - min(digits, String(units).count)) + (digits == 0 ? "" : "\(units)")
        while fraction.last == "0" { fraction.removeLast() }
        guard seconds < 0, !fraction.isEmpty else { return fraction.isEmpty ? "\(seconds)" : "\(seconds).\(fraction)" }
        // The fraction counts from the second before.
        let scale = [0: 1, 3: 1_000, 6: 1_000_000][digits]!
        var complement = String(String(scale + scale - units).dropFirst())
        while complement.last == "0" { complement.removeLast() }
        return "-\(-(seconds + 1)).\(complement)"
    }

    /// - Parameter digits: of the fraction of a second.
    @Test(arguments: [0, 3, 6])
    func `100,000 dates of a precision have its digits, however they were made, and come back`(digits: Int) throws {
        var generator = SeededGenerator(for: "dates of \(digits) digits")
        let scale = [0: 1, 3: 1_000, 6: 1_000_000][digits]!
        // Milliseconds of the years 1 to 9999, microseconds of 1864 to 2137.
        let range = digits == 6 ? -3_316_000_000..<5_273_000_000 : -62_135_596_800..<253_402_300_800
        var wrong: [String] = []
        for _ in 0..<100_000 {
            let seconds = Int.random(in: range, using: &generator)
            let units = digits == 0 ? 0 : Int.random(in: 0..<scale, using: &generator)
            let expected = text(seconds, units, digits)
            let sinceReference = Double(seconds - 978_307_200) + Double(units) / Double(scale)
            let date =
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: Date(timeIntervalSinceReferenceDate: sinceReference)
                case 1: Date(timeIntervalSince1970: Double(seconds) + Double(units) / Double(scale))
                default: try RawJSON(expected).decode(Date.self)
                }
            if try RawJSON(value: date).description != expected { wrong.append(expected) }
        }
        #expect(wrong.isEmpty, "\(wrong.count), such as \(wrong.prefix(3))")
    }

    @Test func `a date that was fetched as text has the digits of that text`() throws {
        var generator = SeededGenerator()
        for digits in [3, 6] {
            for _ in 0..<2_000 {
                let units = Int.random(in: 0..<(digits == 3 ? 1_000 : 1_000_000), using: &generator)
                let fraction = String(String((digits == 3 ? 1_000 : 1_000_000) + units).dropFirst())
                let date = try RawJSON(#""2026-11-28T14:00:07.\#(fraction)Z""#).decode(Date.self)
                #expect(try RawJSON(value: date).description == text(1_795_874_407, units, digits))
            }
        }
    }

    @Test(arguments: [
        (Double.zero, "0"), (-0.5, "-0.5"), (-1, "-1"), (1e-7, "0"), (0.000_000_6, "0.000001"),
        (-0.000_001, "-0.000001"),
        (-0.000_000_1, "0"), (1_322_520_171.001_999_9, "1322520171.002"), (-62_135_596_800, "-62135596800"),
        (253_402_300_799.999, "253402300799.999"), (1e30, "1e+30"),
    ])
    func `a date is rounded to the nearest digit that it has`(seconds: Double, text: String) throws {
        #expect(try RawJSON(value: Date(timeIntervalSince1970: seconds)).description == text)
    }

    @Test func `a date that is no time is an error`() {
        for seconds in [Double.nan, .infinity] {
            let error = #expect(throws: BrokerError.self) {
                try RawJSON(value: Date(timeIntervalSinceReferenceDate: seconds))
            }
            #expect(error?.code == .notEncodable)
        }
    }

    // MARK: - Numbers

    @Test func `a double and a float have the fewest digits that are read as the same number`() throws {
        var generator = SeededGenerator()
        for _ in 0..<20_000 {
            let double = Double(bitPattern: generator.next())
            let float = Float(bitPattern: UInt32.random(in: .min ... .max, using: &generator))
            if double.isFinite { #expect(try RawJSON(value: double).decode(Double.self) == double) }
            if float.isFinite { #expect(try RawJSON(value: float).decode(Float.self) == float) }
        }
        for (value, text) in [(0.1, "0.1"), (19.99, "19.99"), (2, "2"), (-0.0, "-0"), (1e22, "1e+22")] {
            #expect(try RawJSON(value: value).description == text)
        }
        #expect(try RawJSON(value: Float(0.1)).description == "0.1")
        #expect(try RawJSON(value: ["a": Int128.max]).description == #"{"a":170141183460469231731687303715884105727}"#)
    }

    @Test func `a raw text inside of a value keeps all its digits`() throws {
        let text = "1234567890123456789012345678901234567890.50"
        #expect(try RawJSON(encoding: ["a": [RawJSON(text)]]).description == #"{"a":[\#(text)]}"#)
        let error = #expect(throws: BrokerError.self) { try RawJSON(encoding: ["a": RawJSON("1 2")]) }
        #expect(error?.code == .notEncodable)
    }

    // MARK: - Order

    private struct Tags: Encodable {
        struct Tag: Encodable, Hashable {
            var id: Int
            var name: String
        }

        var names: Set<String>
        var tags: Set<Tag>?
        @Nullable var numbers: Set<Int>?
        var byTag: [Tag: Int] = [:]
        var list = [3, 1, 2]
    }

    @Test func `the elements of a set, and pairs of values, are in the order of their bytes`() throws {
        let names = (100..<200).map { "n\($0)" }
        let tags = Tags(
            names: Set(names), tags: Set((100..<150).map { .init(id: $0, name: "") }), numbers: Set(10...60),
            byTag: Dictionary(uniqueKeysWithValues: (100..<150).map { (.init(id: $0, name: ""), -$0) }))
        func array(_ elements: [String]) -> String { "[" + elements.joined(separator: ",") + "]" }
        let objects = (100..<150).map { #"{"id":\#($0),"name":""}"# }
        let pairs = objects.enumerated().map { "\($0.element),\(-100 - $0.offset)" }
        let texts = names.map { "\"\($0)\"" }
        var expected = #"{"byTag":\#(array(pairs)),"list":[3,1,2],"names":\#(array(texts)),"#
        expected += #""numbers":\#(array((10...60).map(String.init))),"tags":\#(array(objects))}"#
        #expect(try RawJSON(encoding: tags).description == expected)
        #expect(try RawJSON(value: Set(names)).description == array(texts))
    }

    // MARK: - As Foundation's encoder

    private class Animal: Encodable {
        var name = "a\"ü\n"
        var legs: Int? = 4
    }

    private final class Dog: Animal {
        enum Size: Encodable { case small, large(Double, label: String) }

        var sizes: [Size] = [.small, .large(1.5, label: "x")]
        var page = URL(string: "https://a.b/c?d=1")
        var data = Data([1, 2, 3])
        var map = [1: ["x": Decimal(string: "12.50")]]
        var pairs: [[Int?]] = [[], [1, nil]]
        var bytes: [UInt8] = [7]
        var flag = true
        var wide = UInt64.max

        private enum Keys: String, CodingKey { case sizes, page, data, map, pairs, bytes, flag, wide, nested }

        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Keys.self)
            try super.encode(to: container.superEncoder())
            var nested = container.nestedUnkeyedContainer(forKey: .nested)
            try nested.encode(pairs)
            try container.encode(sizes, forKey: .sizes)
            var inner = nested.nestedContainer(keyedBy: Keys.self)
            try inner.encode(page, forKey: .page)
            try inner.encode(data, forKey: .data)
            try nested.encodeNil()
            try container.encode(map, forKey: .map)
            try container.encode(bytes, forKey: .bytes)
            try container.encode(flag, forKey: .flag)
            try container.encode(wide, forKey: .wide)
            try super.encode(to: nested.superEncoder())
        }
    }

    @Test func `values of every shape are written as Foundation's encoder writes them`() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let dog = try RawJSON(encoding: [Dog()])
        #expect(dog.description == String(decoding: try encoder.encode([Dog()]), as: UTF8.self))
        // The outer array, the dog, its list, the pairs and one of them.
        #expect(dog.knownDepth == 5)
        struct Empty: Encodable { func encode(to encoder: any Encoder) {} }
        #expect(try RawJSON(encoding: [Empty()]).description == "[{}]")
        #expect(throws: BrokerError.self) { try RawJSON(encoding: Empty()) }
    }
}
