import BrokerJSON
import BrokerXML

/// Records of XML: the elements at a path, each when it ends, or the whole document as one record.
///
/// Every error of libxml2 ends the reading, and so do declarations that change the meaning of other parts: entities,
/// and many or long defaults of attributes.
final class XMLReader: RecordReader, XMLEvents {
    /// The maximum number of open elements.
    private static let maximumDepth = 512

    private let limits: RecordLimits
    private let parser = XMLPushParser()
    private var path: XMLPath
    private var record = XMLRecord()
    private var recordPlace: InputPlace?
    /// The number of open elements, and their number when the record began.
    private var depth = 0
    private var recordDepth = 0
    /// The records in the bytes that the parser got last.
    private var found: [InputRecord] = []
    /// The first fault; later events of the parser do not count.
    private var fault: InputFault?
    /// The name of the document's first element, once that has begun.
    private(set) var documentName: String?
    private var isEnding = false

    /// - Parameter root: nil when the document's element is the record.
    init(root: RecordRoot?, limits: RecordLimits) {
        self.limits = limits
        path = XMLPath(root)
        parser.events = self
    }

    var place: InputPlace { InputPlace(parser.place) }

    func feed(_ bytes: [UInt8], _ emit: RecordSink) throws(InputFault) {
        parser.parse(bytes[...])
        try handOut(emit)
    }

    func finish(_ emit: RecordSink) throws(InputFault) {
        isEnding = true
        parser.end()
        try handOut(emit)
        // The parser needs at least four bytes.
        guard documentName != nil, depth == 0 else { throw InputFault(reason: Self.nothing, place: place) }
        if let absence = path.absence { throw InputFault(reason: absence, place: InputPlace()) }
    }

    private static let undecodable =
        "this is not well-formed XML: the text is no UTF-8 here, nor does the document declare another encoding; "
        + "convert it to UTF-8, or declare what it is in (<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>)"
    private static let nothing = "there is no XML here, or no whole element of it"

    private func handOut(_ emit: RecordSink) throws(InputFault) {
        defer { found.removeAll(keepingCapacity: true) }
        for record in found { try emit(record) }
        if let fault { throw fault }
    }

    private func stop(_ reason: String, at place: XMLPlace? = nil) {
        guard fault == nil else { return }
        fault = InputFault(
            reason: reason, place: InputPlace(place ?? parser.place), recordPlace: recordPlace)
        parser.stop()
    }

    // MARK: - Events

    func begin(_ name: [UInt8], _ attributes: [XMLAttribute]) {
        guard fault == nil else { return }
        if documentName == nil { documentName = String(decoding: name, as: UTF8.self) }
        depth += 1
        guard depth <= Self.maximumDepth else {
            return stop("the document is nested deeper than \(Self.maximumDepth) elements")
        }
        if recordPlace == nil {
            guard path.begins(name, at: depth) else { return }
            recordPlace = InputPlace(parser.tagPlace)
            recordDepth = depth
        }
        record.open(name, attributes)
        checkSize()
    }

    func end() {
        guard fault == nil else { return }
        if let place = recordPlace {
            record.close()
            if depth == recordDepth {
                guard let json = record.take() else { return stop(RecordLimits.tooDeep) }
                found.append(InputRecord(json: json, place: place, isSound: true))
                recordPlace = nil
            }
        }
        depth -= 1
        path.ended(at: depth)
    }

    func text(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard fault == nil, recordPlace != nil else { return }
        record.append(bytes)
        checkSize()
    }

    private func checkSize() {
        guard record.size > limits.maximumBytes else { return }
        stop(limits.tooLarge + (path.isWhole ? "; --root picks elements of the document as records" : ""))
    }

    func refuse(_ construct: XMLConstruct) {
        switch construct {
        // Its declarations are reported one by one.
        case .documentType: break
        case .entity(let name):
            stop(
                "the document declares an entity, \"\(name)\", and such are not read, since they may refer to files or "
                    + "for more than there is room for; take the declaration out, and write the entity's text")
        case .attributeDefault(let name):
            stop(
                "the document declares a default for the attribute \"\(name)\", and at most "
                    + "\(XMLPushParser.mostDefaults) of an element are read, of \(XMLPushParser.longestDefault) bytes each; "
                    + "take the declaration out, and write the attribute where it is meant")
        case .names:
            stop(
                "the document has more than \(XMLPushParser.mostNames) different names of elements and attributes; a name "
                    + "says what a value is, so write numbers and keys as values")
        case .attributes:
            stop(
                "an element has more than \(XMLPushParser.mostAttributes) attributes and namespaces",
                at: parser.tagPlace)
        }
    }

