internal import BrokerModel
internal import Foundation

#if canImport(FoundationXML)
internal import FoundationXML
#endif

/// Reads an XML text as a tree of elements. Text between them means nothing in a model, and is passed over.
///
/// Strictly UTF-8 without DTD, so that what is looked for in the bytes cannot hide in another encoding.
struct ElementTree {
    /// Elements within one another; a model has six.
    static let deepest = 64

    let root: SourceElement

    /// - Throws: `ModelError` with one fault.
    init(parsing text: [UInt8], source: String) throws(ModelError) {
        func fault(_ message: String, at place: SourcePlace) -> ModelError {
            ModelError(faults: [
                ModelFault(
                    message,
                    at: ModelPlace(pointer: "", source: source, line: place.line, column: place.column))
            ])
        }
        let start = SourcePlace(source: source, line: 1, column: 1)
        if text.starts(with: "bplist".utf8) {
            throw fault(
                "the model is in a binary format that Xcode no longer writes; open it in Xcode and save it anew",
                at: start)
        }
        guard text.count <= ModelLimits.largestFile else { throw fault(ModelLimits.fileFault, at: start) }
        guard String(validating: text, as: UTF8.self) != nil, !text.contains(0) else {
            throw fault("the model is not UTF-8, as Xcode writes it; save it as UTF-8", at: start)
        }
        if let encoding = Self.declaredEncoding(of: text), !["utf-8", "utf8", "us-ascii"].contains(encoding) {
            throw fault(
                "the model says that its encoding is \"\(encoding)\"; Xcode writes UTF-8, save it so", at: start)
        }
        let places = ElementPlaces(of: text)
        if let declaration = places.declaration {
            throw fault(
                "a document type declaration is refused: a model has none, and entities that it could declare are "
                    + "a way to attack who reads them; take it out", at: places.place(of: declaration, source: source))
        }
        if let instruction = places.emptyInstruction {
            throw fault(
                "a processing instruction without content is refused: a model has none; take it out",
                at: places.place(of: instruction, source: source))
        }
        let builder = TreeBuilder(places: places, source: source)
        let parser = XMLParser(data: Data(text))
        parser.shouldResolveExternalEntities = false
        parser.delegate = builder
        // On some systems it says yes to a text that ends too early, and has an error all the same.
        let isWhole = parser.parse() && parser.parserError == nil
        if let place = builder.tooDeep {
            throw fault("elements are nested more than \(Self.deepest) deep; no Core Data model is", at: place)
        }
        guard isWhole, let root = builder.root else {
            let place = SourcePlace(line: max(1, parser.lineNumber), column: max(1, parser.columnNumber))
            throw fault("the model is not well-formed XML\(Self.reason(parser.parserError)); mend it here", at: place)
        }
        self.root = root
    }

    /// In lower case, from the XML declaration; nil when there is none.
    private static func declaredEncoding(of text: [UInt8]) -> String? {
        let text = text.starts(with: [0xEF, 0xBB, 0xBF]) ? text[3...] : text[...]
        guard text.starts(with: "<?xml".utf8), let end = text.firstIndex(of: UInt8(ascii: ">")) else { return nil }
        let declaration = String(decoding: text[..<end], as: UTF8.self)
        guard let name = declaration.range(of: "encoding") else { return nil }
        let quotes = declaration[name.upperBound...].split(
            omittingEmptySubsequences: false, whereSeparator: { $0 == "\"" || $0 == "'" })
        return quotes.count > 1 ? quotes[1].lowercased() : ""
    }

    /// By the numbers of libxml2, which stands behind the parser; it has more of them than the parser has names.
    private static func reason(_ error: (any Error)?) -> String {
        switch (error as NSError?)?.code {
        case 4, 5, 76, 77:
            " (an element is not closed or closed by another name, its attributes are not in order, or something stands "
                + "behind the last one)"
        case 22, 23, 26, 68: " (an entity that does not exist; write & as &amp;)"
        case 38: " (< in an attribute; write &lt;)"
        case 39, 40, 41: " (an attribute without a value in quotes)"
        case 42: " (an attribute stands twice in one element)"
        case 201: " (a name with a prefix, of which a model has none)"
        default: ""
        }
    }
}

/// Puts the elements together as the parser reports them.
private final class TreeBuilder: NSObject, XMLParserDelegate {
    private let places: ElementPlaces
    private let source: String
    private var open: [SourceElement] = []
    private var count = 0
    private(set) var root: SourceElement?
    private(set) var tooDeep: SourcePlace?

    init(places: ElementPlaces, source: String) {
        self.places = places
        self.source = source
    }

    func parser(
        _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
        attributes: [String: String]
    ) {
        guard tooDeep == nil else { return }
        let offset = count < places.offsets.count ? places.offsets[count] : 0
        count += 1
        let place = places.place(of: offset, source: source)
        guard open.count < ElementTree.deepest else {
            tooDeep = place
            return parser.abortParsing()
        }
        open.append(SourceElement(name: name, attributes: attributes, place: place))
    }

    func parser(_ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?) {
        guard tooDeep == nil, let element = open.popLast() else { return }
        if open.isEmpty { root = element } else { open[open.count - 1].children.append(element) }
    }
}
