/// Appends JSON to a byte buffer. The caller keeps the grammar: the writer only places commas and escapes strings.
package struct JSONWriter {
    /// What was written so far.
    package var bytes: [UInt8] { storage }
    /// Bytes written so far.
    @inlinable package var count: Int { storage.count }
    @usableFromInline var storage: [UInt8]
    @usableFromInline var needsComma = false

    package init(capacity: Int = 256) {
        storage = []
        storage.reserveCapacity(capacity)
    }

    @inlinable package mutating func object<Failure: Error>(
        _ members: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        try container(open: UInt8(ascii: "{"), close: UInt8(ascii: "}"), members)
    }

    @inlinable package mutating func array<Failure: Error>(
        _ elements: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        try container(open: UInt8(ascii: "["), close: UInt8(ascii: "]"), elements)
    }

    /// Writes a member's key; its value must follow.
    package mutating func key(_ key: String) {
        string(key)
        storage.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes a member that is text; nothing when there is none.
    package mutating func member(_ key: String, _ text: String?) {
        guard let text else { return }
        self.key(key)
        string(text)
    }

    package mutating func null() { raw("null".utf8) }
    package mutating func bool(_ value: Bool) { raw((value ? "true" : "false").utf8) }
    @inlinable package mutating func integer(_ value: some FixedWidthInteger) { raw(String(value).utf8) }

    /// A finite number; JSON has no other, so infinities and NaN become null.
    package mutating func double(_ value: Double) {
        if value.isFinite { raw(value.description.utf8) } else { null() }
    }

    package mutating func string(_ value: String) {
        var value = value
        value.withUTF8 { string($0) }
    }

    /// A string of well-formed UTF-8.
    package mutating func string(_ utf8: UnsafeBufferPointer<UInt8>) {
        separate()
        storage.append(UInt8(ascii: "\""))
        if utf8.contains(where: Self.mustEscape) { appendEscaped(utf8) } else { storage.append(contentsOf: utf8) }
        storage.append(UInt8(ascii: "\""))
        needsComma = true
    }

    private static func mustEscape(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    private mutating func appendEscaped(_ utf8: UnsafeBufferPointer<UInt8>) {
        var rest = utf8[...]
        while let place = rest.firstIndex(where: Self.mustEscape) {
            storage.append(contentsOf: UnsafeBufferPointer(rebasing: rest[..<place]))
            appendEscape(of: rest[place])
            rest = rest[(place + 1)...]
        }
        storage.append(contentsOf: UnsafeBufferPointer(rebasing: rest))
    }

    private mutating func appendEscape(of byte: UInt8) {
        storage.append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): storage.append(byte)
        case 0x0A: storage.append(UInt8(ascii: "n"))
        case 0x0D: storage.append(UInt8(ascii: "r"))
        case 0x09: storage.append(UInt8(ascii: "t"))
        default: storage.append(contentsOf: "u00\(byte < 16 ? "0" : "1")\(String(byte % 16, radix: 16))".utf8)
        }
    }

    /// A value that is JSON text already.
    @inlinable package mutating func raw(_ json: some Sequence<UInt8>) {
        separate()
        storage.append(contentsOf: json)
        needsComma = true
    }

    /// Members that are JSON text already, without the braces around them; nothing when there are none.
    package mutating func rawMembers(_ json: some Collection<UInt8>) {
        if !json.isEmpty { raw(json) }
    }

    /// A value of a document, as it was written.
    package mutating func value(_ value: JSONValue) {
        if value.kind == .string { string(value.bytes) } else { raw(value.bytes) }
    }

    /// Appends a part of what was written to other bytes.
    @inlinable package func copy(_ range: Range<Int>, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: storage[range])
    }

    @inlinable mutating func separate() {
        if needsComma { storage.append(UInt8(ascii: ",")) }
    }

    @inlinable mutating func container<Failure: Error>(
        open: UInt8, close: UInt8, _ content: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        separate()
        storage.append(open)
        needsComma = false
        try content(&self)
        storage.append(close)
        needsComma = true
    }
}
