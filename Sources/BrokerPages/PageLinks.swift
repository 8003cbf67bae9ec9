package import BrokerInput
package import BrokerJSON
package import Foundation

/// Where the body of a page says which page is the next one.
package struct NextPage: Sendable {
    private let keys: [String]
    /// The query item that takes a cursor; nil when the value is a URL.
    private let parameter: String?

    package init(path: String, parameter: String?) {
        keys = RecordRoot(path)?.tokens ?? [path]
        self.parameter = parameter
    }

    /// - Returns: nil when it is the last page: the value is not there, null, false or an empty text.
    package func url(in page: JSONDocument, of url: URL) throws(PageError) -> URL? {
        defer { withExtendedLifetime(page) {} }
        guard let found = try text(in: page.root, of: url), !found.isEmpty else { return nil }
        return try next(found, after: url)
    }

    private func text(in root: JSONValue, of url: URL) throws(PageError) -> String? {
        var value: JSONValue? = root
        for key in keys {
            guard let current = value else { return nil }
            if current.kind == .array, let index = Int(key), index >= 0 {
                value = current.elements.dropFirst(index).first { _ in true }
            } else {
                value = current[key]
            }
        }
        guard let value else { return nil }
        switch value.kind {
        case .string: return value.string
        case .null: return nil
        case .object, .array:
            throw PageError(
                "--next leads to an object or an array in \(url.absoluteString); give the path of a URL or a cursor.")
        default:
            let text = String(decoding: value.bytes, as: UTF8.self)
            return text == "false" ? nil : text
        }
    }

    private func next(_ text: String, after url: URL) throws(PageError) -> URL {
        guard let parameter else {
            guard let next = URL(string: text, relativeTo: url)?.absoluteURL else {
                throw PageError("--next leads to \"\(text.prefix(100))\" in \(url.absoluteString), which is no URL.")
            }
            return next
        }
        guard var components = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
            throw PageError("\(url.absoluteString) takes no query item, so --next-parameter cannot be used with it.")
        }
        let others = components.queryItems?.filter { $0.name != parameter } ?? []
        components.queryItems = others + [URLQueryItem(name: parameter, value: text)]
        // URLComponents leaves a plus as it is, which servers read as a space.
        components.percentEncodedQuery = components.percentEncodedQuery?.replacing("+", with: "%2B")
        return components.url ?? url
    }
}

/// The next page according to the field `Link` of a response (RFC 8288, section 3).
package enum LinkHeader: Equatable, Sendable {
    /// No link has the relation `next`.
    case none
    case next(URL)
    /// The field is not of the form of RFC 8288 up to the link to the next page, or that is no URL: a page may follow.
    case unreadable(String)

    init(_ field: String, of url: URL) {
        var rest = field[...]
        while true {
            rest = rest.drop { $0 == "," || $0.isWhitespace }
            guard !rest.isEmpty else {
                self = .none
                return
            }
            guard let (target, relations) = Self.takeLink(&rest) else { break }
            guard relations.contains("next") else { continue }
            guard let next = URL(string: target, relativeTo: url)?.absoluteURL, (try? PageClient.check(next)) != nil
            else { break }
            self = .next(next)
            return
        }
        self = .unreadable(field)
    }

    /// The target and the relations of a link; nil for any other text.
    private static func takeLink(_ rest: inout Substring) -> (target: String, relations: [String])? {
        guard rest.first == "<", let end = rest.firstIndex(of: ">") else { return nil }
        let target = rest[rest.index(after: rest.startIndex)..<end]
        // No URL has these, but a link whose bracket is not closed, with its parameters or the link after it.
        let hasBlank = target.contains(where: \.isWhitespace)
        guard !target.contains(where: { $0 == "<" || $0 == "\"" || $0 == ";" && hasBlank }) else { return nil }
        rest = rest[rest.index(after: end)...].drop(while: \.isWhitespace)
        var relations: [String]?
        while rest.first == ";" {
            guard let (name, value) = takeParameter(&rest) else { return nil }
            // The first one of several counts (section 3.3).
            if name.lowercased() == "rel", relations == nil {
                relations = value.split(whereSeparator: \.isWhitespace).map { $0.lowercased() }
                if relations == [] { return nil }
            }
        }
        // Servers forget the comma, too.
        return rest.isEmpty || rest.first == "," || rest.first == "<" ? (String(target), relations ?? []) : nil
    }

    /// `;name`, `;name=value` or `;name="value"`, and the blanks after it; nil for any other text.
    private static func takeParameter(_ rest: inout Substring) -> (name: String, value: String)? {
        rest = rest.dropFirst().drop(while: \.isWhitespace)
        let name = rest.prefix { !"=;,\"<>".contains($0) && !$0.isWhitespace }
        rest = rest[name.endIndex...].drop(while: \.isWhitespace)
        guard rest.first == "=" else { return (String(name), "") }
        rest = rest.dropFirst().drop(while: \.isWhitespace)
        var value = ""
        // Servers send single quotes, too.
        if let quote = rest.first, quote == "\"" || quote == "'" {
            rest = rest.dropFirst()
            while true {
                guard let character = rest.popFirst() else { return nil }
                if character == quote { break }
                guard character == "\\", quote == "\"" else {
                    value.append(character)
                    continue
                }
                // A quoted pair (RFC 9110, section 5.6.4).
                guard let escaped = rest.popFirst() else { return nil }
                value.append(escaped)
            }
        } else {
            value = String(rest.prefix { !";,\"<>".contains($0) && !$0.isWhitespace })
            rest = rest[rest.index(rest.startIndex, offsetBy: value.count)...]
            if value.isEmpty { return nil }
        }
        rest = rest.drop(while: \.isWhitespace)
        return name.isEmpty ? nil : (String(name), value)
    }
}

