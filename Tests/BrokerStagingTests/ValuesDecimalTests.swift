import Foundation
import Testing
import TestSupport

@testable import BrokerStaging

@Suite(.timeLimit(.minutes(5))) struct ValuesDecimalTests {
    private func normal(_ text: String) -> String? {
        withBytes(of: text) { bytes, arena in
            NumberText(bytes).flatMap { DecimalText.normalise($0, arena: &arena) }
                .map { String(decoding: $0, as: UTF8.self) }
        }
    }

    private func isOrdered(_ left: String, before right: String) -> Bool {
        withBytes(of: left) { left, _ in
            withBytes(of: right) { right, _ in DecimalText(normal: left) < DecimalText(normal: right) }
        }
    }

    @Test func `decimals compare by value, not by spelling`() {
        let ascending = [
            "-100", "-10.5", "-10.49", "-9", "-0.001", "0", "0.0009", "0.001", "0.01", "9", "10", "10.01", "100",
        ]
        for (index, left) in ascending.enumerated() {
            for (otherIndex, right) in ascending.enumerated() {
                #expect(isOrdered(left, before: right) == (index < otherIndex), "\(left) \(right)")
            }
        }
        withBytes(of: "1.5") { left, _ in
            withBytes(of: "1.500") { right, _ in #expect(DecimalText(normal: left) == DecimalText(normal: right)) }
        }
    }

    @Test func `random decimals retain their value and order`() throws {
        var generator = SeededGenerator(for: "decimals")
        let posix = Locale(identifier: "en_US_POSIX")
        var previous: (text: String, value: Decimal)?
        for _ in 0..<5000 {
            let written = randomNumber(&generator)
            let text = try #require(normal(written))
            let value = try #require(Decimal(string: text, locale: posix))
            #expect(value == Decimal(string: written, locale: posix), "\(written) became \(text)")
            #expect(text.wholeMatch(of: /-?(0|[1-9][0-9]*)(\.[0-9]+)?/) != nil, "\(written) became \(text)")
            #expect(normal(text) == text)
            if let previous {
                #expect(isOrdered(previous.text, before: text) == (previous.value < value), "\(previous.text) \(text)")
            }
            previous = (text, value)
        }
    }

    private func randomNumber(_ generator: inout SeededGenerator) -> String {
        func digits(_ range: ClosedRange<Int>) -> String {
            (0..<Int.random(in: range, using: &generator)).map { _ in String(Int.random(in: 0...9, using: &generator)) }
                .joined()
        }
        let sign = ["", "-", "+"].randomElement(using: &generator)!
        let fraction = Bool.random(using: &generator) ? "." + digits(1...8) : ""
        let exponent = Bool.random(using: &generator) ? "e\(Int.random(in: -12...12, using: &generator))" : ""
        return sign + digits(1...8) + fraction + exponent
    }
}
