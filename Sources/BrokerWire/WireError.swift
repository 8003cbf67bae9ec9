package import Broker
package import BrokerJSON

/// A frame or a message was refused: what happened, where, and the remedy.
package struct WireError: Error, Sendable, Equatable, CustomStringConvertible {
    package var code: BrokerError.Code
    /// What happened and the remedy, in one or two sentences.
    package var message: String
    /// The `id` of the message at fault, when it could be read.
    package var id: String?
    /// The `tag` of the message at fault as JSON text, when it could be read.
    package var tag: [UInt8]?
    /// The position of the frame at fault on its connection, from 1; nil when the error is about the connection.
    package var frame: Int?
    /// JSON Pointer (RFC 6901) into the message.
    package var path: String?
    /// Where the text is not JSON; only for `malformedJSON`.
    package var position: JSONPosition?
    /// The sequence of the committed job that `tooLate` is about.
    package var sequence: Int64?
    /// For `busy`: the time until a retry is worthwhile.
    package var retryAfterMilliseconds: Int?

    package init(_ code: BrokerError.Code, _ message: String, path: String? = nil, position: JSONPosition? = nil) {
        self.code = code
        self.message = message
        self.path = path
        self.position = position
    }

    /// A message, or a field of it, that the protocol does not know.
    package static func unsupported(_ message: String, at path: String? = nil) -> WireError {
        WireError(.unsupportedMessage, message, path: path)
    }

    /// Refuses a text of more or fewer bytes.
    package static func check(
        _ count: Int, in counts: ClosedRange<Int>, of what: String, at path: String
    ) throws(WireError) {
        guard !counts.contains(count) else { return }
        let limits = (counts.lowerBound == 0 ? "at most " : "\(counts.lowerBound) to ") + counts.upperBound.grouped
        throw .unsupported("\(what) has \(limits) bytes; this one has \(count.grouped).", at: path)
    }

    /// The content of a frame is not JSON.
    package init(_ error: JSONError) {
        self.init(
            .malformedJSON,
            "The content of the frame is not JSON: \(error). Nothing was changed; correct it and send it again.",
            position: error.position)
    }

    /// The content of a frame is not JSON: with the `id` and the `tag` that precede the fault.
    package init(_ error: JSONError, in text: JSONText) {
        self.init(error)
        var scan = EnvelopeScan()
        scan.scan(UnsafeRawBufferPointer(rebasing: text.bytes.prefix(error.position.offset)))
        id = scan.id
        tag = scan.tag
    }

    /// The rest of the connection cannot be trusted or is not wanted, so the server closes it after the one `error`.
    package var endsConnection: Bool {
        [.malformedFrame, .frameTooLarge, .malformedLZ4, .contentTooLarge, .unauthorized, .busy].contains(code)
    }

    /// Returns the same error, about that frame. An `id` or a `tag` that the error has already stays.
    package func about(_ frame: FrameReference) -> WireError {
        var error = self
        error.frame = frame.ordinal
        error.id = id ?? frame.id
        error.tag = tag ?? frame.tag
        return error
    }

    package var description: String {
        path.map { "\(code) at \($0): \(message)" } ?? "\(code): \(message)"
    }

    /// The content of the `error` message that reports this to the client.
    package func encoded() -> [UInt8] {
        MessageWriter.message("error", capacity: message.utf8.count, tag: nil) { writer in
            writer.object("error") { writer in
                writer.member("code", code.rawValue)
                writer.member("message", message)
                writer.member("path", path)
                if let position {
                    writer.member("line", position.line)
                    writer.member("column", position.column)
                    writer.member("offset", position.offset)
                }
                if let retryAfterMilliseconds {
                    writer.member("retryAfterMilliseconds", retryAfterMilliseconds)
                }
            }
            if let sequence { writer.member("sequence", sequence) }
            writer.reference(FrameReference(ordinal: frame, id: id, tag: tag))
        }
    }
}

/// Identifies the frame that an answer is about, as far as it could be read.
package struct FrameReference: Sendable, Equatable {
    /// The position of the frame on its connection; 1 is the first. Nil in a process without frames.
    package var ordinal: Int?
    /// The `id` of the message in the frame, when it is a string of 1 to 128 bytes.
    package var id: String?
    /// The `tag` of the message as JSON text, when it has at most 1,024 bytes.
    package var tag: [UInt8]?

    package init(ordinal: Int? = nil, id: String? = nil, tag: [UInt8]? = nil) {
        self.ordinal = ordinal
        self.id = id
        self.tag = tag
    }
}

