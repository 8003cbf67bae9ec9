internal import BrokerJSON

extension JSONValue {
    /// Returns a string member of an object; nil when it is missing.
    func optionalString(_ key: String, in path: String) throws(WireError) -> String? {
        guard let value = self[key] else { return nil }
        guard let string = value.string else { throw value.isNo("a string", at: "\(path)/\(key)") }
        return string
    }

    /// Whether the value is a string of exactly these bytes. External text is never compared as `String`, which
    /// normalises it: that takes quadratic time in a run of combining marks, and treats different texts as equal.
    func isText(_ text: String) -> Bool {
        guard kind == .string else { return false }
        var text = text
        return text.withUTF8 { hasBytes($0) }
    }

    func optionalBool(_ key: String) throws(WireError) -> Bool? {
        guard let value = self[key] else { return nil }
        guard let bool = value.bool else { throw value.isNo("true or false", at: "/\(key)") }
        return bool
    }

    /// Returns a member that is one of some words; nil when it is missing.
    func optionalWord<Word>(
        _ key: String, _: Word.Type
    ) throws(WireError) -> Word? where Word: RawRepresentable<String> & CaseIterable {
        guard let value = self[key] else { return nil }
        guard value.kind == .string else { throw value.isNo("a string", at: "/\(key)") }
        guard let word = Word.allCases.first(where: { value.isText($0.rawValue) }) else {
            throw WireError(
                .unsupportedMessage,
                "`\(key)` cannot be \(value.quotedBriefly); the words are \(Word.allCases.map(\.rawValue).listed).",
                path: "/\(key)")
        }
        return word
    }

    /// Returns a member that is an array of strings; an empty array when it is missing.
    func optionalStrings(_ key: String, of what: String) throws(WireError) -> [String] {
        guard let list = self[key] else { return [] }
        guard list.kind == .array else { throw list.isNo("an array of \(what)", at: "/\(key)") }
        var strings: [String] = []
        for element in list.elements {
            guard let string = element.string else {
                throw WireError(
                    .unsupportedMessage, "`\(key)` is an array of \(what), and \(element.kind.phrase) is none.",
                    path: "/\(key)/\(strings.count)")
            }
            strings.append(string)
        }
        return strings
    }

    /// Returns a member that is a whole number from 0; nil when it is missing.
    func optionalCount(_ key: String) throws(WireError) -> Int? {
        guard let value = self[key] else { return nil }
        guard value.kind == .number else { throw value.isNo("a whole number", at: "/\(key)") }
        guard let number = value.wholeNumber, number >= 0 else {
            let text = String(decoding: value.bytes.prefix(20), as: UTF8.self)
            throw WireError(
                .unsupportedMessage, "`\(key)` is a whole number from 0, not \(text).", path: "/\(key)")
        }
        return Int(number)
    }

    /// The error for a field of the wrong kind.
    func isNo(_ expected: String, at path: String) -> WireError {
        let name = path.split(separator: "/").last.map { "`\($0)`" } ?? "It"
        return WireError(.unsupportedMessage, "\(name) must be \(expected), not \(kind.phrase).", path: path)
    }
}

extension [String] {
    /// In backquotes, separated by commas, with "and" before the last.
    package var listed: String {
        let words = map { "`\($0)`" }
        guard words.count > 1, let last = words.last else { return words.joined() }
        return words.dropLast().joined(separator: ", ") + " and " + last
    }
}
