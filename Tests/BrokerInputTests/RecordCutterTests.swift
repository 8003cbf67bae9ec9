import Foundation
import TestSupport
import Testing

@testable import BrokerInput

@Suite(.timeLimit(.minutes(5))) struct RecordCutterTests {
    private func cut(_ text: [UInt8], pieces size: Int) -> (records: [String], places: [InputPlace], fault: InputFault?)
    {
        var cutter = RecordCutter()
        var records: [InputRecord] = []
        var fault: InputFault?
        do throws(InputFault) {
            for start in stride(from: 0, to: text.count, by: size) {
                try cutter.feed(Array(text[start..<min(start + size, text.count)])) { records.append($0) }
            }
            try cutter.finish { records.append($0) }
        } catch {
            fault = error
        }
        return (records.map { String(decoding: $0.json, as: UTF8.self) }, records.map(\.place), fault)
    }

    @Test func `records are the same however the stream is cut into pieces`() {
        let text = Array(
            "\u{FEFF}{\"a\": [1, {\"b\": \"}\\\"]\"}], \"é\": 1}\n[1, \"x\", [], {}]\n\u{1E}true false 1\n12\"s\"{}"
                .utf8)
        let whole = cut(text, pieces: text.count)
        #expect(whole.fault == nil)
        #expect(
            whole.records == [
                "{\"a\": [1, {\"b\": \"}\\\"]\"}], \"é\": 1}", "1", "\"x\"", "[]", "{}", "true", "false", "1", "12",
                "\"s\"", "{}",
            ])
        #expect(whole.places[0] == InputPlace(line: 1, column: 1, offset: 3))
        #expect(whole.places[1].line == 2 && whole.places[8].line == 4)
        for (record, place) in zip(whole.records, whole.places) {
            #expect(text[(place.offset ?? 0)...].starts(with: record.utf8))
        }
        for size in 1...7 {
            let pieces = cut(text, pieces: size)
            #expect(pieces.records == whole.records && pieces.places == whole.places && pieces.fault == nil)
        }
    }

    @Test(arguments: [1, 3, 1 << 16])
    func `a comma may follow each value of a stream, and no more than one`(pieces: Int) {
        for (text, records, fault) in [
            ("{\"a\":1},\n{\"a\":2} ,{\"a\":3},\n", ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"], nil),
            ("[1,2],\n[3],", ["1", "2", "3"], nil), ("{},,{}", ["{}"], "expected a record, saw ','"),
            (",{}", [], "expected a record, saw ','"), ("{},]", ["{}"], "expected a record, saw ']'"),
        ] as [(String, [String], String?)] {
            let found = cut(Array(text.utf8), pieces: pieces)
            #expect(found.records == records && found.fault?.reason == fault, "\(text): \(found)")
        }
    }

    @Test func `sound records are accepted by a parser, and text that no parser accepts is a fault`() throws {
        var generator = SeededGenerator()
        let tokens = ["[", "]", "{", "}", ",", ":", "1", "\"a\"", "null", " ", "\n"]
        for _ in 0..<20_000 {
            let text = (0..<Int.random(in: 1...7, using: &generator)).map { _ in
                tokens.randomElement(using: &generator)!
            }.joined()
            // One value in an array is one record; its grammar is then the parser's.
            let result = cut(Array("[\(text)]".utf8), pieces: 3)
            let isSound =
                result.fault == nil
                && result.records.allSatisfy { InputRecord(json: Array($0.utf8), place: InputPlace()).fault == nil }
            let parsed = InputRecord(json: Array("[\(text)]".utf8), place: InputPlace()).fault
            // `1]` and `[1` side by side are sound streams of several values.
            if parsed == nil { #expect(isSound, "\(text)") }
            if !isSound { #expect(parsed != nil, "\(text)") }
        }
    }

    @Test(arguments: [
        ("[{\"id\": 1}, {\"id\": 2}", 2, "line 1, column 22"), ("[{\"id\": 1}, {\"id\": 2", 1, "line 1, column 13"),
        ("[{\"id\": 1},\n {\"id\": 2},\n]", 2, "line 3, column 1"),
        ("[{\"id\": 1} {\"id\": 2}]", 1, "line 1, column 12"),
        ("{\"id\": 1}\n{\"id\": 2\n{\"id\": 3}\n", 1, "in the record that begins at line 2"),
        ("{\"id\": 1}\n{\"id\": 2, \"name\": \"x}\n{\"id\": 3}\n", 1, "line 2, column 22"),
        ("{\"id\": 1}\n{\"id\": 02}\n{\"id\": 3}\n", 1, "line 2, column 8"),
        ("{\"id\": 1}\n{\"id\": 2, \"name\": nul}\n", 1, "line 2, column 19"),
        ("{\"id\": 1}\n{\"id\": 2, \"name\": \"\\x\"}\n", 1, "line 2, column 20"),
        ("{\"id\": 1}\n{\"id\": 2]\n", 1, "line 2, column 9"), ("{\"id\": 1}\n}\n{\"id\": 2}\n", 1, "line 2, column 1"),
        ("hello", 0, "line 1, column 1 (byte 0)"),
        ("<html>", 0, "line 1, column 1 (byte 0): expected a record, saw '<'"),
        ("\u{1E}{\"id\": 1\u{1E}{\"id\": 2}", 0, "saw a record separator"),
        (String(repeating: "[", count: 600), 0, "nested deeper than 508 levels"),
    ])
    func `records before a fault are read, and the fault has its position`(input: String, count: Int, place: String) {
        for pieces in [1, 1 << 16] {
            let reading = Reading(.json, input, pieces: pieces)
            var (found, fault) = (reading.records.count, reading.fault)
            // The parser judges what the cutter leaves to it.
            for (index, (json, place)) in zip(reading.records, reading.places).enumerated() {
                guard let unsound = InputRecord(json: Array(json.utf8), place: place).fault else { continue }
                (found, fault) = (index, unsound)
                break
            }
            let text = fault.map { "\($0.place.map(String.init(describing:)) ?? "nowhere"): \($0.text)" } ?? "no fault"
            #expect(found == count && text.contains(place), "\(found) records, \(text)")
        }
    }
}

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
            if Int.random(in: 0..<10, using: &generator) == 0 { text.append(UInt8(ascii: ",")) }
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
