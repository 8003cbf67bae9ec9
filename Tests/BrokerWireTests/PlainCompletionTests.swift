import Broker
import BrokerJSON
import BrokerWire
import TestSupport
import Testing

/// Most completions are read in one pass without a document; what the document says is what must come of it.
@Suite(.timeLimit(.minutes(5))) struct PlainCompletionTests {
    private func plain(_ message: [UInt8]) -> Completion? { message.withUnsafeBytes { Completion(plainly: $0) } }

    /// As the message is read that is not plain; nil when it is no `completed`.
    private func full(_ message: [UInt8]) -> Completion? {
        guard let envelope = try? ServerEnvelope.decode(parsing: JSONText(copying: message)),
            case .completed(let completed) = envelope.message, envelope.tag == nil
        else { return nil }
        return completed
    }

    private func number(_ generator: inout SeededGenerator) -> Int {
        Int.random(
            in: 0...([0, 9, 100_000, 999_999_999_999_999_999].randomElement(using: &generator) ?? 0), using: &generator)
    }

    private func members(_ generator: inout SeededGenerator) -> [UInt8] {
        let names = ["Employee", "Department", "a", "", "An entity of a long name, which no small string holds"]
        let changes = names.shuffled(using: &generator).prefix(Int.random(in: 0...3, using: &generator)).map { name in
            let counts = ["inserted", "updated", "unchanged", "deleted", "rejected"].map {
                "\"\($0)\":\(number(&generator))"
            }
            return "\"\(name)\":{\(counts.joined(separator: ","))}"
        }
        let journal = Bool.random(using: &generator) ? ["journalWaited", "journalSynced"] : []
        let times = (["queued", "staged"] + journal + ["waited", "merged", "committed"]).map {
            "\"\($0)\":\(number(&generator))"
        }
        return Array(
            #""changes":{\#(changes.joined(separator: ","))},"rejected":[],"warnings":[],"timing":{\#(times.joined(separator: ","))}"#
                .utf8)
    }

    private func message(_ generator: inout SeededGenerator, tag: [UInt8]? = nil) -> [UInt8] {
        completedMessage(
            id: "0123456789abcdef-\(number(&generator))", sequence: Int64(number(&generator)),
            isDuplicate: Bool.random(using: &generator),
            members: Bool.random(using: &generator) ? members(&generator) : [], tag: tag)
    }

    @Test func `the plain reader returns the same completion of a successful job as its document`() throws {
        var generator = SeededGenerator()
        for _ in 0..<2_000 {
            let message = message(&generator)
            let read = try #require(plain(message), "\(String(decoding: message, as: UTF8.self))")
            #expect(read == full(message))
        }
    }

    @Test func `whatever else is written is left to the document, or read as that is`() {
        var generator = SeededGenerator()
        let parts = [
            "\\", "\"", "é", ",", "}", "{", "0", "-", "1.5", " ", "\"tag\":1,", "\"keys\":{},", "true", "null", "[1]",
            "\n",
            ",\"id\":\"other\"", "\u{0}",
        ]
        var counts = [true: 0, false: 0]
        for _ in 0..<20_000 {
            var message = message(&generator)
            for _ in 0..<Int.random(in: 1...2, using: &generator) where !message.isEmpty {
                let place = Int.random(in: 0..<message.count, using: &generator)
                switch Int.random(in: 0..<4, using: &generator) {
                case 0: message.removeLast(message.count - place)
                case 1: message.remove(at: place)
                case 2: message[place] ^= 1 << UInt8.random(in: 0...7, using: &generator)
                default: message.insert(contentsOf: (parts.randomElement(using: &generator) ?? "").utf8, at: place)
                }
            }
            guard let read = plain(message) else {
                counts[false, default: 0] += 1
                continue
            }
            counts[true, default: 0] += 1
            #expect(read == full(message), "\(String(decoding: message, as: UTF8.self))")
        }
        #expect(counts.values.allSatisfy { $0 > 400 }, "the damage is one-sided: \(counts)")
    }

    @Test func `an answer to a request is not taken for one to a job`() {
        var generator = SeededGenerator()
        for _ in 0..<100 { #expect(plain(message(&generator, tag: [UInt8(ascii: "7")])) == nil) }
    }
}