    func error(_ code: Int, _ message: String) {
        switch code {
        // A prefix without a namespace is part of the name here.
        case 200..<300: break
        // Where there are only spaces, or brackets of another kind, the parser reports a missing part.
        case _ where documentName == nil && (code == 4 || code == 5): stop(Self.nothing)
        case 5 where isEnding && depth > 0, 77 where isEnding && depth > 0:
            stop("the document ends before its elements do: \(depth == 1 ? "1 is" : "\(depth) are") still open")
        // The second code is reported for the same bytes when a piece of the document ends with them.
        case 9 where message.hasPrefix("Input is not proper UTF-8"),
            1 where message.hasSuffix("detected an error in element content"):
            stop(Self.undecodable)
        case 1: stop("libxml2 stops here: \(message) (a tag, comment or CDATA section may have 10 MB)")
        case 26, 27: stop("\(message); write the character itself, or its number (&#…;)")
        case 68: stop("this is not well-formed XML: \(message) (for itself, & is written &amp; and < is written &lt;)")
        default: stop("this is not well-formed XML: \(message)")
        }
    }
}

extension InputPlace {
    init(_ place: XMLPlace) { self.init(line: place.line, column: place.column, offset: place.offset) }
}

/// The position of the records in a document, the names of elements beginning with the document's own, and the number of
/// these steps that the open elements match.
struct XMLPath {
    private struct Step {
        let name: [UInt8]
        /// The index among several of that name in one parent; nil for all.
        var index: Int?
        /// The number of elements of the name in the open parent so far.
        var count = 0
    }

    /// The maximum number of an element's children in a message.
    private static let namedChildren = 10

    private var steps: [Step] = []
    /// The number of open elements that match the first steps.
    private var matched = 0
    private var hasRecords = false
    /// The longest match so far, and the children there that are not the next step.
    private var deepest = 0
    private var others: [String] = []

    /// - Parameter root: nil when the document's element is the record.
    init(_ root: RecordRoot?) {
        for token in root?.tokens ?? [] {
            // No element's name begins with a digit.
            if root?.isPointer == true, let index = Int(token), index >= 0, let last = steps.last, last.index == nil {
                steps[steps.count - 1].index = index
            } else {
                steps.append(Step(name: Array(token.utf8)))
            }
        }
    }

    /// The document is the record.
    var isWhole: Bool { steps.isEmpty }

    /// An element begins that is in no record.
    mutating func begins(_ name: [UInt8], at depth: Int) -> Bool {
        guard !isWhole else { return depth == 1 }
        guard matched == depth - 1, matched < steps.count else { return false }
        let step = steps[matched]
        guard step.name == name else {
            note(String(decoding: name, as: UTF8.self))
            return false
        }
        steps[matched].count += 1
        guard step.index == nil || step.index == step.count else { return false }
        matched += 1
        if matched < steps.count { steps[matched].count = 0 }
        if matched > deepest {
            deepest = matched
            others = []
        }
        if matched == steps.count { hasRecords = true }
        return matched == steps.count
    }

    private mutating func note(_ other: String) {
        guard matched == deepest, others.count < Self.namedChildren, !others.contains(other) else { return }
        others.append(other)
    }

    /// An element has ended.
    mutating func ended(at depth: Int) { matched = min(matched, depth) }

    /// Why there is no record, when the root matches no element; nil when it matches, or matches one without children.
    var absence: String? {
        guard !isWhole, !hasRecords, deepest < steps.count else { return nil }
        if deepest == steps.count - 1, others.isEmpty, steps[deepest].index == nil, deepest > 0 { return nil }
        let step = steps[deepest]
        let name = "\"\(String(decoding: step.name, as: UTF8.self))\"" + (step.index.map { " number \($0)" } ?? "")
        let above = steps[..<deepest].map { String(decoding: $0.name, as: UTF8.self) }.joined(separator: ".")
        let there = others.isEmpty ? "" : "; there is \(others.map { "\"\($0)\"" }.joined(separator: ", "))"
        return "there is no element \(name)" + (deepest == 0 ? "" : " at \"\(above)\"") + there
    }
}

/// The name of a document's own element, with which the root of its records begins.
package enum XMLDocumentName {
    /// - Returns: nil when it is not found: the reader of the document reports why.
    package static func find(inFile path: String) -> String? {
        (try? FileBytes(path)).flatMap { find(in: UnpackedBytes($0)) }
    }

    static func find(in bytes: any ByteSource) -> String? {
        let reader = XMLReader(root: nil, limits: .ofJobs)
        while reader.documentName == nil, let chunk = try? bytes.next(), !chunk.isEmpty {
            guard (try? reader.feed(chunk) { _ in }) != nil else { break }
        }
        return reader.documentName
    }
}

