internal import BrokerJSON

extension JobMessage.Bookmark {
    private static let field = "bookmark"

    /// Reads `bookmark`; nil when it is missing.
    init?(in root: JSONValue) throws(WireError) {
        guard let bookmark = root[Self.field] else { return nil }
        let path = "/\(Self.field)"
        guard bookmark.kind == .object else { throw bookmark.isNo("an object with `name` and `value`", at: path) }
        name = try Self.name(in: bookmark, at: path)
        guard let value = bookmark["value"] else {
            throw WireError(
                .unsupportedMessage, "A `bookmark` needs a `value`: a string, or null to delete it.",
                path: "\(path)/value")
        }
        guard value.kind != .null else {
            self.value = nil
            return
        }
        guard value.kind == .string else { throw value.isNo("a string or null", at: "\(path)/value") }
        guard Self.valueCounts.contains(value.bytes.count) else {
            throw WireError(
                .unsupportedMessage,
                """
                The `value` of a bookmark has at most \(Self.valueCounts.upperBound.grouped) bytes; this one has \
                \(value.bytes.count.grouped).
                """, path: "\(path)/value")
        }
        self.value = value.string
    }

    /// The `name` of the bookmark that an object means.
    static func name(in object: JSONValue, at path: String) throws(WireError) -> String {
        guard let name = object["name"] else {
            throw WireError(.unsupportedMessage, "A `bookmark` needs a `name`.", path: "\(path)/name")
        }
        guard let text = name.string else { throw name.isNo("a string", at: "\(path)/name") }
        guard nameCounts.contains(text.utf8.count) else {
            throw WireError(
                .unsupportedMessage,
                """
                The `name` of a bookmark has \(nameCounts.lowerBound) to \(nameCounts.upperBound.grouped) bytes; this \
                one has \(text.utf8.count.grouped).
                """, path: "\(path)/name")
        }
        return text
    }

    func write(to writer: inout JSONWriter) {
        writer.key(Self.field)
        writer.object { writer in
            writer.member("name", name)
            writer.member("value", orNull: value)
        }
    }
}

extension JSONWriter {
    /// Writes a string, or null.
    mutating func member(_ key: String, orNull value: String?) {
        self.key(key)
        if let value { string(value) } else { null() }
    }
}
