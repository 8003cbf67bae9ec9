import TestSupport
import Testing

@testable import BrokerInput

/// The cutter copies few bytes; a plain one, which copies each, says what must come of it.
@Suite(.timeLimit(.minutes(5))) struct RecordCutterComparisonTests {
    private struct Cut: Equatable {
        struct Record: Equatable {
            let json: [UInt8]
            let place: InputPlace
        }

        var records: [Record] = []
        var sound: [Bool] = []
        var fault: InputFault?
        /// The reader's position at the end, or at the fault.
        var end = InputPlace()

        init(_ pieces: [[UInt8]], _ reader: some RecordReader) {
            var reader = reader
            var records: [Record] = []
            var sound: [Bool] = []
            func take(_ record: InputRecord) {
                records.append(Record(json: Array(record.json), place: record.place))
                sound.append(record.isSound)
            }
            do throws(InputFault) {
                for piece in pieces { try reader.feed(piece, take) }
                try reader.finish(take)
            } catch {
                fault = error
            }
            self.records = records
            self.sound = sound
            end = reader.place
        }

        func isSame(as other: Cut) -> Bool { records == other.records && fault == other.fault && end == other.end }
    }

    @Test func `records, places and faults are those of a cutter that reads byte by byte, wherever pieces end`() {
        var generator = SeededGenerator()
        var faults = 0
        let rounds = Cases.count(8_000, of: 30_000)
        for round in 0..<rounds {
            let text = RandomJSON.stream(using: &generator)
            let limits = RecordLimits(
                maximumBytes: Bool.random(using: &generator) ? 1 << 20 : Int.random(in: 1...60, using: &generator))
            let plain = Cut([text], PlainRecordCutter(limits: limits))
            let fast = Cut(
                RandomJSON.pieces(of: text, using: &generator), RecordCutter(opensArrays: true, limits: limits))
            if plain.fault != nil { faults += 1 }
            guard fast.isSame(as: plain) else {
                Issue.record(
                    "round \(round), \(limits): \(String(decoding: text, as: UTF8.self)): \(fast) not \(plain)")
                return
            }
        }
        #expect((rounds / 10...rounds * 9 / 10).contains(faults), "the inputs are one-sided: \(faults) faults")
    }

    @Test func `a record that is said to be sound is one that the parser takes`() {
        var generator = SeededGenerator()
        var counts = [true: 0, false: 0]
        let rounds = Cases.count(6_000, of: 20_000)
        for _ in 0..<rounds {
            // A number at the very end may go on, for all that the cutter knows.
            let text = RandomJSON.stream(using: &generator) + [UInt8(ascii: "\n")]
            let pieces = RandomJSON.pieces(of: text, using: &generator)
            let cut = Cut(pieces, RecordCutter())
            for (record, isSound) in zip(cut.records, cut.sound) {
                let fault = InputRecord(json: record.json, place: record.place).fault
                counts[fault == nil, default: 0] += 1
                if isSound { #expect(fault == nil, "\(String(decoding: record.json, as: UTF8.self))") }
            }
        }
        #expect(counts.values.allSatisfy { $0 > rounds / 10 }, "the inputs are one-sided: \(counts)")
    }

    @Test func `containers of any depth are closed by their own brackets`() {
        for depth in Array(1...3) + Array(62...67) + Array(507...509) {
            for (close, isSound) in [("}", depth <= RecordLimits.maximumDepth), ("]", false)] {
                func arrays(_ bracket: String) -> String { String(repeating: bracket, count: depth - 1) }
                let text = Array("{\"a\":\(arrays("["))1\(arrays("]"))\(close)\n".utf8)
                let cut = Cut([text], RecordCutter())
                #expect(cut.isSame(as: Cut([text], PlainRecordCutter(limits: .ofJobs))), "\(depth) \(close)")
                #expect(cut.sound == (isSound ? [true] : []), "\(depth) \(close)")
            }
        }
    }

    @Test func `a record that ends in another piece than it began in is whole`() {
        let text = Array(#"[{"a": "a string that is longer than a word", "b": [1.5e3, true]}, "\u00e9"]"#.utf8)
        for first in 0...text.count {
            for second in first...text.count {
                let cut = Cut(
                    [Array(text[..<first]), Array(text[first..<second]), Array(text[second...])], RecordCutter())
                #expect(cut.isSame(as: Cut([text], RecordCutter())), "\(first) \(second)")
            }
        }
    }
}

/// Streams of JSON, most of them sound, the others broken at one place or some.
private enum RandomJSON {
    static func stream(using generator: inout SeededGenerator) -> [UInt8] {
        var text: [UInt8] = []
        if Int.random(in: 0..<12, using: &generator) == 0 { text += [0xEF, 0xBB, 0xBF] }
        for _ in 0..<Int.random(in: 0...4, using: &generator) {
            space(&text, using: &generator)
            if Int.random(in: 0..<10, using: &generator) == 0 { text.append(0x1E) }
            value(&text, depth: 0, using: &generator)
        }
        space(&text, using: &generator)
        if Bool.random(using: &generator) { damage(&text, using: &generator) }
        return text
    }

    static func pieces(of text: [UInt8], using generator: inout SeededGenerator) -> [[UInt8]] {
        guard Int.random(in: 0..<3, using: &generator) > 0 else { return [text] }
        let largest = [1, 4, 20, 200].randomElement(using: &generator) ?? 1
        var pieces: [[UInt8]] = []
        var rest = text[...]
        while !rest.isEmpty {
            let piece = rest.prefix(Int.random(in: 0...largest, using: &generator))
            pieces.append(Array(piece))
            rest = rest.dropFirst(piece.count)
        }
        return pieces
    }

    private static func value(_ text: inout [UInt8], depth: Int, using generator: inout SeededGenerator) {
        switch Int.random(in: 0..<(depth < 4 ? 6 : 4), using: &generator) {
        case 0, 1: string(&text, using: &generator)
        case 2, 3: text += (scalars.randomElement(using: &generator) ?? "0").utf8
        case 4:
            container("[", "]", &text, using: &generator) { text, generator in
                value(&text, depth: depth + 1, using: &generator)
            }
        default:
            container("{", "}", &text, using: &generator) { text, generator in
                string(&text, using: &generator)
                space(&text, using: &generator)
                text += ":".utf8
                space(&text, using: &generator)
                value(&text, depth: depth + 1, using: &generator)
            }
        }
    }

    private static func container(
        _ open: String, _ close: String, _ text: inout [UInt8], using generator: inout SeededGenerator,
        _ element: (inout [UInt8], inout SeededGenerator) -> Void
    ) {
        text += open.utf8
        for index in 0..<Int.random(in: 0...4, using: &generator) {
            if index > 0 { text += ",".utf8 }
            space(&text, using: &generator)
            element(&text, &generator)
            space(&text, using: &generator)
        }
        text += close.utf8
    }

    private static let scalars = [
        "0", "-1", "12345678901", "1.5", "-0.25e10", "2E-3", "true", "false", "null", "01", "1.", "-", "+1", "1e",
        "nul",
        "truex", "0x1F", "1-2", "NaN", ".5", "-00", "1e+",
    ]
    private static let parts = [
        "a", "plain text of some length, longer than a word", "é", "日本", "😀", "\\n", "\\\"", "\\\\", "\\/", "\\u00e9",
        "\\ud83d\\ude00", "\\ud83d", "\\ude00", "\\q", "\\u12", "\\u12g4", "[", "}", ",", ":", "'",
    ]

    private static func string(_ text: inout [UInt8], using generator: inout SeededGenerator) {
        text += "\"".utf8
        for _ in 0..<Int.random(in: 0...3, using: &generator) {
            // Mostly plain, so that sound records are not rare.
            let isPlain = Int.random(in: 0..<4, using: &generator) > 0
            text +=
                (isPlain ? parts[Int.random(in: 0...10, using: &generator)] : parts.randomElement(using: &generator)!)
                .utf8
        }
        text += "\"".utf8
    }

    private static func space(_ text: inout [UInt8], using generator: inout SeededGenerator) {
        for _ in 0..<max(0, Int.random(in: -3...3, using: &generator)) {
            text.append([0x20, 0x0A, 0x09, 0x0D, 0x20].randomElement(using: &generator) ?? 0x20)
        }
    }

    private static func damage(_ text: inout [UInt8], using generator: inout SeededGenerator) {
        let bytes = Array("[]{},:\"\\ \n0a<".utf8) + [0x00, 0x1F, 0x7F, 0x80, 0xC3, 0xFF, 0xEF, 0x1E]
        for _ in 0..<Int.random(in: 1...2, using: &generator) where !text.isEmpty {
            let place = Int.random(in: 0..<text.count, using: &generator)
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: text.remove(at: place)
            case 1: text.insert(bytes.randomElement(using: &generator) ?? 0, at: place)
            case 2: text[place] = bytes.randomElement(using: &generator) ?? 0
            default: text.removeSubrange(place...)
            }
        }
    }
}
