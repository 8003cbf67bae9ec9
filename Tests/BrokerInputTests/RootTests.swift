import BrokerJSON
import TestSupport
import Testing

@testable import BrokerInput

/// The records at a root are found as the bytes arrive.
@Suite(.timeLimit(.minutes(5))) struct RootTests {
    @Test func `an array at a root, and what is around it, may be larger than a record may`() {
        let limits = RecordLimits(maximumBytes: 1 << 16)
        func read(_ text: String, _ piece: String, times: Int, _ end: String, root: String) -> Reading {
            let bytes = RepeatedBytes(text, then: Array(piece.utf8), times: times)
            return Reading(.json, Ended(bytes, end), root: root, limits: limits)
        }
        let rows = read("{\"a\": {\"b\": [{\"id\": 0}", ", {\"id\": 1}", times: 20_000, "]}, \"n\": 1}", root: "/a/b")
        #expect(rows.records.count == 20_001 && rows.fault == nil, "\(rows.faultText)")
        let beside = read("{\"x\": [0", ", [1]", times: 40_000, "], \"a\": [7]}", root: "a")
        #expect(beside.records == ["7"] && beside.fault == nil, "\(beside.faultText)")
        let members = read("{\"k\": 1", ", \"l\": 2", times: 20_000, "}", root: "*")
        #expect(members.records.count == 20_001 && members.records[1] == "{\"l\":2}")
        #expect(read("{\"a\": [\"", "xxxxxxxx", times: 20_000, "\"]}", root: "a").faultText.contains("larger than"))
        #expect(
            read("{\"a\": [1", ", 1", times: 9, "", root: "a").faultText.contains(
                "before the array that begins at line 1"))
        #expect(read("{\"x\": [1", ", 1", times: 9, "", root: "a").faultText.contains("in the middle of a value"))
        #expect(
            read("{\"x\": 1", ", \"y\": 1", times: 9, ",", root: "a").faultText.contains(
                "before the object that begins"))
    }

    @Test(arguments: [
        ("{\"a\" 1}", "line 1, column 6 (byte 5): expected a colon after the key, saw '1'"),
        ("{\"a\": [1] 2}", "expected a comma or the closing bracket, saw '2'"),
        ("{a: 1}", "expected a key in double quotes"),
        ("{\"a\": [1},", "expected a comma or the closing bracket, saw '}'"),
        ("{\"a\n\": 1}", "must be escaped inside a string"),
        ("{\"b\": 1, }", "expected a key in double quotes, saw '}'"), ("<r/>", "is it XML?"),
        ("{\"a\": [1,, 2]}", "expected a record, saw ','"),
        ("\"a\"", "there is no \"a\", only a string"), ("{\"b\": {\"a\": 1}}", "there is no \"a\"; there is \"b\""),
    ])
    func `faults around the records are reported with their positions`(text: String, message: String) {
        for size in [1, 2, 100] {
            let reading = Reading(.json, text, root: "a", pieces: size)
            #expect(reading.faultText.contains(message), "\(reading.faultText)")
        }
    }

    @Test func `keys are compared as they are, with their escapes, and each occurrence is read`() {
        #expect(Reading(.json, "{\"\\u0061\": [1], \"b\": 2, \"a\": [3]}", root: "a").records == ["1", "3"])
        #expect(Reading(.json, "{\"a\\\"b\": 1}", root: "a\"b").records == ["1"])
        #expect(Reading(.json, "\u{FEFF}{\"a\": 1}\n\u{1E}{\"a\": [2]}", root: "a").records == ["1", "2"])
    }

    /// The records of whole values, one after the other.
    private static func expected(_ text: [UInt8], _ root: RecordRoot) -> (records: [String], reason: String?) {
        var records: [String] = []
        do throws(InputFault) {
            let document = try InputRecord(json: text, place: InputPlace()).parsed()
            defer { withExtendedLifetime(document) {} }
            func add(_ value: JSONValue) { records.append(String(decoding: value.jsonText, as: UTF8.self)) }
            try root.forEachValue(in: document.root, at: 0) { found, key in
                if let key {
                    records.append("{\"\(key.string!)\":\(String(decoding: found.jsonText, as: UTF8.self))}")
                } else if found.kind == .array {
                    for element in found.elements {
                        if element.kind == .array { element.elements.forEach(add) } else { add(element) }
                    }
                } else {
                    add(found)
                }
            }
        } catch {
            return (records, error.reason)
        }
        return (records, nil)
    }

    @Test func `records of random documents are those of the documents as a whole`() {
        var generator = SeededGenerator()
        let roots = ["a", "a.b", "/a/b", "/a/0", "/a/1/b", "a.*", "*", "/*", "/0", "a.b.*", "a.b.a", "/a/*"]
            .map { RecordRoot($0)! }
        var counts = [true: 0, false: 0]
        for _ in 0..<Cases.count(4_000, of: 20_000) {
            let text = Array(Self.value(3, &generator).utf8)
            let root = roots.randomElement(using: &generator)!
            let expected = Self.expected(text, root)
            counts[expected.reason == nil, default: 0] += 1
            for size in [1, 3, 1000] {
                let reading = Reading(.json, PiecedBytes(text, size), root: root.text)
                #expect(
                    reading.records == expected.records && reading.fault?.reason == expected.reason,
                    "\(root.text) of \(String(decoding: text, as: UTF8.self)): \(reading.records) \(reading.faultText), not \(expected)"
                )
            }
        }
        #expect(counts.values.allSatisfy { $0 > 300 }, "\(counts)")
    }

    private static func value(_ depth: Int, _ generator: inout SeededGenerator) -> String {
        let space = [" ", "", "\n"].randomElement(using: &generator)!
        switch Int.random(in: 0..<(depth > 0 ? 10 : 3), using: &generator) {
        case 0: return "1"
        case 1: return "\"x, ]}\\\"\""
        case 2: return ["null", "true", "-2.5"].randomElement(using: &generator)!
        case 3...5:
            let elements = (0..<Int.random(in: 0...3, using: &generator)).map { _ in value(depth - 1, &generator) }
            return "[\(space)\(elements.joined(separator: ",\(space)"))]"
        default:
            let keys = ["a", "b", "c"].shuffled(using: &generator).prefix(Int.random(in: 0...3, using: &generator))
            return
                "{\(keys.map { "\"\($0)\"\(space):\(value(depth - 1, &generator))" }.joined(separator: ","))\(space)}"
        }
    }

    @Test(
        arguments: [
            ("{\"a\": [{\"b\": 1}, {\"b\": [2, {\"c\"", "{\"a\": [{\"b\": 1}, {\"b\": [2]}]}"),
            ("{\"a\": \",\\\",\", \"b\": 1", "{\"a\": \",\\\",\"}"), ("\u{FEFF}[1, 2", "[1]"), ("{\"a\"", nil),
        ] as [(String, String?)])
    func `a beginning is closed at its last comma`(text: String, closed: String?) {
        #expect(InputBeginning.closed(Array(text.utf8)).map { String(decoding: $0, as: UTF8.self) } == closed)
    }
}

