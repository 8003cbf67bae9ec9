public import CTape

/// One value of a ``JSONDocument``: an index on its tape. Valid only as long as the document, which it does not retain.
public struct JSONValue {
    public enum Kind: UInt8, Sendable {
        case null = 0
        case `false` = 1
        case `true` = 2
        case number = 3
        case string = 4
        case array = 5
        case object = 6
    }

    @usableFromInline let element: UnsafePointer<broker_json_element>
    @usableFromInline let text: UnsafePointer<UInt8>
    @usableFromInline let unescaped: UnsafePointer<UInt8>?

    @inlinable init(
        element: UnsafePointer<broker_json_element>, text: UnsafePointer<UInt8>, unescaped: UnsafePointer<UInt8>?
    ) {
        self.element = element
        self.text = text
        self.unescaped = unescaped
    }

    @inlinable public var kind: Kind { unsafeBitCast(element.pointee.kind, to: Kind.self) }

    @inlinable public var isNull: Bool { element.pointee.kind == Kind.null.rawValue }

    /// The content of a string (unescaped), the text of a number or a literal, or the text of a container with its
    /// brackets.
    @inlinable public var bytes: UnsafeBufferPointer<UInt8> {
        let isUnescaped = element.pointee.flags & UInt8(BROKER_JSON_UNESCAPED) != 0
        let base = isUnescaped ? unescaped! : text
        return UnsafeBufferPointer(start: base + Int(element.pointee.offset), count: Int(element.pointee.length))
    }

    /// The number is written without a fraction and an exponent.
    @inlinable public var isIntegral: Bool { element.pointee.flags & UInt8(BROKER_JSON_INTEGRAL) != 0 }

    /// The string had escapes, so ``bytes`` is not a range of the text.
    @inlinable public var hadEscapes: Bool { element.pointee.flags & UInt8(BROKER_JSON_UNESCAPED) != 0 }

    /// The offset of the value in the text: of a string's first content byte, otherwise of the first byte.
    @inlinable public var offset: Int {
        guard hadEscapes else { return Int(element.pointee.offset) }
        let header = UnsafeRawPointer(unescaped! + Int(element.pointee.offset) - MemoryLayout<UInt32>.size)
        return Int(header.loadUnaligned(as: UInt32.self))
    }

    /// The number of values and keys in this value, including itself.
    public var elementCount: Int { Int(element.pointee.span) }

    /// The value after this one and its contents. Only meaningful inside a container.
    @inlinable var successor: JSONValue {
        JSONValue(element: element + Int(element.pointee.span), text: text, unescaped: unescaped)
    }

    /// The next value on the tape: the first child of a container.
    @inlinable var following: JSONValue { JSONValue(element: element + 1, text: text, unescaped: unescaped) }
}

// MARK: - Scalars

extension JSONValue {
    /// The content of a string; nil for any other kind.
    public var string: String? {
        kind == .string ? String(decoding: bytes, as: UTF8.self) : nil
    }

    /// The value of `true` or `false`; nil for any other kind.
    public var bool: Bool? {
        switch kind {
        case .true: true
        case .false: false
        default: nil
        }
    }

    /// The value of a number that is written as an integer and fits; nil otherwise.
    @inlinable public var int64: Int64? {
        guard kind == .number, isIntegral else { return nil }
        return Int64(decimalDigits: bytes)
    }

    /// The nearest double; nil for any other kind, and for a number outside the range of doubles.
    public var double: Double? {
        guard kind == .number else { return nil }
        return Double(jsonNumber: bytes)
    }
}

extension Int64 {
    /// The value of an optional minus sign and decimal digits; nil for any other text, or when it does not fit.
    @inlinable public init?(decimalDigits digits: UnsafeBufferPointer<UInt8>) {
        let isNegative = digits.first == UInt8(ascii: "-")
        let first = isNegative ? 1 : 0
        guard digits.count > first, digits.count - first <= 19 else { return nil }
        var magnitude: UInt64 = 0  // 19 digits always fit
        for index in first..<digits.count {
            let digit = digits[index] &- UInt8(ascii: "0")
            guard digit <= 9 else { return nil }
            magnitude = magnitude &* 10 &+ UInt64(digit)
        }
        guard magnitude <= UInt64(Int64.max) + (isNegative ? 1 : 0) else { return nil }
        self = Int64(truncatingIfNeeded: isNegative ? 0 &- magnitude : magnitude)
    }
}

extension Double {
    /// The nearest double of a number in JSON's form; nil outside the range of doubles.
    public init?(jsonNumber text: UnsafeBufferPointer<UInt8>) {
        guard let value = Double(String(decoding: text, as: UTF8.self)), value.isFinite else { return nil }
        self = value
    }
}

// MARK: - Containers

extension JSONValue {
    /// The elements of an array in order; empty for any other kind.
    @inlinable public var elements: Elements { Elements(of: self, ifKind: .array) }

    /// The members of an object in order, including duplicates; empty for any other kind.
    @inlinable public var members: Members { Members(elements: Elements(of: self, ifKind: .object)) }

