package import BrokerInput
package import BrokerJSON
internal import Foundation

/// How the next page is found.
package enum PageRule: Hashable, Sendable {
    /// By what the page itself says: its field `Link`, or members around its records.
    case found
    /// By its field `Link` alone.
    case link
    /// The URL at this key path.
    case url(KeyPath)
    /// The value at this key path is that of the parameter.
    case cursor(parameter: String, KeyPath)
    /// The value at this key path of the last record is that of the parameter.
    case lastRecord(parameter: String, KeyPath)
    /// The parameter counts pages, until one has no records.
    case page(parameter: String)
    /// The parameter counts records, until a page has none.
    case offset(parameter: String)

    /// Keys with dots between them, or a JSON Pointer.
    package struct KeyPath: Hashable, Sendable {
        let keys: [String]

        package init(_ text: String) { keys = RecordRoot(text)?.tokens ?? [text] }

        func value(in root: JSONValue) -> JSONValue? {
            keys.reduce(Optional(root)) { value, key in
                guard let value else { return nil }
                guard value.kind == .array, let index = Int(key), index >= 0 else { return value[key] }
                return value.elements.dropFirst(index).first { _ in true }
            }
        }
    }

    /// What is around the records must be known.
    package var needsEnvelope: Bool {
        switch self {
        case .url, .cursor: true
        default: false
        }
    }

    /// The request for the next page.
    package struct Next: Hashable, Sendable {
        package let request: PageRequest
        /// The parameter that the server must read; nil where the page names the whole URL.
        package let parameter: String?
        /// The server may answer 404 after the last page.
        package var isCounted = false

        package init(_ request: PageRequest, parameter: String? = nil, isCounted: Bool = false) {
            (self.request, self.parameter, self.isCounted) = (request, parameter, isCounted)
        }

        /// The same request with another number, after which there may be no page.
        init(_ request: PageRequest, counting parameter: String, to number: Int) {
            self.init(
                request.setting([(parameter, PageRequest.Value(number))]), parameter: parameter, isCounted: true)
        }
    }

    /// A page, as far as the next one depends on it.
    package struct Answer {
        let request: PageRequest
        let page: Page
        let envelope: JSONDocument?
        package let further: FurtherPages
        /// Its records.
        package var count = 0
        package var last: InputRecord?
        /// The records of the chain up to its end; nil when that is not known.
        package var total: Int?

        package init(_ request: PageRequest, _ page: Page, _ envelope: JSONDocument?, _ further: FurtherPages) {
            (self.request, self.page, self.envelope, self.further) = (request, page, envelope, further)
        }

        /// The sign of another page that a page has which is as long as its request allows, where nothing says that it is the last.
        package var fullSign: String? {
            guard count > 0, page.fields["link"] == nil, !further.saysEnd else { return nil }
            let limit = request.parameters.first {
                ["limit", "perpage", "pagesize", "size", "maxresults", "top", "rows"].contains(FurtherPages.word($0))
                    && request.value(of: $0) == "\(count)"
            }
            return limit.map { "it has as many records as \($0) allows" }
        }

        /// A value of the last record; nil when there is none.
        func lastValue(at path: KeyPath) -> PageRequest.Value? {
            try? last?.parsed().withRoot { path.value(in: $0).flatMap(PageRequest.Value.init) }
        }
    }

    /// - Returns: nil after the last page.
    package func next(after answer: Answer) throws(PageError) -> Next? {
        let (request, guess) = (answer.request, answer.further.guess)
        func setting(_ parameter: String, _ value: PageRequest.Value) -> Next {
            Next(request.setting([(parameter, value)]), parameter: parameter)
        }
        switch self {
        case .found, .link:
            if case .next(let url) = answer.page.link { return Next(PageRequest(url, body: request.body)) }
            return self == .link ? nil : guess.next(after: answer)
        case .url(let path):
            guard let text = try Self.value(at: path, "--next", in: answer)?.text else { return nil }
            guard let url = URL(string: text, relativeTo: answer.page.url)?.absoluteURL,
                (try? PageClient.check(url)) != nil
            else {
                throw PageError(
                    "--next leads to \"\(text.prefix(100))\" in \(request), which is no URL; --cursor NAME=PATH takes a "
                        + "cursor.")
            }
            return Next(PageRequest(url, body: request.body))
        case .cursor(let parameter, let path):
            guard guess.hasMore != false, let value = try Self.value(at: path, "--cursor", in: answer) else {
                return nil
            }
            return setting(parameter, value)
        case .lastRecord(let parameter, let path):
            guard guess.hasMore != false, answer.count > 0 else { return nil }
            guard let value = answer.lastValue(at: path) else {
                throw PageError("The last record of \(request) has no value at the path of --cursor.")
            }
            return setting(parameter, value)
        case .page(let parameter):
            guard guess.hasMore != false, answer.count > 0 else { return nil }
            guard let number = request.value(of: parameter).flatMap({ Int($0) }) else {
                throw PageError("\(request) has no number \(parameter), by which --page-parameter counts.")
            }
            return Next(request, counting: parameter, to: number + 1)
        case .offset(let parameter):
            guard guess.hasMore != false, answer.count > 0 else { return nil }
            let number = request.value(of: parameter).flatMap { Int($0) } ?? 0
            return Next(request, counting: parameter, to: number + answer.count)
        }
    }

    private static func value(
        at path: KeyPath, _ option: String, in answer: Answer
    ) throws(PageError) -> PageRequest.Value? {
        guard let envelope = answer.envelope else { return nil }
        defer { withExtendedLifetime(envelope) {} }
        guard let value = path.value(in: envelope.root) else { return nil }
        guard value.kind != .object, value.kind != .array || answer.request.body != nil else {
            throw PageError(
                "\(option) leads to an object or an array in \(answer.request); give the path of a URL or a cursor.")
        }
        return PageRequest.Value(value)
    }
}

