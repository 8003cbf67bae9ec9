internal import Broker
internal import BrokerJSON

/// Finds `type`, `id` and `tag` of a message in its text, without a tape and in constant memory.
///
/// The text arrives in pieces. It need not be valid JSON: members that end before a fault are found. As everywhere, the
/// last of several members with one key counts. The scan understands only strings and brackets; the three values are
/// parsed when they are complete.
package struct EnvelopeScan {
    private enum Expected { case object, key, colon, value, comma, nothing }

    private enum Field: CaseIterable {
        case type, id, tag

        var name: String {
            switch self {
            case .type: "type"
            case .id: "id"
            case .tag: "tag"
            }
        }

        /// The maximum bytes of text of a value: each byte of an id may be an escape of six.
        var longestText: Int {
            switch self {
            case .type: 64
            case .id: 6 * JobID.byteCounts.upperBound + 2
            case .tag: 4 * ClientEnvelope.maximumTagCount
            }
        }
    }

    /// The maximum bytes of a key's text that may be one of the three names: each of its bytes may be an escape of six.
    private static let longestKey = 6 * 4 + 2

    /// The last `type`, when it is a string; otherwise nil.
    package private(set) var type: String?
    /// There is a `type`, of any kind.
    package private(set) var hasType = false
    package private(set) var id: String?
    package private(set) var tag: [UInt8]?

    private var expected = Expected.object
    /// The number of open brackets inside the value that is being read.
    private var depth = 0
    private var isInString = false
    private var isEscaped = false
    /// The text of the key or the value that is being read, as far as it is needed.
    private var token: [UInt8] = []
    /// The maximum number of bytes that are stored of it; a longer token is not needed.
    private var longestToken = 0
    private var field: Field?

    package init() {}

    package mutating func scan(_ bytes: UnsafeRawBufferPointer) {
        var index = 0
        while index < bytes.count, expected != .nothing {
            if longestToken == 0, !isEscaped {
                // Most of a text is not needed.
                if isInString {
                    while index < bytes.count, bytes[index] != UInt8(ascii: "\""), bytes[index] != UInt8(ascii: "\\") {
                        index += 1
                    }
                } else if expected == .value {
                    index = skip(bytes, from: index)
                }
                guard index < bytes.count else { return }
            }
            take(bytes[index])
            index += 1
        }
    }

    /// Counts the brackets of a value that is not needed, up to a string or the end of the value.
    private mutating func skip(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        var index = start
        var depth = depth
        defer { self.depth = depth }
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "\""): return index
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                guard depth > 1 else { return index }
                depth -= 1
            case UInt8(ascii: ",") where depth == 0: return index
            default: break
            }
            index += 1
        }
        return index
    }

    private mutating func take(_ byte: UInt8) {
        if isInString {
            keep(byte)
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isInString = false
                if depth == 0 { endToken() }
            }
            return
        }
        switch expected {
        case .value: takeInValue(byte)
        case _ where byte.isWhiteSpace: break
        case .object: expected = byte == UInt8(ascii: "{") ? .key : .nothing
        case .key:
            guard byte == UInt8(ascii: "\"") else { return expected = .nothing }
            begin(longest: Self.longestKey)
            isInString = true
            keep(byte)
        case .colon:
            guard byte == UInt8(ascii: ":") else { return expected = .nothing }
            expected = .value
            begin(longest: field?.longestText ?? 0)
        case .comma: expected = byte == UInt8(ascii: ",") ? .key : .nothing
        case .nothing: break
        }
    }

    private mutating func takeInValue(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""): isInString = true
        case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
            guard depth > 0 else {
                endToken()
                return expected = .nothing
            }
            depth -= 1
            keep(byte)
            if depth == 0 { endToken() }
            return
        case UInt8(ascii: ",") where depth == 0:
            endToken()
            return expected = .key
        default:
            if token.isEmpty, byte.isWhiteSpace { return }
        }
        keep(byte)
    }

    private mutating func begin(longest: Int) {
        token = []
        longestToken = longest
    }

    private mutating func keep(_ byte: UInt8) {
        guard longestToken > 0 else { return }
        if token.count < longestToken {
            token.append(byte)
        } else {
            // The token is too long: the rest of it is not needed, and an empty token is no value.
            begin(longest: 0)
        }
    }

    /// The key or the value is complete.
    private mutating func endToken() {
        let text = token
        begin(longest: 0)
        if expected == .key {
            field = Self.value(text) { key in Field.allCases.first { key.isText($0.name) } }
            return expected = .colon
        }
        expected = .comma
        switch field {
        case .type:
            hasType = true
            type = Self.value(text, \.string)
        case .id: id = Self.value(text, \.returnableID)
        case .tag: tag = Self.value(text) { ClientEnvelope.returnableTag($0) }
        case nil: break
        }
        field = nil
    }

    /// The result of `read` for the text; nil when it is no single value.
    private static func value<Read>(_ text: [UInt8], _ read: (JSONValue) -> Read?) -> Read? {
        guard !text.isEmpty else { return nil }
        let array = JSONText(copying: [UInt8(ascii: "[")] + text + [UInt8(ascii: "]")])
        guard let document = try? JSONDocument(parsing: array) else { return nil }
        return withExtendedLifetime(document) {
            var elements = document.root.elements
            guard let value = elements.next(), elements.next() == nil else { return nil }
            return read(value)
        }
    }
}

extension EnvelopeScan {
    /// The identification of the frame that an answer returns.
    package func reference(ordinal: Int?) -> FrameReference { FrameReference(ordinal: ordinal, id: id, tag: tag) }

    /// The message is a job, or would be one if it could be read.
    package var isJob: Bool { !hasType || type == "job" }
}

extension UInt8 {
    fileprivate var isWhiteSpace: Bool { self == 0x20 || self == 0x0A || self == 0x0D || self == 0x09 }
}
