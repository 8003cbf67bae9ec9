package import BrokerInput
package import BrokerJSON
internal import Foundation

/// The signs of further pages in one that has no link to the next: fields of its response, and members of the objects around
/// its records.
package struct FurtherPages {
    /// A sign, whatever was read.
    private var sign: String?
    private var pageCounts: [(text: String, count: Int)] = []
    private var recordCounts: [(text: String, count: Int)] = []
    /// What the same places say of the next page.
    package private(set) var guess = PageGuess()

    /// - Parameter root: the keys that lead to the records; nil where mappings find them.
    package init(_ page: Page, _ envelope: JSONDocument?, root: [String]?) {
        if case .unreadable(let field) = page.link { sign = "its Link header cannot be read (\(field.prefix(200)))" }
        if case .next(let url) = page.link { sign = "its Link header names \(url.absoluteString)" }
        for (name, value) in page.fields {
            if name == "content-range" {
                note(.total, "Content-Range", String(value.split(separator: "/").last ?? ""), isGiven: true)
                if page.isPartial { guess.note(range: value) }
            } else if name.hasPrefix("x-") || name.hasPrefix("pagination-") {
                let words = name.split(separator: "-").filter { !["x", "wp", "pagination"].contains($0) }
                let word = words.joined()
                let meaning = Meaning(word)
                guess.note(field: words.joined(separator: "_"), value)
                // Frameworks have fields like X-NextJS-Cache.
                if meaning != .next || Self.nextFields.contains(word) {
                    note(meaning, name, value, isGiven: !["", "null", "false"].contains(value))
                }
            }
        }
        guard let envelope else { return }
        look(into: envelope.root, [], root?[...])
        // `[{"page": 1, "pages": 3}, [records]]`
        if envelope.root.kind == .array, root?.first.flatMap({ Int($0) }) != nil {
            for element in envelope.root.elements { look(into: element, [], []) }
        }
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

    /// Its end is known, by what it says or by a count.
    var saysEnd: Bool { guess.saysEnd || !pageCounts.isEmpty || !recordCounts.isEmpty }

    private static let nextFields = [
        "next", "nextpage", "nexturl", "nextlink", "nextcursor", "nextpagetoken", "nexttoken",
    ]

    // MARK: - Values

    /// The meaning of a member or field, by its name.
    enum Meaning {
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
    static func word(_ name: String) -> String {
        String(String.UnicodeScalarView(name.lowercased().unicodeScalars.filter(\.properties.isAlphabetic)))
            .replacing("odata", with: "")
    }

    private mutating func note(_ meaning: Meaning?, _ name: String, _ value: String, isGiven: Bool) {
        if let meaning { guess.note(meaning, name, value) }
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
            guess.note(name, value, isAroundRecords: root != [] || path.isEmpty)
            if name == "total" || name == "count", let number = value["value"] { note(.total, text, number) }
            if value.kind == .array, name.hasPrefix("link") {
                for link in value.elements where Self.isNext(link) {
                    sign = sign ?? "\(text) has a link \"next\""
                    guess.note("next", link, isAroundRecords: false)
                }
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
