import BrokerJSON

/// The record of a form's pairs: `a.b` and `a[b]` are nested objects, `a[]`, `a[0]` and a repeated name are arrays.
struct FormRecord {
    /// The value of a name. Nodes refer to each other by index, so that each is changed in place.
    private struct Node {
        enum Kind { case empty, values, object, list }

        var kind = Kind.empty
        /// One value, or several of a repeated name.
        var values: [[UInt8]?] = []
        /// The members of an object, or the elements of a list, in the order of arrival.
        var children: [(step: Step, node: Int)] = []
        var places: [Step: Int] = [:]
    }

    private enum Step: Hashable {
        case key([UInt8])
        /// `[0]`, an element by its number; `[]`, the next one.
        case index(Int?)
    }

    /// Names and values of a record: each takes far more room than its bytes.
    static let mostNodes = 1 << 20
    static let tooMany = "the form has more than \(mostNodes) names and values, the most that one record may have"

    private var nodes = [Node(kind: .object)]

    /// Adds the value of a pair; nil when it has no equals sign.
    ///
    /// - Throws: why it cannot be added, without a place.
    mutating func add(_ value: [UInt8]?, at name: [UInt8]) throws(InputFault) {
        let steps = try Self.steps(name)
        var node = 0
        for (depth, step) in steps.enumerated() {
            node = try child(of: node, step, before: steps[(depth + 1)...], name)
        }
        guard nodes[node].kind == .empty || nodes[node].kind == .values else { throw Self.conflict(name) }
        nodes[node].kind = .values
        nodes[node].values.append(value)
    }

    // MARK: - Names

    /// `a.b[c][]` as steps.
    private static func steps(_ name: [UInt8]) throws(InputFault) -> [Step] {
        func refusal(_ reason: String) -> InputFault {
            InputFault(reason: "the name \"\(String(decoding: name, as: UTF8.self))\" \(reason)", place: nil)
        }
        let (dot, open) = (UInt8(ascii: "."), UInt8(ascii: "["))
        guard !name.isEmpty else { throw InputFault(reason: "there is a value without a name before it", place: nil) }
        var steps: [Step] = []
        var index = 0
        while index < name.count {
            let isBracket = name[index] == open
            if isBracket || name[index] == dot { index += 1 }
            let rest = name[index...]
            let end = isBracket ? rest.firstIndex(of: UInt8(ascii: "]")) : rest.firstIndex { $0 == open || $0 == dot }
            if isBracket, end == nil { throw refusal("has a bracket that is never closed") }
            let part = Array(rest[..<(end ?? name.count)])
            index += part.count + (isBracket ? 1 : 0)
            if isBracket, steps.isEmpty { throw refusal("begins with a bracket") }
            if isBracket, index < name.count, name[index] != open, name[index] != dot {
                throw refusal("continues after a closing bracket")
            }
            if isBracket, part.isEmpty {
                steps.append(.index(nil))
            } else if isBracket, part.count <= 9, part.allSatisfy(\.isDigit) {
                steps.append(.index(part.reduce(0) { $0 * 10 + Int($1 - 0x30) }))
            } else if part.isEmpty || name.last == dot {
                throw refusal("has an empty part")
            } else {
                steps.append(.key(part))
            }
            guard steps.count < RecordLimits.maximumDepth else { throw refusal("is too long: \(RecordLimits.tooDeep)") }
        }
        return steps
    }

    private static func conflict(_ name: [UInt8]) -> InputFault {
        InputFault(
            reason: "\"\(String(decoding: name, as: UTF8.self))\" contradicts a name before it: one makes a "
                + "value, object or array of what is another for the other", place: nil)
    }

    // MARK: - Positions

    private mutating func child(
        of node: Int, _ step: Step, before rest: ArraySlice<Step>, _ name: [UInt8]
    ) throws(InputFault) -> Int {
        let kind: Node.Kind = if case .key = step { .object } else { .list }
        if nodes[node].kind == .empty { nodes[node].kind = kind }
        guard nodes[node].kind == kind else { throw Self.conflict(name) }
        if step == .index(nil) {
            // `a[][x]=1&a[][y]=2` is one element, until a key occurs again.
            if !rest.isEmpty, let last = nodes[node].children.last?.node, !isTaken(rest, in: last) { return last }
        } else if let found = nodes[node].places[step] {
            return found
        }
        nodes[node].children.append((step, nodes.count))
        nodes[node].places[step] = nodes.count
        guard nodes.count < Self.mostNodes else { throw InputFault(reason: Self.tooMany, place: nil) }
        nodes.append(Node())
        return nodes.count - 1
    }

    /// There is a value at the end of these steps already, or there cannot be one.
    private func isTaken(_ steps: ArraySlice<Step>, in node: Int) -> Bool {
        var node = node
        for step in steps {
            switch (nodes[node].kind, step) {
            case (.object, .key):
                guard let next = nodes[node].places[step] else { return false }
                node = next
            // A list in the element accepts any number of values.
            case (.list, .index): return false
            default: return true
            }
        }
        return true
    }

    // MARK: - JSON

    var json: [UInt8] {
        var writer = JSONWriter()
        write(0, to: &writer)
        return writer.bytes
    }