/// The signs of further pages in one that has no link to the next: fields of its response, and members of the objects around
/// its records.
package struct FurtherPages {
    /// A sign, whatever was read.
    private var sign: String?
    private var pageCounts: [(text: String, count: Int)] = []
    private var recordCounts: [(text: String, count: Int)] = []

    /// - Parameter root: the keys that lead to the records; nil where mappings find them.
    package init(_ page: Page, _ envelope: JSONDocument?, root: [String]?) {
        if case .unreadable(let field) = page.link { sign = "its Link header cannot be read (\(field.prefix(200)))" }
        if case .next(let url) = page.link { sign = "its Link header names \(url.absoluteString)" }
        for (name, value) in page.fields {
            if name == "content-range" {
                note(.total, "Content-Range", String(value.split(separator: "/").last ?? ""), isGiven: true)
            } else if name.hasPrefix("x-") || name.hasPrefix("pagination-") {
                let word = name.split(separator: "-").filter { !["x", "wp", "pagination"].contains($0) }.joined()
                let meaning = Meaning(word)
                // Frameworks have fields like X-NextJS-Cache.
                if meaning != .next || Self.nextFields.contains(word) {
                    note(meaning, name, value, isGiven: !["", "null", "false"].contains(value))
                }
            }
        }
        guard let envelope else { return }
        look(into: envelope.root, [], root?[...])
        withExtendedLifetime(envelope) {}
    }

    /// - Parameter records: their records; nil when that is not known.
    package func sign(pages: Int, records: Int?) -> String? {
        if let sign { return sign }
        if let (text, count) = pageCounts.first(where: { $0.count > pages }) {
            return "\(text) is \(count), and \(pages) page\(pages == 1 ? " was" : "s were") read"
        }
        guard let records, let (text, count) = recordCounts.first(where: { $0.count > records }) else { return nil }
        return "\(text) is \(count), and \(records) record\(records == 1 ? "" : "s") came"
    }

    private static let nextFields = [
        "next", "nextpage", "nexturl", "nextlink", "nextcursor", "nextpagetoken", "nexttoken",
    ]

    // MARK: - Values

    /// The meaning of a member or field, by its name.
    private enum Meaning {
        case next, more, last, pages, total

        init?(_ name: String) {
            let word = FurtherPages.word(name)
            switch word {
            case "last", "islast", "islastpage", "done": self = .last
            case "lastpage", "pages", "totalpages", "totalpage", "pagecount", "numpages", "nbpages": self = .pages
            case "total", "count", "found": self = .total
            case "incompleteresults": self = .more
            case _ where word.contains("more") || word.hasPrefix("hasnext") || word.hasSuffix("truncated"): self = .more
            // The token of a later synchronization is on the last page.
            case _ where word.hasPrefix("nextsync"): return nil
            case "continuation", "continuationtoken", "lastevaluatedkey": self = .next
            case _ where word.hasPrefix("next"): self = .next
            case _ where Self.isTotal(word): self = .total
            default: return nil
            }
        }

        /// `totalElements`, `num_found`, `record_count`.
        private static func isTotal(_ word: String) -> Bool {
            var rest = word[...]
            for prefix in ["total", "num", "nb"] where rest.hasPrefix(prefix) { rest = rest.dropFirst(prefix.count) }
            if rest.hasSuffix("count") { rest = rest.dropLast(5) }
            if rest.hasSuffix("s") { rest = rest.dropLast() }
            return word.count > 5 && rest.isEmpty || rest != word && counted.contains(String(rest))
        }

        private static let counted: Set<String> = [
            "doc", "element", "entrie", "found", "hit", "item", "object", "record", "result", "row", "size",
        ]
    }

    /// The letters of a name, in lower case.
    private static func word(_ name: String) -> String {
        String(String.UnicodeScalarView(name.lowercased().unicodeScalars.filter(\.properties.isAlphabetic)))
            .replacing("odata", with: "")
    }

    private mutating func note(_ meaning: Meaning?, _ name: String, _ value: String, isGiven: Bool) {
        switch meaning {
        case .next where isGiven: sign = sign ?? "\(name) is \(value.count > 100 ? value.prefix(100) + "…" : value)"
        case .more where value == "true": sign = sign ?? "\(name) is true"
        case .last where value == "false", .pages where value == "false": sign = sign ?? "\(name) is false"
        case .pages: if let number = Int(value) { pageCounts.append((name, number)) }
        case .total: if let number = Int(value) { recordCounts.append((name, number)) }
        default: break
        }
    }

    private mutating func note(_ meaning: Meaning?, _ name: String, _ value: JSONValue) {
        guard meaning != nil else { return }
        note(meaning, name, String(decoding: value.bytes, as: UTF8.self), isGiven: Self.isGiven(value))
    }

    private static func isGiven(_ value: JSONValue) -> Bool {
        switch value.kind {
        case .null, .false: false
        case .string: !value.bytes.isEmpty
        case .object: value.members.contains { isGiven($0.value) }
        case .array: value.elements.contains { isGiven($0) }
        case .true: true
        // No page follows with the number 0, or −1.
        case .number: (value.double ?? 1) > 0
        }
    }

    // MARK: - Objects

    /// Parts of the names of objects that describe a page, such as `_links`, `pageInfo` or `response_metadata`.
    private static let describing = ["link", "meta", "pag", "cursor", "info"]
    private static let deepest = 5

    private mutating func look(into object: JSONValue, _ path: [String], _ root: ArraySlice<String>?) {
        for (key, value) in object.members {
            let name = key.string ?? ""
            let place = path + [name]
            let isOnWay = root?.first == name
            // The records, or each member is one.
            if root?.first == "*" || isOnWay && root?.count == 1 { continue }
            let text = "\"\(place.joined(separator: "."))\""
            note(Meaning(name), text, value)
            if name == "total" || name == "count", let number = value["value"] { note(.total, text, number) }
            if value.kind == .array, name.hasPrefix("link") {
                for link in value.elements where Self.isNext(link) { sign = sign ?? "\(text) has a link \"next\"" }
            }
            let word = Self.word(name)
            guard path.count < Self.deepest, isOnWay || Self.describing.contains(where: word.contains) else { continue }
            look(into: value, place, root.map { isOnWay ? $0.dropFirst() : [] })
        }
    }

    private static func isNext(_ link: JSONValue) -> Bool {
        ["rel", "relation"].contains { link[$0]?.string?.lowercased() == "next" }
    }
}

extension UnnamedFile {
    /// The first value of JSON, which is what is around the records of a page.
    package func firstValue(maximumBytes: Int) throws(PageError) -> JSONDocument {
        do throws(InputFault) {
            guard let value = try InputBeginning.firstValue(file: path, maximumBytes: maximumBytes) else {
                throw InputFault(reason: "it is empty", place: nil)
            }
            return try value.parsed()
        } catch {
            throw PageError("this is no JSON document: \(error.text)")
        }
    }
}