extension JSONValue {
    /// Returns a string member of an object; nil when it is missing.
    package func optionalString(_ key: String, in path: String) throws(WireError) -> String? {
        guard let value = self[key] else { return nil }
        guard let string = value.string else { throw value.mismatch("a string", at: "\(path)/\(key)") }
        return string
    }

    /// Whether the value is a string of exactly these bytes. External text is never compared as `String`, which
    /// normalises it: that takes quadratic time in a run of combining marks, and treats different texts as equal.
    package func isText(_ text: String) -> Bool {
        guard kind == .string else { return false }
        var text = text
        return text.withUTF8 { hasBytes($0) }
    }

    package func optionalBool(_ key: String) throws(WireError) -> Bool? {
        guard let value = self[key] else { return nil }
        guard let bool = value.bool else { throw value.mismatch("true or false", at: "/\(key)") }
        return bool
    }

    /// Returns a member that is one of some words; nil when it is missing.
    package func optionalWord<Word: RawRepresentable<String>>(
        _ key: String, _ words: @autoclosure () -> [Word]
    ) throws(WireError) -> Word? {
        guard let value = self[key] else { return nil }
        guard value.kind == .string else { throw value.mismatch("a string", at: "/\(key)") }
        guard let word = words().first(where: { value.isText($0.rawValue) }) else {
            throw .unsupported(
                "`\(key)` cannot be \(value.quotedBriefly); the words are \(words().map(\.rawValue).listed).",
                at: "/\(key)")
        }
        return word
    }

    /// Returns a member that is an array of strings; an empty array when it is missing.
    package func optionalStrings(_ key: String, of what: String) throws(WireError) -> [String] {
        guard let list = self[key] else { return [] }
        guard list.kind == .array else { throw list.mismatch("an array of \(what)", at: "/\(key)") }
        var strings: [String] = []
        for element in list.elements {
            guard let string = element.string else {
                throw .unsupported(
                    "`\(key)` is an array of \(what), and \(element.kind.phrase) is none.",
                    at: "/\(key)/\(strings.count)")
            }
            strings.append(string)
        }
        return strings
    }

    /// Returns a member that is a whole number from 0; nil when it is missing.
    package func optionalCount(_ key: String) throws(WireError) -> Int? {
        guard let value = self[key] else { return nil }
        guard value.kind == .number else { throw value.mismatch("a whole number", at: "/\(key)") }
        guard let number = value.wholeNumber, number >= 0 else {
            let text = String(decoding: value.bytes.prefix(20), as: UTF8.self)
            throw .unsupported("`\(key)` is a whole number from 0, not \(text).", at: "/\(key)")
        }
        return Int(number)
    }

    /// The words of an array.
    ///
    /// - Parameter unknown: the message for a word that is not among those known.
    package func words(
        among known: [String], at path: String, unknown: (_ word: String, _ words: String) -> String
    ) throws(WireError) -> Set<String> {
        guard kind == .array else { throw mismatch("an array of words", at: path) }
        var words: Set<String> = []
        for (index, value) in elements.enumerated() {
            guard value.kind == .string else { throw value.mismatch("a string", at: "\(path)/\(index)") }
            guard let word = known.first(where: { value.isText($0) }) else {
                throw .unsupported(unknown(value.quotedBriefly, known.listed), at: "\(path)/\(index)")
            }
            words.insert(word)
        }
        return words
    }

    /// Returns the `limit` of a message of that type.
    func limit(_ limits: ClosedRange<Int>, of type: String) throws(WireError) -> Int? {
        guard let value = self["limit"] else { return nil }
        guard let number = value.wholeNumber, limits.contains(Int(clamping: number)) else {
            throw .unsupported(
                "The `limit` of `\(type)` is a whole number from \(limits.lowerBound) to \(limits.upperBound).",
                at: "/limit")
        }
        return Int(number)
    }

    /// The error for a field of the wrong kind.
    package func mismatch(_ expected: String, at path: String) -> WireError {
        let name = path.split(separator: "/").last.map { "`\($0)`" } ?? "It"
        return WireError.unsupported("\(name) must be \(expected), not \(kind.phrase).", at: path)
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
