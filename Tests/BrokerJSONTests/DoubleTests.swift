import BrokerJSON
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct DoubleTests {
    private func double(_ text: String) -> Double? {
        Array(text.utf8).withUnsafeBufferPointer { Double(jsonNumber: $0) }
    }

    @Test func `a number becomes the nearest double, however many digits it has`() {
        var random = SeededGenerator()
        for _ in 0..<20_000 {
            var text = Int.random(in: 0..<2, using: &random) == 0 ? "" : "-"
            text += Int.random(in: 0..<3, using: &random) == 0 ? "0" : "\(1 + Int.random(in: 0..<9, using: &random))"
            for _ in 0..<Int.random(in: 0..<20, using: &random) where text.last != "0" || text.count > 2 {
                text += "\(Int.random(in: 0..<10, using: &random))"
            }
            if Int.random(in: 0..<3, using: &random) > 0 {
                text += "."
                for _ in 0...Int.random(in: 0..<24, using: &random) {
                    text += "\(Int.random(in: 0..<10, using: &random))"
                }
            }
            if Int.random(in: 0..<8, using: &random) == 0 { text += "e\(Int.random(in: -30..<30, using: &random))" }
            #expect(double(text)?.bitPattern == Double(text)?.bitPattern, "\(text)")
        }
    }

    @Test(arguments: [
        "0", "-0", "-0.0", "9007199254740991", "9007199254740992", "9007199254740993", "0.000000000000000001",
        "0.0000000000000000001", "999999999999999999", "1234567890.123456789", "0.1", "1e308", "5e-324",
    ])
    func `numbers at the bounds of the short way are read as others`(_ text: String) {
        #expect(double(text)?.bitPattern == Double(text)?.bitPattern)
    }

    @Test func `a number outside the range of doubles is none`() { #expect(double("1e309") == nil) }
}
