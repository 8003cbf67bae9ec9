internal import BrokerJSON

extension JSONValue {
    /// A string member of an object; nil when it is not there.
    func optionalString(_ key: String, in path: String) throws(WireError) -> String? {
        guard let value = self[key] else { return nil }
        guard let string = value.string else { throw value.isNo("a string", at: "\(path)/\(key)") }
        return string
    }

    func optionalBool(_ key: String) throws(WireError) -> Bool? {
        guard let value = self[key] else { return nil }
        guard let bool = value.bool else { throw value.isNo("true or false", at: "/\(key)") }
        return bool
    }

    /// A member that is one of some words; nil when it is not there.
    func optionalWord<Word>(
        _ key: String, _: Word.Type
    ) throws(WireError) -> Word? where Word: RawRepresentable<String> & CaseIterable {
        guard let text = try optionalString(key, in: "") else { return nil }
        guard let word = Word(rawValue: text) else {
            throw WireError(
                .unsupportedMessage,
                "`\(key)` cannot be \(text.quotedBriefly); the words are \(Word.allCases.map(\.rawValue).listed).",
                path: "/\(key)")
        }
        return word
    }

    /// The error for a field of another kind than it must be.
    func isNo(_ expected: String, at path: String) -> WireError {
        let name = path.split(separator: "/").last.map { "`\($0)`" } ?? "It"
        return WireError(.unsupportedMessage, "\(name) must be \(expected), not \(kind.phrase).", path: path)
    }
}

extension String {
    /// In quotes and no longer than an error message bears: what was sent may be megabytes.
    var quotedBriefly: String {
        guard utf8.count > 64 else { return "\"\(self)\"" }
        return "\"\(String(String.UnicodeScalarView(unicodeScalars.prefix(64))))…\""
    }
}

extension [String] {
    /// In backquotes, with commas and a last "and".
    var listed: String {
        let words = map { "`\($0)`" }
        guard words.count > 1, let last = words.last else { return words.joined() }
        return words.dropLast().joined(separator: ", ") + " and " + last
    }
}
