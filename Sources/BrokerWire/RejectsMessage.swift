package import BrokerJSON

/// A request for rejected records that are kept, or for their deletion.
package struct RejectsMessage: Sendable, Equatable {
    package static let limits = 1...1_000
    package static let defaultLimit = 100
    package static let mostIDs = 1_000

    /// Nil for all; not empty.
    package var ids: [Int64]?
    /// Deletes them.
    package var drops = false
    /// Only up to that one: for a deletion without ``ids``.
    package var through: Int64?
    /// Only older ones than that one.
    package var before: Int64?
    package var entity: String?
    package var job: String?
    package var limit = defaultLimit
    /// The answer has the records.
    package var wantsRequests = false

    package init() {}

    package init(dropping ids: [Int64]) { (self.ids, drops) = (ids, true) }

    package init(droppingThrough id: Int64) { (through, drops) = (id, true) }

    /// Writes the members of the message.
    package func write(to writer: inout JSONWriter) {
        if let ids { writer.array("ids", of: ids) { $1.integer($0) } }
        if drops {
            writer.member("drop", true)
            if let through { writer.member("through", through) }
            return
        }
        if let before { writer.member("before", before) }
        writer.member("entity", entity)
        writer.member("job", job)
        writer.member("limit", limit)
        writer.member("requests", wantsRequests)
    }

    init(_ root: JSONValue) throws(WireError) {
        ids = try Self.ids(root)
        drops = try root.optionalBool("drop") ?? false
        through = try root.optionalCount("through").map { Int64($0) }
        if drops, (ids == nil) == (through == nil) {
            throw .unsupported("A `drop` needs either `ids`, or `through` for all up to that one.", at: "/ids")
        }
        before = try root.optionalCount("before").map { Int64($0) }
        entity = try root.optionalString("entity", in: "")
        job = try root.optionalString("job", in: "")
        wantsRequests = try root.optionalBool("requests") ?? false
        limit = try root.limit(Self.limits, of: "rejects") ?? Self.defaultLimit
    }

    private static func ids(_ root: JSONValue) throws(WireError) -> [Int64]? {
        guard let list = root["ids"] else { return nil }
        guard list.kind == .array else { throw list.mismatch("an array of numbers", at: "/ids") }
        var ids: [Int64] = []
        for element in list.elements {
            guard let id = element.wholeNumber, ids.count < mostIDs else {
                throw .unsupported(
                    "`ids` has 1 to \(mostIDs) numbers of rejected records.", at: "/ids/\(ids.count)")
            }
            ids.append(id)
        }
        guard !ids.isEmpty else {
            throw .unsupported("`ids` has 1 to \(mostIDs) numbers of rejected records.", at: "/ids")
        }
        return ids
    }
}