/// Bytes, and some more.
private final class Ended: ByteSource {
    private let bytes: any ByteSource
    private var end: [UInt8]

    init(_ bytes: any ByteSource, _ end: String) { (self.bytes, self.end) = (bytes, Array(end.utf8)) }

    var bytesRead: Int { bytes.bytesRead }

    func next() throws(InputFault) -> [UInt8] {
        let next = try bytes.next()
        guard next.isEmpty else { return next }
        defer { end = [] }
        return end
    }
}

extension RecordRoot {
    /// Passes on the values at this position, and their keys if they are members of the object there: what the cutter finds, by
    /// another way.
    fileprivate func forEachValue(
        in value: JSONValue, at depth: Int, _ body: (JSONValue, _ key: JSONValue?) -> Void
    ) throws(InputFault) {
        guard depth < tokens.count else { return body(value, nil) }
        let isList = value.kind == .array
        if let next = isPointer && isList ? element(tokens[depth], of: value) : value[tokens[depth]] {
            return try forEachValue(in: next, at: depth + 1, body)
        }
        if isMembers(depth), value.kind == .object { return value.members.forEach { body($1, $0) } }
        if !isPointer, depth > 0, isList {
            for element in value.elements { try forEachValue(in: element, at: depth, body) }
            return
        }
        let keys = value.members.prefix(Self.namedKeys).map { $0.key.string ?? "" }
        throw InputFault(
            reason: missing(depth, value.kind == .object ? .keys(keys) : .kind(value.kind)), place: nil)
    }

    private func element(_ token: String, of list: JSONValue) -> JSONValue? {
        guard let index = Int(token), index >= 0, String(index) == token else { return nil }
        return list.elements.dropFirst(index).first { _ in true }
    }
}