/// What a page says of the next one in the fields of its response and in the objects around its records: a URL, a cursor, or
/// numbers, by names that many APIs have.
package struct PageGuess {
    private var target: String?
    /// The parameters of the next request.
    private var cursors: [(name: String, value: PageRequest.Value)] = []
    /// It is for the next request where more follows; else it may be that of this one.
    private var cursor: (name: String, value: PageRequest.Value)?
    private var page: (name: String, number: Int)?
    /// It is that of a page where there are counts of pages, too.
    private var number: Int?
    private var offset: (name: String, number: Int)?
    private var pages: Int?
    private var total: Int?
    private(set) var hasMore: Bool?
    /// The place of the next page is there, and empty.
    private var isLast = false

    /// The page says that no other follows.
    var saysEnd: Bool { hasMore == false || isLast }

    // MARK: - What is found

    mutating func note(_ meaning: FurtherPages.Meaning, _ name: String, _ value: String) {
        switch meaning {
        case .more where ["true", "false"].contains(value): hasMore = hasMore == true || value == "true"
        case .last where ["true", "false"].contains(value): hasMore = hasMore == true || value == "false"
        case .pages: pages = pages ?? Int(value)
        // A `count` may be that of the page.
        case .total where FurtherPages.word(name).contains("total"): total = total ?? Int(value)
        default: break
        }
    }

    /// The field `Content-Range` of a part of a list: `0-9/57`, or `items 0-9/57`.
    mutating func note(range: String) {
        let parts = (range.split(separator: " ").last ?? "").split(separator: "/")
        guard parts.count == 2, let first = parts[0].split(separator: "-").first.flatMap({ Int($0) }) else { return }
        (offset, total) = (("offset", first), Int(parts[1]))
    }

    /// A field of the response, without `X-`.
    mutating func note(field name: String, _ value: String) {
        switch FurtherPages.word(name) {
        case "nextpage", "nextcursor", "nextpagetoken", "nexttoken", "nextoffset":
            noteNext(name, value.isEmpty || value == "null" ? nil : PageRequest.Value(value))
        case let word where Self.pageNames.contains(word):
            if let number = Int(value) { page = page ?? (Self.pageParameter(name), number) }
        default: break
        }
    }

    /// - Parameter isAroundRecords: the object of the member leads to the records, and is none that describes the page.
    mutating func note(_ name: String, _ value: JSONValue, isAroundRecords: Bool) {
        let word = FurtherPages.word(name)
        let text = String(decoding: value.bytes, as: UTF8.self)
        switch word {
        case "next" where value.kind == .object, "continue" where value.kind == .object: noteObject(value)
        // The token of a later synchronization is on the last page.
        case _ where word.hasPrefix("next") && !word.hasPrefix("nextsync"):
            guard value.kind != .true, value.kind != .object, value.kind != .array else { return }
            let isNone = value.kind == .number && (value.double ?? 1) <= 0
            noteNext(name, isNone ? nil : PageRequest.Value(value))
        case "after" where isAroundRecords && value.kind == .string, "continuation" where value.kind == .string,
            "continuationtoken" where value.kind == .string,
            "offset" where value.kind == .string && Int(text) == nil:
            if let value = PageRequest.Value(value), cursors.isEmpty { cursors = [(name, value)] }
        case "cursor" where value.kind == .string: cursor = cursor ?? PageRequest.Value(value).map { (name, $0) }
        case "number": number = number ?? Int(text)
        case _ where Self.pageNames.contains(word):
            if let number = Int(text) { page = page ?? (Self.pageParameter(name), number) }
        case _ where Self.offsetNames.contains(word):
            if let number = Int(text) { offset = offset ?? (name, number) }
        default: break
        }
    }

    private mutating func noteObject(_ value: JSONValue) {
        if let link = ["href", "url", "link", "uri"].lazy.compactMap({ value[$0]?.string }).first {
            target = target ?? link
            return
        }
        var found: [(name: String, value: PageRequest.Value)] = []
        for (key, member) in value.members where ![.object, .array].contains(member.kind) {
            if let value = PageRequest.Value(member) { found.append((key.string ?? "", value)) }
        }
        if found.isEmpty { isLast = true } else if cursors.isEmpty { cursors = found }
    }

    private mutating func noteNext(_ name: String, _ value: PageRequest.Value?) {
        guard let value else {
            isLast = true
            return
        }
        let rest = FurtherPages.word(name).dropFirst("next".count)
        // `next_page_url`, `nextRecordsUrl`
        let isURL = ["url", "uri", "link", "href"].contains(where: rest.hasSuffix)
        let mayBeURL = ["", "path", "page"].contains(rest)
        if isURL || mayBeURL && ["http://", "https://", "/", "?"].contains(where: value.text.hasPrefix) {
            target = target ?? value.text
        } else if !rest.isEmpty, cursors.isEmpty {
            let name = rest == "token" ? name : String(name.dropFirst("next".count).drop { !$0.isLetter })
            cursors = [(name.prefix(1).lowercased() + name.dropFirst(), value)]
        }
    }

    private static let pageNames: Set<String> = [
        "page", "currentpage", "pagenumber", "pageno", "pageindex", "pagenum", "pagecurrent",
    ]
    private static let offsetNames: Set<String> = ["offset", "skip", "start", "startat", "startindex", "from"]

    private static func pageParameter(_ name: String) -> String {
        FurtherPages.word(name).contains("current") ? "page" : name
    }

    // MARK: - The next page

    func next(after answer: PageRule.Answer) -> PageRule.Next? {
        let request = answer.request
        if let target {
            guard let url = URL(string: target, relativeTo: answer.page.url)?.absoluteURL,
                (try? PageClient.check(url)) != nil
            else { return nil }
            return PageRule.Next(PageRequest(url, body: request.body))
        }
        guard hasMore != false else { return nil }
        let cursors = self.cursors.isEmpty && hasMore == true ? cursor.map { [$0] } ?? [] : self.cursors
        if !cursors.isEmpty {
            let items = cursors.map { (Self.parameter(named: $0.name, in: request), $0.value) }
            return PageRule.Next(request.setting(items), parameter: items.map(\.0).joined(separator: ", "))
        }
        guard !isLast else { return nil }
        if let next = nextPage(after: answer) ?? nextOffset(after: answer) { return next }
        guard hasMore == true, page == nil, offset == nil, answer.count > 0,
            let id = answer.lastValue(at: PageRule.KeyPath("id"))
        else { return nil }
        return PageRule.Next(request.setting([("starting_after", id)]), parameter: "starting_after")
    }

    /// Something tells how long the list is, so that a number in the request counts.
    private var hasEnd: Bool { pages != nil || total != nil || hasMore == true }

    private func nextPage(after answer: PageRule.Answer) -> PageRule.Next? {
        let request = answer.request
        let given = Self.item(Self.pageNames.union(["p", "paged", "pg"]), of: request)
        let found = page ?? (pages == nil ? nil : number.map { ("page", $0) }) ?? (hasEnd ? given : nil)
        guard let found else { return nil }
        let isAll = total.flatMap { total in answer.total.map { $0 >= total } } ?? false
        guard pages.map({ found.number < $0 }) ?? (answer.count > 0 && !isAll) else { return nil }
        let parameter = given ?? found
        return PageRule.Next(request, counting: parameter.name, to: parameter.number + 1)
    }

    private func nextOffset(after answer: PageRule.Answer) -> PageRule.Next? {
        let request = answer.request
        let given = Self.item(Self.offsetNames, of: request)
        guard let found = offset ?? (hasEnd ? given : nil), answer.count > 0 else { return nil }
        let parameter = given ?? found
        guard total.map({ found.number + answer.count < $0 }) ?? true else { return nil }
        return PageRule.Next(request, counting: parameter.name, to: parameter.number + answer.count)
    }

    /// The parameter of a request that has a number under one of these names.
    private static func item(_ words: Set<String>, of request: PageRequest) -> (name: String, number: Int)? {
        request.parameters.lazy.filter { words.contains(FurtherPages.word($0)) }
            .compactMap { name in request.value(of: name).flatMap { Int($0) }.map { (name, $0) } }.first
    }

    /// The name as the request has it, such as `pageToken` for `page_token`.
    private static func parameter(named name: String, in request: PageRequest) -> String {
        request.parameters.first { FurtherPages.word($0) == FurtherPages.word(name) } ?? name
    }
}
