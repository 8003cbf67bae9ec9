internal import BrokerJSON
internal import BrokerModel
internal import BrokerXML

/// One element of a model's XML, with the place of its `<`.
struct SourceElement {
    let name: String
    let attributes: [String: String]
    let place: SourcePlace
    var children: [SourceElement] = []

    /// An attribute of the XML; nil when it is absent. One that is empty is there, and empty.
    subscript(attribute: String) -> String? { attributes[attribute] }

    /// An attribute of the XML; nil when it is absent or empty.
    func text(_ attribute: String) -> String? { self[attribute].flatMap { $0.isEmpty ? nil : $0 } }

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

/// Reads an XML text as a tree of elements. Text between them means nothing in a model, and is ignored.
///
/// The text is UTF-8 without a document type: Xcode writes models so.
final class ElementReader: XMLEvents {
    /// Elements within one another; a model has six.
    static let deepest = 64

    private let parser = XMLPushParser()
    private let source: String
    private var open: [SourceElement] = []
    private var root: SourceElement?
    /// The first one; nothing after it is read.
    private var fault: ModelFault?

    /// - Throws: `ModelError` with one fault.
    static func root(of text: [UInt8], source: String) throws(ModelError) -> SourceElement {
        let reader = ElementReader(source: source)
        if let fault = encodingFault(of: text) {
            reader.fail(fault, at: XMLPlace.start)
        } else {
            reader.parser.parse(text[...])
            reader.parser.end()
            // libxml2 reports no error for a text of less than four bytes.
            if reader.root == nil || !reader.open.isEmpty { reader.failNotWellFormed(nothing) }
        }
        if let fault = reader.fault { throw ModelError(faults: [fault]) }
        guard let root = reader.root else { preconditionFailure("a document without a fault has an element") }
        return root
    }

    private init(source: String) {
        self.source = source
        parser.events = self
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

    private static let nothing = " (there is no element)"

    private func fail(_ message: String, at place: XMLPlace) {
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
        guard open.count < Self.deepest else {
            return fail("elements are nested more than \(Self.deepest) deep; no Core Data model is", at: place)
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

/// The user info of an entity, attribute or relationship, in which other libraries configure the mapping of JSON.
struct UserInfo {
    private var values: [String: String] = [:]
    /// In the order of the XML.
    private var keys: [String] = []

    init(of element: SourceElement) {
        for entry in element.children(named: "userInfo").flatMap({ $0.children(named: "entry") }) {
            guard let key = entry["key"] else { continue }
            if values.updateValue(entry["value"] ?? "", forKey: key) == nil { keys.append(key) }
        }
    }

    /// Without white space around it; nil when it is absent or empty.
    subscript(key: String) -> String? {
        guard let value = values[key] else { return nil }
        let words = value.split(whereSeparator: \.isWhitespace)
        return words.isEmpty ? nil : words.joined(separator: " ")
    }

    var byteCount: Int { values.reduce(0) { $0 + $1.value.utf8.count } }

    func flag(_ key: String) -> Bool { self[key].flatMap(SourceElement.flag) ?? false }

    /// The names in a list between commas.
    func list(_ key: String) -> [String] {
        let parts = self[key]?.split(separator: ",") ?? []
        return parts.map { $0.split(separator: " ").joined(separator: " ") }.filter { !$0.isEmpty }
    }

    var isOfSync: Bool { keys.contains { $0.hasPrefix("sync.") || $0.hasPrefix("hyper.") } }

    /// Notes the keys that have no effect, so that a misspelt one does not pass in silence.
    func noteUnfollowed(as vocabulary: Vocabulary, on report: ElementReport) {
        for key in keys where !vocabulary.followed.contains(key) {
            if let reason = vocabulary.unfollowed[key] {
                report.leftOut("userInfo \(key): \(reason)")
            } else {
                report.passedOver(
                    "userInfo \(key): Broker does not know this key"
                        + NearMiss.question(key, among: vocabulary.followed))
            }
        }
    }

    /// A failover of MagicalRecord: the keys are tried in this order.
    static func failover(_ key: String) -> [String] { [key] + (0...9).map { "\(key).\($0)" } }

    /// The keys that mean something on one kind of part.
    struct Vocabulary {
        let followed: [String]
        /// The keys that Broker knows and cannot follow, and why.
        let unfollowed: [String: String]

        private static let keyPaths = failover("mappedKeyName") + ["JSONKeyPath", "sync.remoteKey", "hyper.remoteKey"]
        private static let transformed =
            "Broker runs no application code; use a transform of the model, or the client"
        private static let exported = "it is about exporting; a fetch gives every attribute"

        static let entity = Vocabulary(
            followed: [
                "identityAttributes", "identityAttribute", "relatedByAttribute", "RKEntityIdentificationAttributes",
            ],
            unfollowed: [
                "entityMapperName":
                    "Broker runs no application code to choose an entity; a mapping with \"select\" in an override does",
                "sync.nonExportable": exported, "hyper.nonExportable": exported,
            ])

        static let attribute = Vocabulary(
            followed: keyPaths + failover("dateFormat") + [
                "useDefaultValueWhenNotPresent", "excludeFromImport", "sync.isPrimaryKey", "hyper.isPrimaryKey",
            ],
            unfollowed: [
                "JSONTransformerName": transformed, "sync.valueTransformer": transformed,
                "hyper.valueTransformer": transformed, "sync.nonExportable": exported, "hyper.nonExportable": exported,
                "attributeValueClassName": "the attribute's type says what its values become",
            ])

        static let relationship = Vocabulary(
            followed: keyPaths + ["relatedByAttribute", "excludeFromImport"],
            unfollowed: [
                "primaryRelationship": "objects are found by attributes; name them in \"identity\"",
                "type": "the destination entity says what becomes of its records",
                "sync.nonExportable": exported, "hyper.nonExportable": exported,
            ])
    }
}
