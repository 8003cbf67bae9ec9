/// Appends JSON to a byte buffer. The caller is responsible for the grammar: the writer places commas and escapes
/// strings.
public struct JSONWriter: Sendable {
    /// The bytes written so far.
    public var bytes: [UInt8] { storage }
    /// The number of bytes written so far.
    @inlinable public var count: Int { storage.count }
    @usableFromInline var storage: [UInt8]
    @usableFromInline var needsComma = false

    public init(capacity: Int = 256) {
        storage = []
        storage.reserveCapacity(capacity)
    }

    /// Forgets what is written, and retains the memory.
    package mutating func removeAll() {
        storage.removeAll(keepingCapacity: true)
        needsComma = false
    }

    /// Lets `body` change the written bytes, which need not be JSON any more.
    package mutating func withBytes(_ body: (inout [UInt8]) -> Bool) -> Bool { body(&storage) }

    package mutating func reserve(_ bytes: Int) { storage.reserveCapacity(bytes) }

    @inlinable public mutating func object<Failure: Error>(
        _ members: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        try container(open: UInt8(ascii: "{"), close: UInt8(ascii: "}"), members)
    }

    @inlinable public mutating func array<Failure: Error>(
        _ elements: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        try container(open: UInt8(ascii: "["), close: UInt8(ascii: "]"), elements)
    }

    /// Writes a member's key; its value must follow.
    public mutating func key(_ key: String) {
        string(key)
        storage.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes a member's key that is JSON text already, with its colon.
    @inlinable package mutating func key(raw json: [UInt8]) {
        separate()
        storage.append(contentsOf: json)
        needsComma = false
    }

    /// Writes a member that is text; writes nothing for nil.
    public mutating func member(_ key: String, _ text: String?) {
        guard let text else { return }
        self.key(key)
        string(text)
    }

    /// Writes a member that is a number.
    public mutating func member(_ key: String, _ value: some FixedWidthInteger) {
        self.key(key)
        integer(value)
    }

    package mutating func member(_ key: String, _ value: Bool) {
        self.key(key)
        bool(value)
    }

    /// Writes a member with a value of a document, unchanged.
    package mutating func member(_ key: String, _ value: JSONValue) {
        self.key(key)
        self.value(value)
    }

    /// Writes a member that is JSON text already; writes nothing for nil.
    @inlinable public mutating func member(_ key: String, raw json: (some Sequence<UInt8>)?) {
        guard let json else { return }
        self.key(key)
        raw(json)
    }

    @inlinable public mutating func object<Failure: Error>(
        _ key: String, _ members: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        self.key(key)
        try object(members)
    }

    /// Writes a member that is an array.
    @inlinable public mutating func array<Failure: Error>(
        _ key: String, _ elements: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        self.key(key)
        try array(elements)
    }

    /// Writes an array with what `write` writes for each of the elements, as a member if there is a key.
    package mutating func array<Elements: Sequence>(
        _ key: String? = nil, of elements: Elements, _ write: (Elements.Element, inout JSONWriter) -> Void
    ) {
        if let key { self.key(key) }
        array { writer in for element in elements { write(element, &writer) } }
    }

    /// Writes an array with an object for each of the elements, as a member if there is a key.
    package mutating func objects<Elements: Sequence>(
        _ key: String? = nil, of elements: Elements, _ members: (Elements.Element, inout JSONWriter) -> Void
    ) {
        array(key, of: elements) { element, writer in writer.object { members(element, &$0) } }
    }

    /// Writes a member that is an array of texts.
    package mutating func strings(_ key: String, _ texts: some Sequence<String>) {
        array(key, of: texts) { $1.string($0) }
    }

    public mutating func null() { raw("null".utf8) }
    public mutating func bool(_ value: Bool) { raw((value ? "true" : "false").utf8) }

    @inlinable public mutating func integer(_ value: some FixedWidthInteger) {
        if let value = Int64(exactly: value) { integer(value) } else { raw(String(value).utf8) }
    }

    /// As the other one, without a `String`: for long lists.
    public mutating func integer(_ value: Int64) {
        separate()
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var (start, rest) = (20, value.magnitude)
            repeat {
                start -= 1
                digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            if value < 0 {
                start -= 1
                digits[start] = UInt8(ascii: "-")
            }
            storage.append(contentsOf: UnsafeBufferPointer(rebasing: digits[start...]))
        }
        needsComma = true
    }

    /// Writes a finite number; infinities and NaN, which JSON lacks, become null.
    public mutating func double(_ value: Double) {
        if value.isFinite { raw(value.description.utf8) } else { null() }
    }

    public mutating func string(_ value: String) {
        var value = value
        value.withUTF8 { string($0) }
    }

    /// Writes a string of well-formed UTF-8.
    public mutating func string(_ utf8: UnsafeBufferPointer<UInt8>) {
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

    /// Writes a value that is JSON text already.
    @inlinable public mutating func raw(_ json: some Sequence<UInt8>) {
        separate()
        storage.append(contentsOf: json)
        needsComma = true
    }

    /// Writes members that are JSON text already, without braces; writes nothing for an empty text.
    @inlinable public mutating func rawMembers(_ json: some Collection<UInt8>) {
        if !json.isEmpty { raw(json) }
    }

    /// Writes a value of a document, unchanged.
    public mutating func value(_ value: JSONValue) {
        if value.kind == .string { string(value.bytes) } else { raw(value.bytes) }
    }

    /// Appends a part of the written bytes to other bytes.
    @inlinable public func copy(_ range: Range<Int>, to bytes: inout [UInt8]) {
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
