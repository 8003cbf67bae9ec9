internal import BrokerModel

/// Where the elements of an XML text begin, found without understanding it.
///
/// The parser tells the place behind an element's attributes, which may be many lines below its name. In a text that the
/// parser takes for well-formed and that has no DTD, the n-th start tag found here is the n-th that the parser reports.
struct ElementPlaces {
    /// Offsets of the `<` of all start tags, in order.
    private(set) var offsets: [Int] = []
    /// Where a document type declaration begins. It is refused before a parser sees it: no model has one, and what it may
    /// declare (entities that grow without bounds, or that name files and addresses) is only ever an attack.
    private(set) var declaration: Int?
    /// Where a processing instruction of a name alone begins, `<?name?>`, the first of them. It is refused before a parser sees
    /// it, too: FoundationXML ends the process over one, as it reads the content that libxml2 does not give.
    ///
    /// It is one wherever it stands, in a comment, too: behind a fault the parser goes on, at a place that nobody foresees.
    let emptyInstruction: Int?
    private let lineStarts: [Int]

    init(of text: [UInt8]) {
        var starts = [0]
        for (offset, byte) in text.enumerated() where byte == UInt8(ascii: "\n") { starts.append(offset + 1) }
        lineStarts = starts
        emptyInstruction = Self.emptyInstruction(in: text)
        var index = text.startIndex
        while let tag = text[index...].firstIndex(of: UInt8(ascii: "<")) {
            let rest = text[tag...]
            if rest.starts(with: "<!--".utf8) {
                index = Self.end(of: "-->", in: text, from: tag + 4)
            } else if rest.starts(with: "<![CDATA[".utf8) {
                index = Self.end(of: "]]>", in: text, from: tag + 9)
            } else if rest.starts(with: "<?".utf8) {
                // Of a declaration that is not well-formed, libxml2 passes over what is before the next `>`.
                let isDeclaration = rest.starts(with: "<?xml".utf8)
                index = Self.end(of: isDeclaration ? ">" : "?>", in: text, from: tag + 2)
            } else if rest.starts(with: "<!".utf8) {
                declaration = tag
                return
            } else {
                if !rest.starts(with: "</".utf8) { offsets.append(tag) }
                index = Self.endOfTag(in: text, from: tag + 1)
            }
        }
    }

    /// Line and column from 1, columns in bytes.
    func place(of offset: Int, source: String) -> SourcePlace {
        var low = 0
        var high = lineStarts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if lineStarts[middle] <= offset { low = middle } else { high = middle }
        }
        return SourcePlace(source: source, line: low + 1, column: offset - lineStarts[low] + 1)
    }

    /// What has no white space between its name and its end (XML 1.0, productions 3 and 16).
    private static func emptyInstruction(in text: [UInt8]) -> Int? {
        let (space, end): ([UInt8], [UInt8]) = ([0x20, 0x09, 0x0D, 0x0A], Array("?>".utf8))
        var index = 0
        while let tag = text[index...].firstIndex(of: UInt8(ascii: "<")) {
            index = tag + 1
            guard text[tag...].starts(with: "<?".utf8) else { continue }
            let name = text[(tag + 2)...].prefix { !space.contains($0) && $0 != UInt8(ascii: "?") }
            if text[name.endIndex...].starts(with: end) { return tag }
        }
        return nil
    }

    private static func end(of mark: String, in text: [UInt8], from start: Int) -> Int {
        let mark = Array(mark.utf8)
        var index = start
        while let found = text[min(index, text.count)...].firstIndex(of: mark[0]) {
            if text[found...].starts(with: mark) { return found + mark.count }
            index = found + 1
        }
        return text.count
    }

    /// Behind the `>` that is in no quotes.
    private static func endOfTag(in text: [UInt8], from start: Int) -> Int {
        var quote: UInt8?
        for index in start..<text.count {
            let byte = text[index]
            if let open = quote {
                if byte == open { quote = nil }
            } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                quote = byte
            } else if byte == UInt8(ascii: ">") {
                return index + 1
            }
        }
        return text.count
    }
}