/// The elements of one record while they are read, and then as JSON.
///
/// An element is an object of its attributes (`@name`) and its child elements; several children of one name are an
/// array. Its text is `#text` beside them, or its value when there is nothing else. An empty element is null, and so is
/// an empty attribute.
struct XMLRecord {
    /// Nodes refer to each other by index.
    private struct Node {
        let name: Int
        var text: [UInt8] = []
        var children: [Int] = []
        /// It is marked as having no value (`xsi:nil`).
        var isNil = false
    }

    /// The assumed bytes of a node, so that a record of empty elements cannot take all memory.
    private static let nodeBytes = 64

    /// The memory of a larger record is not reused for the next one.
    private static let mostNodesKept = 4_096

    private var nodes: [Node] = []
    /// The open elements.
    private var open: [Int] = []
    private var names: [[UInt8]] = []
    private var numbers: [[UInt8]: Int] = [:]
    /// The approximate bytes of the record.
    private(set) var size = 0

    mutating func open(_ name: [UInt8], _ attributes: [XMLAttribute]) {
        let node = add(name)
        open.append(node)
        for attribute in attributes {
            if attribute.name.elementsEqual("xsi:nil".utf8) {
                nodes[node].isNil =
                    attribute.value.elementsEqual("true".utf8) || attribute.value.elementsEqual("1".utf8)
            }
            let child = add([UInt8(ascii: "@")] + attribute.name)
            nodes[child].text = attribute.value
            size += attribute.value.count
        }
    }

    mutating func append(_ text: some Collection<UInt8>) {
        guard let node = open.last else { return }
        nodes[node].text.append(contentsOf: text)
        size += text.count
    }

    mutating func close() { open.removeLast() }

    /// Returns the record and discards it; nil when it is nested too deeply.
    mutating func take() -> [UInt8]? {
        var writer = JSONWriter(capacity: 1024)
        let isWhole = write(0, depth: 0, to: &writer)
        // To empty a table takes as long as it is large, also when it is nearly empty.
        let isSmall = nodes.count <= Self.mostNodesKept
        nodes.removeAll(keepingCapacity: isSmall)
        names.removeAll(keepingCapacity: isSmall)
        numbers.removeAll(keepingCapacity: isSmall)
        size = 0
        return isWhole ? writer.bytes : nil
    }

    /// Adds a node to the open one.
    private mutating func add(_ name: [UInt8]) -> Int {
        let number = numbers[name] ?? names.count
        if number == names.count {
            names.append(name)
            numbers[name] = number
        }
        let node = nodes.count
        nodes.append(Node(name: number))
        size += name.count + Self.nodeBytes
        if let parent = open.last { nodes[parent].children.append(node) }
        return node
    }

    // MARK: - JSON

    /// False when it is nested too deeply.
    private func write(_ node: Int, depth: Int, to writer: inout JSONWriter) -> Bool {
        guard depth < RecordLimits.maximumDepth else { return false }
        let element = nodes[node]
        let isAttribute = names[element.name].first == UInt8(ascii: "@")
        let text = isAttribute ? element.text[...] : Self.trimmed(element.text)
        guard !element.isNil, !element.children.isEmpty else {
            if element.isNil || text.isEmpty { writer.null() } else { Self.write(text, to: &writer) }
            return true
        }
        var isWhole = true
        writer.object { writer in
            for group in groups(of: element) {
                names[nodes[group[0]].name].withUnsafeBufferPointer { writer.key(String(decoding: $0, as: UTF8.self)) }
                if group.count == 1 {
                    isWhole = write(group[0], depth: depth + 1, to: &writer) && isWhole
                } else {
                    writer.array { writer in
                        for child in group { isWhole = write(child, depth: depth + 2, to: &writer) && isWhole }
                    }
                }
            }
            guard !text.isEmpty else { return }
            writer.key("#text")
            Self.write(text, to: &writer)
        }
        return isWhole
    }

    /// The children, those of one name together, in the order of the names' first occurrences.
    private func groups(of element: Node) -> [[Int]] {
        var groups: [[Int]] = []
        var places: [Int: Int] = [:]
        for child in element.children {
            if let place = places[nodes[child].name] {
                groups[place].append(child)
            } else {
                places[nodes[child].name] = groups.count
                groups.append([child])
            }
        }
        return groups
    }

    private static func write(_ text: ArraySlice<UInt8>, to writer: inout JSONWriter) {
        text.withUnsafeBufferPointer { writer.string($0) }
    }

    /// Without leading and trailing XML white space.
    private static func trimmed(_ text: [UInt8]) -> ArraySlice<UInt8> {
        // The white space of XML is that of JSON.
        let text = text.drop(while: \.isJSONSpace)
        return text[..<(text.lastIndex { !$0.isJSONSpace }.map { $0 + 1 } ?? text.startIndex)]
    }
}
