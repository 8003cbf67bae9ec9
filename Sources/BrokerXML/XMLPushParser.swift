internal import CXML2
internal import Glibc

/// libxml2's push parser: it gets a document in pieces and opens no other file and no address. Belongs to one thread.
///
/// The caller rejects the events of ``XMLEvents/refuse(_:)``, and limits the depth; the parser limits everything else.
package final class XMLPushParser {
    /// Bytes that libxml2 gets at once: its positions are known for these, and the limits are checked between them.
    private static let largestPiece = 32 << 10

    /// Attributes of an element and namespaces in force, together: a table of SQLite has at most 2,000 columns.
    ///
    /// libxml2 before 2.12 compares each attribute of a tag with all others, and each prefix with all namespaces.
    package static let mostAttributes = 2_048

    /// Different names of elements and attributes in a document.
    ///
    /// libxml2 before 2.13 has a table of names that stays small, and compares each name with more and more others.
    package static let mostNames = 1 << 16

    private let context: xmlParserCtxtPtr
    package weak var events: (any XMLEvents)?

    /// The library's own tables, initialized once.
    private static let library: Void = xmlInitParser()

    package init() {
        _ = Self.library
        var handler = Self.handler()
        // The library copies it.
        guard let context = xmlCreatePushParserCtxt(&handler, nil, nil, 0, nil) else {
            preconditionFailure("out of memory for an XML parser")
        }
        // With `XML_PARSE_NOENT`, `&amp;` in an attribute is `&`; without it, libxml2 reports `&#38;` for a tree that
        // it would build.
        // No other entities exist: no handler stores any.
        xmlCtxtUseOptions(context, Int32(XML_PARSE_NONET.rawValue | XML_PARSE_NOENT.rawValue))
        self.context = context
        context.pointee.userData = Unmanaged.passUnretained(self).toOpaque()
    }

    deinit {
        if let document = context.pointee.myDoc { xmlFreeDoc(document) }
        xmlFreeParserCtxt(context)
    }

    /// Reads the next bytes of the document; none after ``stop()``.
    package func parse(_ bytes: ArraySlice<UInt8>) {
        var rest = bytes
        while stoppedPlace == nil, !rest.isEmpty {
            let piece = rest.prefix(Self.largestPiece)
            rest = rest.dropFirst(piece.count)
            lines.append(piece)
            piece.withUnsafeBytes {
                _ = xmlParseChunk(context, $0.baseAddress?.assumingMemoryBound(to: CChar.self), Int32($0.count), 0)
            }
            if stoppedPlace == nil, xmlDictSize(context.pointee.dict) > Self.mostNames { events?.refuse(.names) }
            if stoppedPlace == nil { countOpenTag() }
            lines.pass(stoppedPlace == nil ? place(before: 0).offset ?? .max : .max)
        }
    }

    /// The document ends.
    package func end() { xmlParseChunk(context, nil, 0, 1) }

    /// Stops reporting events.
    package func stop() {
        stoppedPlace = place
        xmlStopParser(context)
    }

    // MARK: - Attributes

    /// The number of namespaces that each open element declares, and their sum.
    private var namespaceCounts: [Int] = []
    private var namespaceCount = 0
    private var openTag = OpenTag()

    /// libxml2 parses a tag when it is complete; too many attributes are refused before that.
    private func countOpenTag() {
        guard context.pointee.instate == XML_PARSER_START_TAG, let input = context.pointee.input,
            let base = input.pointee.base, let current = input.pointee.cur, let end = input.pointee.end
        else { return }
        openTag.read(
            UnsafeBufferPointer(start: current, count: end - current),
            at: Int(input.pointee.consumed) + (current - base))
        if openTag.attributeCount > Self.mostAttributes { events?.refuse(.attributes) }
    }

    private func begin(
        _ name: [UInt8], _ attributes: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?, _ count: Int, namespaces: Int
    ) {
        namespaceCounts.append(namespaces)
        namespaceCount += namespaces
        guard count + namespaceCount <= Self.mostAttributes else {
            events?.refuse(.attributes)
            return
        }
        events?.begin(name, Self.attributes(attributes, count))
    }

    /// The number of defaults that the document type gives to each element, and their sum.
    private var defaultCounts: [String: Int] = [:]
    private var defaultCount = 0
    /// A default makes more of an element than its text, and libxml2 looks for each of them at each element.
    package static let mostDefaults = 16
    /// Bytes of a default's name and value. No record holds a namespace.
    package static let longestDefault = 64
    /// For all elements.
    private static let mostDefaultsInAll = 256

    private func noteDefault(_ element: String, _ attribute: String, valueCount: Int) {
        defaultCount += 1
        defaultCounts[element, default: 0] += 1
        let isNamespace = attribute == "xmlns" || attribute.hasPrefix("xmlns:")
        guard defaultCount <= Self.mostDefaultsInAll, defaultCounts[element, default: 0] <= Self.mostDefaults,
            isNamespace || attribute.utf8.count + valueCount <= Self.longestDefault
        else {
            events?.refuse(.attributeDefault(attribute))
            return
        }
    }

    private func endElement() {
        namespaceCount -= namespaceCounts.popLast() ?? 0
        events?.end()
    }

    // MARK: - Positions

    /// The present position, or the position at which it was stopped.
    package var place: XMLPlace { stoppedPlace ?? place(before: 0) }

    private var stoppedPlace: XMLPlace?

    /// The lines whose offsets may still be requested.
    private let lines = LineStarts()

    /// The offset of the tag or document type that is being reported.
    package var tagPlace: XMLPlace {
        guard let input = context.pointee.input, let base = input.pointee.base, let current = input.pointee.cur else {
            return place
        }
        // No '<' occurs inside a tag.
        var distance = 0
        while distance < current - base, current[-distance] != UInt8(ascii: "<") { distance += 1 }
        return place(before: distance)
    }

    /// - Parameter distance: bytes back from the present position, which are still available.
    private func place(before distance: Int) -> XMLPlace {
        guard let input = context.pointee.input, let base = input.pointee.base, let current = input.pointee.cur else {
            return lines.place(at: 0)
        }
        // The converted bytes differ from the bytes read.
        if input.pointee.buf?.pointee.encoder != nil {
            return XMLPlace(
                line: max(1, Int(input.pointee.line)), column: max(1, Int(input.pointee.col) - distance),
                offset: nil)
        }
        return lines.place(at: Int(input.pointee.consumed) + (current - base) - distance)
    }

    // MARK: - Callbacks

    private static func handler() -> xmlSAXHandler {
        var handler = xmlSAXHandler()
        handler.initialized = broker_xml_sax2_magic()
        handler.startElementNs = { context, name, prefix, _, namespaceCount, _, count, _, attributes in
            guard let parser = XMLPushParser.of(context), let name else { return }
            parser.begin(qualified(name, prefix), attributes, Int(count), namespaces: Int(namespaceCount))
        }
        handler.endElementNs = { context, _, _, _ in XMLPushParser.of(context)?.endElement() }
        handler.characters = { context, text, count in
            XMLPushParser.of(context)?.events?.text(UnsafeBufferPointer(start: text, count: Int(count)))
        }
        handler.ignorableWhitespace = handler.characters
        handler.cdataBlock = handler.characters
        handler.internalSubset = { context, _, _, _ in XMLPushParser.of(context)?.events?.refuse(.documentType) }
        handler.entityDecl = { context, name, _, _, _, _ in
            XMLPushParser.of(context)?.events?.refuse(.entity(XMLPushParser.text(name)))
        }
        handler.unparsedEntityDecl = { context, name, _, _, _ in
            XMLPushParser.of(context)?.events?.refuse(.entity(XMLPushParser.text(name)))
        }
        handler.attributeDecl = { context, element, name, _, _, value, choices in
            xmlFreeEnumeration(choices)
            guard let value, let parser = XMLPushParser.of(context) else { return }
            parser.noteDefault(
                XMLPushParser.text(element), XMLPushParser.text(name), valueCount: Int(xmlStrlen(value)))
        }
        handler.serror = { context, error in
            guard let error, error.pointee.level != XML_ERR_WARNING, let parser = XMLPushParser.of(context) else {
                return
            }
            let message = error.pointee.message.map { String(cString: $0) } ?? "error \(error.pointee.code)"
            parser.events?.error(
                Int(error.pointee.code), message.split(whereSeparator: \.isWhitespace).joined(separator: " "))
        }
        return handler
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> XMLPushParser? {
        context.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    private static func attributes(
        _ start: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?, _ count: Int
    ) -> [XMLAttribute] {
        // Five pointers each: name, prefix, namespace, and the value's beginning and end.
        (0..<count).compactMap { index in
            guard let fields = start.map({ $0 + 5 * index }), let name = fields[0], let value = fields[3],
                let end = fields[4]
            else { return nil }
            return XMLAttribute(
                name: qualified(name, fields[1]),
                value: Array(UnsafeBufferPointer(start: value, count: end - value)))
        }
    }

    private static func text(_ text: UnsafePointer<xmlChar>?) -> String {
        text.map { String(cString: $0) } ?? ""
    }
}

/// A name as written, with its prefix.
private func qualified(_ name: UnsafePointer<xmlChar>, _ prefix: UnsafePointer<xmlChar>?) -> [UInt8] {
    let local = UnsafeBufferPointer(start: name, count: Int(xmlStrlen(name)))
    guard let prefix else { return Array(local) }
    return Array(UnsafeBufferPointer(start: prefix, count: Int(xmlStrlen(prefix)))) + [UInt8(ascii: ":")] + local
}

/// Counts the attributes of a tag that is not complete yet.
struct OpenTag {
    private(set) var attributeCount = 0
    private var start = -1
    private var scannedCount = 0
    private var quote: UInt8?

    /// - Parameters:
    ///   - bytes: the tag so far; each byte is read once.
    ///   - offset: its offset in the document.
    mutating func read(_ bytes: UnsafeBufferPointer<UInt8>, at offset: Int) {
        if offset != start { self = OpenTag(start: offset) }
        defer { scannedCount = bytes.count }
        guard let base = bytes.baseAddress else { return }
        var index = scannedCount
        while index < bytes.count {
            if let open = quote {
                guard let end = memchr(base + index, Int32(open), bytes.count - index) else { return }
                index = UnsafeRawPointer(end) - UnsafeRawPointer(base)
                quote = nil
            } else if bytes[index] == UInt8(ascii: "\"") || bytes[index] == UInt8(ascii: "'") {
                quote = bytes[index]
                attributeCount += 1
            }
            index += 1
        }
    }
}

/// The events of a parser, in the order of the document.
package protocol XMLEvents: AnyObject {
    func begin(_ name: [UInt8], _ attributes: [XMLAttribute])
    func end()
    func text(_ bytes: UnsafeBufferPointer<UInt8>)
    /// A part of the document whose cost may exceed its length, or which reads other files.
    func refuse(_ construct: XMLConstruct)
    /// - Parameter code: the code of libxml2 (`xmlParserErrors`).
    func error(_ code: Int, _ message: String)
}

package enum XMLConstruct {
    /// `<!DOCTYPE`; its internal subset is not read yet.
    case documentType
    /// The declaration of an entity of that name.
    case entity(String)
    /// The declaration of a default for an attribute of that name, beyond the limits of ``XMLPushParser``.
    case attributeDefault(String)
    /// More than ``XMLPushParser/mostAttributes`` of an element.
    case attributes
    /// More different names than ``XMLPushParser/mostNames``.
    case names
}

/// An attribute of a tag, with its prefix, as written.
package struct XMLAttribute {
    package let name: [UInt8]
    package let value: [UInt8]
}

/// Lines and columns count from 1 (columns in bytes), offsets from 0.
package struct XMLPlace: Equatable {
    package let line: Int
    package let column: Int
    /// Nil in a text that is not UTF-8, where columns are characters.
    package let offset: Int?

    package static let start = XMLPlace(line: 1, column: 1, offset: 0)
}

/// The offsets of lines in bytes that arrive in pieces. Positions are requested in nearly ascending order.
final class LineStarts {
    /// The maximum number of lines before the requested position that are stored.
    private static let kept = 4096

    private var starts = [0]
    /// The line that was requested last: its index in ``starts``, and the number of discarded lines before them.
    private var index = 0
    private var thrownAway = 0
    private var count = 0

    func append(_ bytes: ArraySlice<UInt8>) {
        bytes.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return }
            var index = 0
            while let end = memchr(base + index, Int32(UInt8(ascii: "\n")), bytes.count - index) {
                index = UnsafeRawPointer(end) - base + 1
                starts.append(count + index)
            }
        }
        count += bytes.count
    }

    func place(at offset: Int) -> XMLPlace {
        go(to: offset)
        return XMLPlace(
            line: thrownAway + index + 1, column: max(1, offset - starts[index] + 1), offset: offset)
    }

    /// Earlier lines are rarely requested.
    func pass(_ offset: Int) {
        go(to: min(offset, count))
        guard index > 2 * Self.kept else { return }
        starts.removeFirst(index - Self.kept)
        thrownAway += index - Self.kept
        index = Self.kept
    }

    private func go(to offset: Int) {
        while index + 1 < starts.count, starts[index + 1] <= offset { index += 1 }
        while index > 0, starts[index] > offset { index -= 1 }
    }
}
