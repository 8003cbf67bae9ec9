internal import BrokerModel
internal import BrokerXML

/// Reads an XML text as a tree of elements. Text between them means nothing in a model, and is ignored.
///
/// The text is UTF-8 without a document type: Xcode writes models so.
struct ElementTree {
    /// Elements within one another; a model has six.
    static let deepest = 64

    let root: SourceElement

    /// - Throws: `ModelError` with one fault.
    init(parsing text: [UInt8], source: String) throws(ModelError) {
        let builder = TreeBuilder(source: source)
        if let fault = Self.encodingFault(of: text) {
            builder.fail(fault, at: XMLPlace.start)
        } else {
            builder.parse(text)
        }
        if let fault = builder.fault { throw ModelError(faults: [fault]) }
        guard let root = builder.root else { preconditionFailure("a document without a fault has an element") }
        self.root = root
    }

    /// The fault of a text that is not parsed.
    private static func encodingFault(of text: [UInt8]) -> String? {
        if text.starts(with: "bplist".utf8) {
            return "the model is in a binary format that Xcode no longer writes; open it in Xcode and save it again"
        }
        guard text.count <= ModelLimits.largestFile else { return ModelLimits.fileFault }
        guard String(validating: text, as: UTF8.self) != nil, !text.contains(0) else {
            return "the model is not UTF-8, as Xcode writes it; save it as UTF-8"
        }
        if let encoding = declaredEncoding(of: text), !["utf-8", "utf8", "us-ascii"].contains(encoding) {
            return "the model says that its encoding is \"\(encoding)\"; Xcode writes UTF-8, save it so"
        }
        return nil
    }

    /// In lower case, from the XML declaration; nil when there is none.
    private static func declaredEncoding(of text: [UInt8]) -> String? {
        let text = text.starts(with: [0xEF, 0xBB, 0xBF]) ? text[3...] : text[...]
        guard text.starts(with: "<?xml".utf8), let end = text.firstIndex(of: UInt8(ascii: ">")) else { return nil }
        let declaration = String(decoding: text[..<end], as: UTF8.self)
        guard let name = declaration.firstRange(of: "encoding") else { return nil }
        let quotes = declaration[name.upperBound...].split(
            omittingEmptySubsequences: false, whereSeparator: { $0 == "\"" || $0 == "'" })
        return quotes.count > 1 ? quotes[1].lowercased() : ""
    }
}

/// Puts the elements together as the parser reports them.
private final class TreeBuilder: XMLEvents {
    private let parser = XMLPushParser()
    private let source: String
    private var open: [SourceElement] = []
    private(set) var root: SourceElement?
    /// The first one; nothing after it is read.
    private(set) var fault: ModelFault?

    init(source: String) { self.source = source }

    func parse(_ text: [UInt8]) {
        parser.events = self
        for start in stride(from: 0, to: text.count, by: XMLPushParser.largestPiece) where fault == nil {
            parser.parse(text[start..<min(start + XMLPushParser.largestPiece, text.count)])
        }
        parser.end()
        // libxml2 reports no error for a text of less than four bytes.
        if root == nil || !open.isEmpty { failNotWellFormed(Self.nothing) }
    }

    private static let nothing = " (there is no element)"

    func fail(_ message: String, at place: XMLPlace) {
        guard fault == nil else { return }
        fault = ModelFault(
            message, at: ModelPlace(pointer: "", source: source, line: place.line, column: place.column))
        parser.stop()
    }

    private func failNotWellFormed(_ reason: String) {
        fail("the model is not well-formed XML\(reason); correct it here", at: parser.place)
    }

    // MARK: - What the parser finds

    func begin(_ name: [UInt8], _ attributes: [XMLAttribute]) {
        guard fault == nil else { return }
        let place = parser.tagPlace
        guard open.count < ElementTree.deepest else {
            return fail("elements are nested more than \(ElementTree.deepest) deep; no Core Data model is", at: place)
        }
        let pairs = attributes.map {
            (String(decoding: $0.name, as: UTF8.self), String(decoding: $0.value, as: UTF8.self))
        }
        open.append(
            SourceElement(
                name: String(decoding: name, as: UTF8.self), attributes: Dictionary(pairs) { first, _ in first },
                place: SourcePlace(source: source, line: place.line, column: place.column)))
    }

    func end() {
        guard fault == nil, let element = open.popLast() else { return }
        if open.isEmpty { root = element } else { open[open.count - 1].children.append(element) }
    }

    func text(_ bytes: UnsafeBufferPointer<UInt8>) {}

    func refuse(_ construct: XMLConstruct) {
        switch construct {
        case .documentType, .entity, .attributeDefault:
            fail(
                "a document type declaration is refused: a model has none, and entities that it could declare are "
                    + "a way to attack the reader; take it out", at: parser.tagPlace)
        case .attributes:
            fail("an element has more than \(XMLPushParser.mostAttributes) attributes", at: parser.tagPlace)
        case .names: fail("the model has more than \(XMLPushParser.mostNames) different names", at: parser.place)
        }
    }

    func error(_ code: Int, _ message: String) {
        switch code {
        case 4: failNotWellFormed(Self.nothing)
        case 5 where root == nil && open.isEmpty: failNotWellFormed(Self.nothing)
        case 22, 23, 26, 68: failNotWellFormed(" (\(message); write & as &amp; and < as &lt;)")
        default: failNotWellFormed(" (\(message))")
        }
    }
}

/// One element of a model's XML, with the place of its `<`.
struct SourceElement {
    let name: String
    let attributes: [String: String]
    let place: SourcePlace
    var children: [SourceElement] = []

    /// An attribute of the XML; nil when it is absent. One that is empty is there, and empty.
    subscript(attribute: String) -> String? { attributes[attribute] }

    func children(named name: String) -> [SourceElement] { children.filter { $0.name == name } }

    /// Whether an attribute says yes in one of the ways in which files of the field do; nil when it says neither.
    func flag(_ attribute: String) -> Bool? { self[attribute].flatMap(Self.flag) }

    static func flag(_ text: String) -> Bool? {
        switch text.lowercased() {
        case "yes", "true", "1": true
        case "no", "false", "0": false
        default: nil
        }
    }
}