    private func write(_ node: Int, to writer: inout JSONWriter) {
        let said = nodes[node]
        switch said.kind {
        case .empty: writer.null()
        case .values where said.values.count == 1: Self.write(said.values[0], to: &writer)
        case .values:
            writer.array(of: said.values) { Self.write($0, to: &$1) }
        case .object:
            writer.object { writer in
                for case (.key(let key), let member) in said.children {
                    writer.key(String(decoding: key, as: UTF8.self))
                    write(member, to: &writer)
                }
            }
        case .list:
            let elements = said.children.map { (order: (Self.number($0.step), $0.node), node: $0.node) }
            writer.array(of: elements.sorted { $0.order < $1.order }) { write($0.node, to: &$1) }
        }
    }

    /// Elements without a number follow those with one.
    private static func number(_ step: Step) -> Int {
        if case .index(let number?) = step { number } else { .max }
    }

    private static func write(_ value: [UInt8]?, to writer: inout JSONWriter) {
        guard let value else { return writer.null() }
        value.withUnsafeBufferPointer { writer.string($0) }
    }
}

/// Records of `application/x-www-form-urlencoded` (WHATWG URL), one on each line. Empty lines are ignored.
struct FormReader: RecordReader {
    private let limits: RecordLimits
    private var position = TextPosition()
    /// The line that is being read.
    private var line: [UInt8] = []
    private var linePlace = InputPlace()

    init(limits: RecordLimits) { self.limits = limits }

    var place: InputPlace { position.place }

    var recordStart: Int? { line.isEmpty ? nil : linePlace.offset }

    mutating func restart(at position: TextPosition) -> Bool {
        self.position = position
        line = []
        return true
    }

    mutating func feed(_ bytes: [UInt8], _ emit: RecordSink) throws(InputFault) {
        var start = 0
        while start < bytes.count {
            let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
            if line.isEmpty { linePlace = position.place }
            guard line.count + end - start <= limits.maximumBytes else {
                throw InputFault(reason: limits.tooLarge, place: position.place, recordPlace: linePlace)
            }
            // Decoding finds it, too, but late when there are no line ends.
            if let zero = bytes[start..<end].firstIndex(of: 0) {
                position.advance(by: zero - start)
                throw InputFault(
                    reason: "\(UInt8(0).asSeen) is not allowed in a form", place: position.place, recordPlace: linePlace
                )
            }
            line += bytes[start..<end]
            position.advance(by: end - start)
            guard end < bytes.count else { return }
            try endLine(emit)
            position.advanceOverLineEnd()
            start = end + 1
        }
    }

    mutating func finish(_ emit: RecordSink) throws(InputFault) { try endLine(emit) }

    private mutating func endLine(_ emit: RecordSink) throws(InputFault) {
        defer { line.removeAll(keepingCapacity: true) }
        if linePlace.offset == 0, line.starts(with: [0xEF, 0xBB, 0xBF]) {
            line.removeFirst(3)
            linePlace.offset = 3
        }
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        guard !line.isEmpty else { return }
        guard line.count(where: { $0 == UInt8(ascii: "&") }) < FormRecord.mostNodes else {
            throw fault(FormRecord.tooMany, at: 0)
        }
        var record = FormRecord()
        // An empty pair has no meaning.
        for pair in line.split(separator: UInt8(ascii: "&")) { try add(pair, to: &record) }
        try emit(InputRecord(json: record.json, place: linePlace, isSound: true))
    }

    private func add(_ pair: ArraySlice<UInt8>, to record: inout FormRecord) throws(InputFault) {
        let equals = pair.firstIndex(of: UInt8(ascii: "="))
        let name = try decode(pair[..<(equals ?? pair.endIndex)])
        let value: [UInt8]? = if let equals { try decode(pair[(equals + 1)...]) } else { nil }
        do throws(InputFault) {
            try record.add(value, at: name)
        } catch {
            throw fault(error.reason, at: pair.startIndex)
        }
    }

    /// The decoded text.
    private func decode(_ encoded: ArraySlice<UInt8>) throws(InputFault) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(encoded.count)
        var index = encoded.startIndex
        while index < encoded.endIndex {
            switch encoded[index] {
            case UInt8(ascii: "+"): text.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard index + 2 < encoded.endIndex, let high = Self.digit(encoded[index + 1]),
                    let low = Self.digit(encoded[index + 2])
                else {
                    throw fault(
                        "a percent sign needs two hexadecimal digits after it; a literal percent sign is %25", at: index
                    )
                }
                text.append(high << 4 | low)
                index += 2
            case let byte where byte <= 0x20 || byte == 0x7F:
                throw fault("\(byte == 0x20 ? "a space" : byte.asSeen) must be percent-encoded in a form", at: index)
            case let byte: text.append(byte)
            }
            index += 1
        }
        if text.withUnsafeBufferPointer(utf8FaultOffset) != nil {
            throw fault(
                "what is written here is not UTF-8; percent-encode the bytes of its UTF-8", at: encoded.startIndex)
        }
        return text
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        Character(UnicodeScalar(byte)).hexDigitValue.map { UInt8($0) }
    }

    private func fault(_ reason: String, at index: Int) -> InputFault {
        InputFault(reason: reason, place: linePlace.advanced(over: line[..<index]), recordPlace: linePlace)
    }
}
