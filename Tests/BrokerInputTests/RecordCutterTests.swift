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
            #expect(reading.records.count == count)
            #expect(reading.faultText.contains(place), "\(reading.faultText)")
        }
    }
}
