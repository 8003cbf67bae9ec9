package import BrokerJSON
package import BrokerModel

/// The position of the records in the values of an input, as far as the first values show it.
package struct SampleRoot {
    /// Keys from the value downwards, through arrays.
    private let keys: [String]
    /// The object there holds the records by their keys.
    package let isMap: Bool

    /// A key in each element of the list that `keys` lead to.
    private let wrapper: [String]

    /// Other lists of objects in the value, which are not read.
    package private(set) var others: [String] = []

    /// For `--root`: a JSON Pointer, or keys with dots, which lead through arrays; a map ends in `*`.
    package var text: String {
        guard wrapper.isEmpty else { return (keys + wrapper).joined(separator: ".") }
        return (keys + (isMap ? ["*"] : [])).map { "/" + $0.asPointerToken }.joined()
    }

    /// Keys of APIs that hold the records of a page.
    private static let envelopes: Set<String> = [
        "items", "results", "data", "records", "rows", "hits", "entries", "features", "edges", "children", "value",
        "values", "list", "objects", "elements", "content", "docs", "documents", "@graph", "resources", "nodes",
        "members",
    ]
    /// Elements of XML that are records, also where there is one.
    private static let elements: Set<String> = ["item", "entry", "record", "row"]
    private static let deepest = 4
    /// Keys of an object that may be an envelope.
    private static let mostKeys = 60

    private struct Candidate {
        let keys: [String]
        let isMap: Bool
        let count: Int
        /// The last key says the entity's name.
        let isNamed: Bool

        /// The larger one is preferred, and of two the one that is less deep.
        static func isLess(_ one: Candidate, _ other: Candidate) -> Bool {
            (one.count, -one.keys.count) < (other.count, -other.keys.count)
        }
    }

    /// Nil when the values are the records themselves.
    ///
    /// - Parameters:
    ///   - value: the first value of the input.
    ///   - isOnly: the input has no other.
    ///   - second: the value after it.
    ///   - isXML: a list of one element is that element.
    ///   - entity: the records' entity: `statuses` holds those of `Status`.
    ///   - model: the model that has the entity perhaps; its records are known by their keys.
    package init?(
        in value: JSONValue, isOnly: Bool, second: JSONValue? = nil, isXML: Bool = false, entity: String,
        model: Model? = nil
    ) {
        guard value.kind == .object else { return nil }
        // JSON-RPC 2.0. An error has no result, which the reader reports.
        if value["jsonrpc"]?.kind == .string, value["id"] != nil {
            let inner = value["result"].flatMap {
                SampleRoot(
                    in: $0, isOnly: isOnly || second?["jsonrpc"] != nil, isXML: isXML, entity: entity, model: model)
            }
            self = inner?.below("result") ?? SampleRoot(keys: ["result"], isMap: false)
            return
        }
        let isOnly = isOnly || second.map { Self.arePages(value, $0, entity) } ?? false
        let known = model.map(KnownModel.init)
        let index = model?.index(ofEntity: entity)
        let expectsMap = index.flatMap { known?.keyMapping(of: $0) } != nil
        var found = Self.found(in: value, isOnly, isXML, entity, expectsMap: false)
        if expectsMap {
            found = found ?? Self.found(in: value, isOnly, isXML, entity, expectsMap: true)
        } else if let known, let index {
            let isRecord = { (object: JSONValue) in known.isRecord(Self.keys(of: object), of: index) }
            // A list that the entity's own objects have is no envelope of them.
            let isEnvelope = found?.keys.first.map { known.part(at: [$0], of: index) == nil } ?? false
            if !isEnvelope || !(found?.firstRecord(in: value).map(isRecord) ?? true) {
                if isRecord(value) { return nil }
                if let keys = Self.knownRoot(in: value, [], isRecord) {
                    found = SampleRoot(keys: keys, isMap: false, wrapper: Self.wrapper(of: keys, in: value))
                }
            }
        }
        guard let found else { return nil }
        self = found
    }

    /// The first object at the position; nil for an empty list.
    private func firstRecord(in value: JSONValue) -> JSONValue? {
        let list = keys.reduce(Optional(value)) { $0?[$1] }
        let first = list?.kind == .array ? list?.elements.first { _ in true } : list
        return wrapper.reduce(first) { $0?[$1] }
    }

    private func below(_ key: String) -> SampleRoot {
        var root = SampleRoot(keys: [key] + keys, isMap: isMap, wrapper: wrapper)
        root.others = others.map { "/\(key)\($0)" }
        return root
    }

    /// Two values are pages of one list: it is in both at the same place, under a key for lists, and all else in them is about
    /// pages, or the same in both.
    private static func arePages(_ first: JSONValue, _ second: JSONValue, _ entity: String) -> Bool {
        guard let root = found(in: first, true, false, entity, expectsMap: false), !root.isMap,
            let key = root.keys.first, envelopes.contains(root.keys[root.keys.count - 1]),
            found(in: second, true, false, entity, expectsMap: false)?.text == root.text
        else { return false }
        return first.members.allSatisfy { name, value in
            let name = name.string ?? ""
            return name == key || pageWords.contains(EntityName.words(name))
                || second[name].map { $0.jsonText.elementsEqual(value.jsonText) } ?? false
        }
    }

    private static let pageWords: Set<String> = [
        "count", "cursor", "has_more", "has_next", "limit", "links", "_links", "meta", "next", "next_cursor",
        "next_page",
        "offset", "page", "page_size", "pages", "pagination", "paging", "per_page", "previous", "prev", "self", "size",
        "skip", "start", "success", "ok", "status", "total", "total_count", "total_pages",
    ]

    private static func found(
        in value: JSONValue, _ isOnly: Bool, _ isXML: Bool, _ entity: String, expectsMap: Bool
    ) -> SampleRoot? {
        if isOnly, isMap(value) || expectsMap && holdsObjects(value) { return SampleRoot(keys: [], isMap: true) }
        var candidates: [Candidate] = []
        find(in: value, [], entity, expectsMap, isXML, &candidates)
        let named = candidates.filter(\.isNamed).min { ($0.keys.count, -$0.count) < ($1.keys.count, -$1.count) }
        if let named { return SampleRoot(named, in: value) }
        guard !isRecord(value, entity), isOnly else { return nil }
        if let key = onlyElement(of: value, entity) { return SampleRoot(keys: [key], isMap: false) }
        if hasName(value) { candidates.removeAll { $0.keys.count > 1 || !envelopes.contains($0.keys[0]) } }
        // Beside a list far below, an object with much of its own is a record.
        if ownKeys(of: value) > recordKeys { candidates.removeAll { $0.keys.count > 1 } }
        let enveloped = candidates.filter {
            let key = $0.keys[$0.keys.count - 1]
            return envelopes.contains(key) || isXML && elements.contains(key)
        }
        if let best = enveloped.max(by: Candidate.isLess) { return SampleRoot(best, in: value) }
        // The only list of an object that is no record, or one with nearly all objects.
        let all = candidates.reduce(0) { $0 + $1.count }
        guard let largest = candidates.max(by: Candidate.isLess),
            largest.count > 1 || value.members.dropFirst().first(where: { _ in true }) == nil,
            Double(largest.count) >= leastShare * Double(all)
        else { return nil }
        var root = SampleRoot(largest, in: value)
        root.others = candidates.filter { $0.keys != largest.keys }.map {
            "/" + $0.keys.map(\.asPointerToken).joined(separator: "/")
        }
        return root
    }

    private static let leastShare = 0.6

    private init(keys: [String], isMap: Bool, wrapper: [String] = []) {
        (self.keys, self.isMap, self.wrapper) = (keys, isMap, wrapper)
    }

    private init(_ candidate: Candidate, in value: JSONValue) {
        let wrapper = candidate.isMap ? [] : Self.wrapper(of: candidate.keys, in: value)
        self.init(keys: candidate.keys, isMap: candidate.isMap, wrapper: wrapper)
    }

    private static func keys(of value: JSONValue) -> [String] {
        value.members.prefix(mostKeys).map { $0.key.string ?? "" }
    }

    /// Where records of an entity are that the model has: in a list, or alone, as in a page with one.
    private static func knownRoot(
        in value: JSONValue, _ path: [String], _ isRecord: (JSONValue) -> Bool
    ) -> [String]? {
        guard path.count < deepest else { return nil }
        var inner: [[String]] = []
        for (key, member) in value.members.prefix(mostKeys) {
            guard let key = key.string, !key.isEmpty else { continue }
            let isFound =
                switch member.kind {
                case .object: isRecord(member)
                case .array:
                    member.elements.first { _ in true }.map { element in
                        let wrapped = element["node"] ?? element["data"]
                        return isRecord(element) || wrapped.map(isRecord) ?? false
                    } ?? false
                default: false
                }
            if isFound { return path + [key] }
            if member.kind == .object, let deeper = knownRoot(in: member, path + [key], isRecord) {
                inner.append(deeper)
            }
        }
        return inner.first
    }

    /// A key that wraps each element of a list: `edges.node`, or the `data` beside a `kind`.
    private static func wrapper(of path: [String], in value: JSONValue) -> [String] {
        guard path.allSatisfy({ !$0.contains(".") && !$0.hasPrefix("/") }) else { return [] }
        let list = path.reduce(Optional(value)) { $0?[$1] }
        guard let first = list?.elements.first(where: { $0.kind == .object }) else { return [] }
        if path.last == "edges", first["node"]?.kind == .object { return ["node"] }
        let keys = Set(first.members.map { $0.key.string ?? "" })
        if keys == ["kind", "data"], first["data"]?.kind == .object { return ["data"] }
        return []
    }

    private static func find(
        in value: JSONValue, _ path: [String], _ entity: String, _ expectsMap: Bool, _ isXML: Bool,
        _ candidates: inout [Candidate]
    ) {
        guard path.count < deepest else { return }
        var count = 0
        for (key, member) in value.members {
            count += 1
            guard count <= mostKeys, let key = key.string, !key.isEmpty else { return }
            let isNamed = isPlural(key, of: entity)
            switch member.kind {
            case .array:
                let elements = member.elements
                // An empty page has its list, too.
                let isEmpty = elements.first { _ in true } == nil
                guard elements.first(where: { !holdsRecords($0) }) == nil,
                    !isEmpty || isNamed || envelopes.contains(key)
                else { continue }
                candidates.append(
                    Candidate(
                        keys: path + [key], isMap: false, count: elements.reduce(0) { n, _ in n + 1 }, isNamed: isNamed)
                )
            case .object where isXML && (elements.contains(key) || isNamed):
                let before = candidates.count
                // A `recording-list` has the recordings in it.
                if isNamed { find(in: member, path + [key], entity, expectsMap, isXML, &candidates) }
                guard !candidates[before...].contains(where: \.isNamed) else { continue }
                candidates.append(Candidate(keys: path + [key], isMap: false, count: 1, isNamed: isNamed))
            case .object:
                if isMap(member) || expectsMap && holdsObjects(member) {
                    let count = member.members.reduce(0) { n, _ in n + 1 }
                    candidates.append(Candidate(keys: path + [key], isMap: true, count: count, isNamed: isNamed))
                } else {
                    find(in: member, path + [key], entity, expectsMap, isXML, &candidates)
                }
            default: break
            }
        }
    }

    /// An object, or an array of objects.
    private static func holdsRecords(_ value: JSONValue) -> Bool {
        value.kind == .object || value.kind == .array && value.elements.first { $0.kind != .object } == nil
    }

    /// `statuses` holds records of Status; `status` and `status_list` do.
    private static func isPlural(_ key: String, of entity: String) -> Bool {
        let (word, stem) = (EntityName.words(key), EntityName.words(entity))
        return EntityName.singular(word) == stem || word == stem || word == stem + "_list" || word == stem + "s"
    }

    /// The value has an identifier of its own.
    private static func isRecord(_ value: JSONValue, _ entity: String) -> Bool {
        value.members.prefix(recordMostKeys).contains { key, member in
            (member.kind == .string || member.kind == .number)
                && IdentityName(key.string ?? "", of: entity) != nil
        }
    }

    /// All its keys hold objects, and there is one.
    private static func holdsObjects(_ value: JSONValue) -> Bool {
        value.members.first { _ in true } != nil && value.members.first { $0.value.kind != .object } == nil
    }

    /// The value has a name and much else, as a record has.
    private static func hasName(_ value: JSONValue) -> Bool {
        let keys = value.members.prefix(mostKeys).map { EntityName.words($0.key.string ?? "") }
        return keys.count >= recordKeys && (keys.contains("name") || keys.contains("title"))
    }

    /// The keys that say nothing about pages.
    private static func ownKeys(of value: JSONValue) -> Int {
        value.members.prefix(mostKeys).reduce(0) { count, member in
            count + (pageWords.contains(EntityName.words(member.key.string ?? "")) ? 0 : 1)
        }
    }

    private static let recordKeys = 6
    /// Keys among which an identifier is looked for.
    private static let recordMostKeys = 300

    /// The only element of an XML document that is a record.
    private static func onlyElement(of value: JSONValue, _ entity: String) -> String? {
        var element: (key: String, value: JSONValue)?
        for (key, member) in value.members {
            let key = key.string ?? ""
            if key.hasPrefix("@"), key != "@graph" { continue }
            guard element == nil, member.kind == .object else { return nil }
            element = (key, member)
        }
        guard let element, value.members.contains(where: { $0.key.string?.hasPrefix("@") ?? false }),
            isRecord(element.value, entity)
        else { return nil }
        return element.key
    }

    /// Its keys are values, and hold objects of one shape.
    private static func isMap(_ value: JSONValue) -> Bool {
        guard holdsObjects(value) else { return false }
        let shape = ObjectShape(depth: 1, isSingle: true)
        shape.observe(value)
        return if case .objects? = shape.map { true } else { false }
    }
}
