import CXML2
import Glibc

/// An attribute of a tag, as it is written there.
struct XMLAttribute {
    let name: [UInt8]
    let value: [UInt8]
}

/// Takes what a parser finds, in the order of the document.
protocol XMLEvents: AnyObject {
    func begin(_ name: [UInt8], _ attributes: [XMLAttribute])
    func end()
    func text(_ bytes: UnsafeBufferPointer<UInt8>)
    func entity(_ name: String)
    func attributeDefault(_ name: String)
    /// - Parameter code: of libxml2 (`xmlParserErrors`).
    func error(_ code: Int, _ message: String)
}

/// libxml2, which gets a document in pieces and loads nothing by itself. Belongs to one thread.
///
/// Foundation's parser is libxml2, too, but it follows a null pointer at an instruction without data (`<?x?>`), and tells
/// nothing of entities that a document declares.
final class XMLPushParser {
    /// Bytes that may be handed over at once.
    static let largestPiece = 32 << 10

    private let context: xmlParserCtxtPtr
    weak var events: (any XMLEvents)?

    /// The library's own tables, made once.
    private static let library: Void = xmlInitParser()

    init() {
        _ = Self.library
        var handler = Self.handler()
        // It is copied.
        guard let context = xmlCreatePushParserCtxt(&handler, nil, nil, 0, nil) else {
            preconditionFailure("out of memory for an XML parser")
        }
        xmlCtxtUseOptions(context, Int32(XML_PARSE_NONET.rawValue))
        self.context = context
        context.pointee.userData = Unmanaged.passUnretained(self).toOpaque()
    }

    deinit {
        if let document = context.pointee.myDoc { xmlFreeDoc(document) }
        xmlFreeParserCtxt(context)
    }

    func parse(_ bytes: ArraySlice<UInt8>) {
        lines.append(bytes)
        bytes.withUnsafeBytes {
            _ = xmlParseChunk(context, $0.baseAddress?.assumingMemoryBound(to: CChar.self), Int32($0.count), 0)
        }
        lines.pass(stoppedPlace == nil ? place(before: 0).offset ?? .max : .max)
    }

    /// The document is over.
    func end() { xmlParseChunk(context, nil, 0, 1) }

    /// Finds nothing any more.
    func stop() {
        stoppedPlace = place
        xmlStopParser(context)
    }

    // MARK: - Places

    /// Where it stands, or stood when it was stopped.
    var place: InputPlace { stoppedPlace ?? place(before: 0) }

    private var stoppedPlace: InputPlace?

    /// Where the lines begin that may still be asked for.
    private let lines = LineStarts()

    /// Where the tag begins that was found last; only while that is told.
    var tagPlace: InputPlace {
        guard let input = context.pointee.input, let base = input.pointee.base, let current = input.pointee.cur else {
            return place
        }
        // No '<' is within a tag.
        var distance = 0
        while distance < current - base, current[-distance] != UInt8(ascii: "<") { distance += 1 }
        return place(before: distance)
    }

    /// - Parameter distance: bytes back from where it stands, which it still has.
    private func place(before distance: Int) -> InputPlace {
        guard let input = context.pointee.input, let base = input.pointee.base, let current = input.pointee.cur else {
            return lines.place(at: 0)
        }
        // What it has converted is not what was read.
        if input.pointee.buf?.pointee.encoder != nil {
            return InputPlace(
                line: max(1, Int(input.pointee.line)), column: max(1, Int(input.pointee.col) - distance),
                offset: nil)
        }
        return lines.place(at: Int(input.pointee.consumed) + (current - base) - distance)
    }

    // MARK: - Callbacks

    private static func handler() -> xmlSAXHandler {
        var handler = xmlSAXHandler()
        handler.initialized = broker_xml_sax2_magic()
        handler.startElementNs = { context, name, prefix, _, _, _, count, _, attributes in
            guard let parser = XMLPushParser.of(context), let name else { return }
            parser.events?.begin(qualified(name, prefix), XMLPushParser.attributes(attributes, Int(count)))
        }
        handler.endElementNs = { context, _, _, _ in XMLPushParser.of(context)?.events?.end() }
        handler.characters = { context, text, count in XMLPushParser.tell(context, text, count) }
        handler.ignorableWhitespace = { context, text, count in XMLPushParser.tell(context, text, count) }
        handler.cdataBlock = { context, text, count in XMLPushParser.tell(context, text, count) }
        handler.entityDecl = { context, name, _, _, _, _ in
            XMLPushParser.of(context)?.events?.entity(XMLPushParser.text(name))
        }
        handler.unparsedEntityDecl = { context, name, _, _, _ in
            XMLPushParser.of(context)?.events?.entity(XMLPushParser.text(name))
        }
        handler.attributeDecl = { context, _, name, _, _, value, choices in
            xmlFreeEnumeration(choices)
            if value != nil { XMLPushParser.of(context)?.events?.attributeDefault(XMLPushParser.text(name)) }
        }
        handler.serror = { context, error in
            // A prefix without a namespace is a name like any other here.
            guard let error, error.pointee.level != XML_ERR_WARNING,
                error.pointee.domain != Int32(XML_FROM_NAMESPACE.rawValue), let parser = XMLPushParser.of(context)
            else { return }
            let message = error.pointee.message.map { String(cString: $0) } ?? "error \(error.pointee.code)"
            parser.events?.error(
                Int(error.pointee.code), message.split(whereSeparator: \.isWhitespace).joined(separator: " "))
        }
        return handler
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> XMLPushParser? {
        context.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    private static func tell(
        _ context: UnsafeMutableRawPointer?, _ text: UnsafePointer<xmlChar>?, _ count: Int32
    ) {
        of(context)?.events?.text(UnsafeBufferPointer(start: text, count: Int(count)))
    }

    private static func attributes(
        _ start: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?, _ count: Int
    ) -> [XMLAttribute] {
        // Five pointers for each: name, prefix, namespace, and the value's beginning and end.
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

/// A name as it is written, with its prefix.
private func qualified(_ name: UnsafePointer<xmlChar>, _ prefix: UnsafePointer<xmlChar>?) -> [UInt8] {
    let local = UnsafeBufferPointer(start: name, count: Int(xmlStrlen(name)))
    guard let prefix else { return Array(local) }
    return Array(UnsafeBufferPointer(start: prefix, count: Int(xmlStrlen(prefix)))) + [UInt8(ascii: ":")] + local
}

/// Where lines begin, in bytes that come in pieces. Places are asked for from the first to the last, more or less.
private final class LineStarts {
    /// Passed lines that are kept at most.
    private static let kept = 4096

    private var starts = [0]
    /// The line that was asked for last: its place in ``starts``, and how many were thrown away before them.
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

    func place(at offset: Int) -> InputPlace {
        go(to: offset)
        return InputPlace(
            line: thrownAway + index + 1, column: max(1, offset - starts[index] + 1), offset: offset)
    }

    /// Of what stands before, little is asked for any more.
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