    /// The last member of that key in an object; nil when there is none, or this is no object.
    public subscript(key: String) -> JSONValue? {
        var key = key
        return key.withUTF8 { key in
            var found: JSONValue?
            // Most keys differ in their length already.
            for member in members where member.key.element.pointee.length == key.count {
                if member.key.hasBytes(key) { found = member.value }
            }
            return found
        }
    }

    @inlinable public func hasBytes(_ other: UnsafeBufferPointer<UInt8>) -> Bool {
        let own = bytes
        guard own.count == other.count else { return false }
        for index in 0..<own.count where own[index] != other[index] { return false }
        return true
    }

    public struct Elements: Sequence, IteratorProtocol {
        @usableFromInline var next_: JSONValue
        @usableFromInline let end: UnsafePointer<broker_json_element>

        @inlinable init(of container: JSONValue, ifKind kind: Kind) {
            next_ = container.following
            end = container.kind == kind ? container.successor.element : next_.element
        }

        @inlinable public mutating func next() -> JSONValue? {
            guard next_.element != end else { return nil }
            defer { next_ = next_.successor }
            return next_
        }
    }

    public struct Members: Sequence, IteratorProtocol {
        @usableFromInline var elements: Elements

        @inlinable init(elements: Elements) { self.elements = elements }

        @inlinable public mutating func next() -> (key: JSONValue, value: JSONValue)? {
            guard let key = elements.next(), let value = elements.next() else { return nil }
            return (key, value)
        }
    }
}

// MARK: - Text

extension JSONValue {
    /// A copy of the value as a JSON text.
    public var jsonText: [UInt8] {
        var writer = JSONWriter(capacity: bytes.count + 2)
        writer.value(self)
        return writer.bytes
    }

    /// The string in quotes, shortened for messages; no more of it is decoded than that.
    package var quotedBriefly: String {
        String(decoding: bytes.prefix(4 * String.longestQuote + 1), as: UTF8.self).quotedBriefly
    }
}

extension JSONValue.Kind {
    /// The kind as in a sentence: "an array", "null".
    public var phrase: String {
        switch self {
        case .null: "null"
        case .false: "false"
        case .true: "true"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension String {
    /// As one token of a JSON Pointer (RFC 6901, section 3).
    public var asPointerToken: String {
        guard utf8.contains(where: { $0 == UInt8(ascii: "~") || $0 == UInt8(ascii: "/") }) else { return self }
        var token = ""
        for scalar in unicodeScalars {
            switch scalar {
            case "~": token += "~0"
            case "/": token += "~1"
            default: token.unicodeScalars.append(scalar)
            }
        }
        return token
    }
}

// MARK: - Whole numbers

extension Int64 {
    /// The value of a JSON number that is whole and fits, in any notation: `5`, `5.0`, `50e-1`. JSON Schema's `integer`
    /// is the same set of numbers.
    public init?(wholeNumber text: UnsafeBufferPointer<UInt8>) {
        if let number = Int64(decimalDigits: text) {
            self = number
            return
        }
        // As most fractions are written.
        if let last = text.last, (UInt8(ascii: "1")...UInt8(ascii: "9")).contains(last),
            text.contains(UInt8(ascii: ".")), !text.contains(where: { $0 | 0x20 == UInt8(ascii: "e") })
        {
            return nil
        }
        var digits: [UInt8] = []
        var scale = 0
        var index = text.first == UInt8(ascii: "-") ? 1 : 0
        var isFraction = false
        while index < text.count, text[index] | 0x20 != UInt8(ascii: "e") {
            if text[index] == UInt8(ascii: ".") {
                isFraction = true
            } else {
                // Leading zeros have no value, and there may be many.
                if !(digits.isEmpty && text[index] == UInt8(ascii: "0")) { digits.append(text[index]) }
                if isFraction { scale -= 1 }
            }
            index += 1
        }
        while digits.last == UInt8(ascii: "0") {
            digits.removeLast()
            scale += 1
        }
        guard !digits.isEmpty else {
            self = 0
            return
        }
        if index < text.count {
            guard let exponent = Self.exponent(text[(index + 1)...]) else { return nil }
            scale += exponent
        }
        // The largest magnitude has 19 digits.
        guard scale >= 0, digits.count + scale <= 19 else { return nil }
        let sign = text.first == UInt8(ascii: "-") ? [UInt8(ascii: "-")] : []
        let written = sign + digits + Array(repeating: UInt8(ascii: "0"), count: scale)
        guard let number = written.withUnsafeBufferPointer({ Int64(decimalDigits: $0) }) else { return nil }
        self = number
    }

    /// An exponent of up to nine digits; nil for a larger one.
    private static func exponent(_ text: Slice<UnsafeBufferPointer<UInt8>>) -> Int? {
        let isNegative = text.first == UInt8(ascii: "-")
        let digits = text.drop { !(0x30...0x39).contains($0) }.drop { $0 == 0x30 }
        guard digits.count <= 9 else { return nil }
        let magnitude = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        return isNegative ? -magnitude : magnitude
    }
}

extension JSONValue {
    /// The value of a number that is whole and fits; nil otherwise.
    public var wholeNumber: Int64? { kind == .number ? Int64(wholeNumber: bytes) : nil }
}
