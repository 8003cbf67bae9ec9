package import BrokerJSON

/// The position of a part of a model's document.
package struct SourcePlace: Sendable, Hashable {
    /// The name of the file as it was given; empty when there is only one.
    package var source: String
    /// Both count from 1, columns in bytes; 0 for a part without a position.
    package var line: Int
    package var column: Int

    package init(source: String = "", line: Int, column: Int) {
        self.source = source
        self.line = line
        self.column = column
    }

    /// The position of a part that is in no file.
    package static let unknown = SourcePlace(line: 0, column: 0)
}

/// One value of a ``ModelDocument``, in JSON's terms, with its position in the source.
package struct ModelValue: Sendable {
    package enum Content: Sendable {
        case null
        case bool(Bool)
        /// In JSON's notation, so that no digit is lost.
        case number(String)
        case string(String)
        case array([ModelValue])
        /// In order; a key may occur twice, which the reader reports.
        case object([Member])
    }

    /// A key of an object with its value.
    package struct Member: Sendable {
        package var key: String
        package var keyPlace: SourcePlace
        package var value: ModelValue

        package init(_ key: String, at keyPlace: SourcePlace, _ value: ModelValue) {
            self.key = key
            self.keyPlace = keyPlace
            self.value = value
        }
    }

    package var content: Content {
        didSet { written = nil }
    }
    package var place: SourcePlace
    /// The JSON text that it was read from, which is also written.
    private var written: WrittenJSON?

    package init(_ content: Content, at place: SourcePlace) {
        self.content = content
        self.place = place
    }
}

// MARK: - Reading

extension ModelValue {
    package var kind: JSONValue.Kind {
        switch content {
        case .null: .null
        case .bool(let value): value ? .true : .false
        case .number: .number
        case .string: .string
        case .array: .array
        case .object: .object
        }
    }

    package var isNull: Bool { kind == .null }

    /// The content of a string; nil for any other kind.
    package var string: String? {
        if case .string(let string) = content { string } else { nil }
    }

    package var bool: Bool? {
        if case .bool(let bool) = content { bool } else { nil }
    }

    /// A number whose value is whole and fits; nil otherwise.
    package var int64: Int64? {
        guard case .number(var text) = content else { return nil }
        return text.withUTF8 { Int64(wholeNumber: $0) }
    }

    /// The elements of an array; empty for any other kind.
    package var elements: [ModelValue] {
        if case .array(let elements) = content { elements } else { [] }
    }

    /// The members of an object, including duplicates; empty for any other kind.
    package var members: [Member] {
        if case .object(let members) = content { members } else { [] }
    }

    /// The last member of that key in an object; nil when there is none, or this is no object.
    package subscript(key: String) -> ModelValue? {
        members.last { $0.key.hasSameBytes(as: key) }?.value
    }
}

// MARK: - JSON

extension ModelValue {
    init(_ value: JSONValue, lines: LineIndex, source: String) {
        place = lines.place(of: value, source: source)
        switch value.kind {
        case .null: content = .null
        case .false: content = .bool(false)
        case .true: content = .bool(true)
        case .number: content = .number(String(decoding: value.bytes, as: UTF8.self))
        case .string: content = .string(String(decoding: value.bytes, as: UTF8.self))
        case .array:
            content = .array(value.elements.map { ModelValue($0, lines: lines, source: source) })
            written = WrittenJSON(value, in: lines.text)
        case .object:
            let members = value.members.map { key, value in
                Member(
                    String(decoding: key.bytes, as: UTF8.self), at: lines.place(of: key, source: source),
                    ModelValue(value, lines: lines, source: source))
            }
            content = .object(members)
            written = WrittenJSON(value, in: lines.text)
        }
    }

    /// Writes a value that comes from JSON unchanged.
    package func write(to writer: inout JSONWriter) {
        if let written { return writer.raw(written.bytes) }
        switch content {
        case .null: writer.null()
        case .bool(let bool): writer.bool(bool)
        case .number(let text): writer.raw(text.utf8)
        case .string(let string): writer.string(string)
        case .array(let elements):
            writer.array { writer in
                for element in elements { element.write(to: &writer) }
            }
        case .object(let members):
            writer.object { writer in
                for member in members {
                    writer.key(member.key)
                    member.value.write(to: &writer)
                }
            }
        }
    }
}

/// The part of a text that is an array or an object.
private struct WrittenJSON {
    private let text: JSONText
    private let range: Range<Int>

    init(_ container: JSONValue, in text: JSONText) {
        self.text = text
        range = container.offset..<container.offset + container.bytes.count
    }

    var bytes: [UInt8] { Array(text.bytes[range]) }
}

/// The offsets of the lines of a text. It returns the same as `JSONPosition`, without reading the text for every
/// position.
struct LineIndex {
    let text: JSONText
    /// Ascending; the first is 0.
    private let starts: [Int]

    init(of text: JSONText) {
        var starts = [0]
        for (offset, byte) in text.bytes.enumerated() where byte == UInt8(ascii: "\n") { starts.append(offset + 1) }
        self.starts = starts
        self.text = text
    }

    func place(of value: JSONValue, source: String) -> SourcePlace {
        let (line, column) = position(of: value.offset)
        return SourcePlace(source: source, line: line, column: column)
    }

    /// Both count from 1, columns in bytes.
    func position(of offset: Int) -> (line: Int, column: Int) {
        var low = 0
        var high = starts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if starts[middle] <= offset { low = middle } else { high = middle }
        }
        return (low + 1, offset - starts[low] + 1)
    }
}
