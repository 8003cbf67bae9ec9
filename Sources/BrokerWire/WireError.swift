package import BrokerJSON

/// The codes of an `error` message: what is wrong with a frame, a message or a connection.
package enum WireCode: String, Sendable, CaseIterable {
    case malformedFrame, frameTooLarge, malformedLZ4, contentTooLarge, malformedJSON
    case unsupportedMessage, unsupportedVersion, unknownJob, tooLate
    case unauthorized, busy, draining, `internal`

    /// The rest of the connection cannot be trusted or is not wanted, so the server closes it after the one `error`.
    package var endsConnection: Bool {
        switch self {
        case .malformedFrame, .frameTooLarge, .malformedLZ4, .contentTooLarge, .unauthorized, .busy: true
        case .malformedJSON, .unsupportedMessage, .unsupportedVersion, .unknownJob, .tooLate, .draining, .internal:
            false
        }
    }
}

/// A frame or a message was refused: what happened, where, and the remedy.
package struct WireError: Error, Sendable, Equatable, CustomStringConvertible {
    package var code: WireCode
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
    /// For `busy`: the time until a retry is worthwhile.
    package var retryAfterMilliseconds: Int?

    package init(_ code: WireCode, _ message: String, path: String? = nil, position: JSONPosition? = nil) {
        self.code = code
        self.message = message
        self.path = path
        self.position = position
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

    package var endsConnection: Bool { code.endsConnection }

    /// Returns the same error, about that frame. An `id` or a `tag` that the error has already stays.
    package func about(_ frame: FrameReference) -> WireError {
        var error = self
        error.frame = frame.ordinal
        error.id = id ?? frame.id
        error.tag = tag ?? frame.tag
        return error
    }

    package var description: String {
        path.map { "\(code.rawValue) at \($0): \(message)" } ?? "\(code.rawValue): \(message)"
    }

    /// The content of the `error` message that reports this to the client.
    package func encoded() -> [UInt8] {
        var writer = JSONWriter(capacity: 128 + message.utf8.count)
        writer.object { writer in
            writer.member("type", "error")
            writer.key("error")
            writer.object { writer in
                writer.member("code", code.rawValue)
                writer.member("message", message)
                if let path { writer.member("path", path) }
                if let position {
                    for (key, value) in [
                        ("line", position.line), ("column", position.column), ("offset", position.offset),
                    ] {
                        writer.key(key)
                        writer.integer(value)
                    }
                }
                if let retryAfterMilliseconds {
                    writer.key("retryAfterMilliseconds")
                    writer.integer(retryAfterMilliseconds)
                }
            }
            writer.reference(FrameReference(ordinal: frame, id: id, tag: tag))
        }
        return writer.bytes
    }
}

extension JSONWriter {
    mutating func member(_ key: String, _ value: String) {
        self.key(key)
        string(value)
    }

    /// The members of an `error` that identify the frame.
    mutating func reference(_ frame: FrameReference) {
        if let id = frame.id { member("id", id) }
        if let ordinal = frame.ordinal {
            key("frame")
            integer(ordinal)
        }
        tag(frame.tag)
    }

    /// The `tag` of a message, returned unchanged; nothing when it had none.
    mutating func tag(_ tag: [UInt8]?) {
        guard let tag else { return }
        key("tag")
        raw(tag)
    }
}
