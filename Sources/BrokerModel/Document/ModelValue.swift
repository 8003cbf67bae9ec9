package import BrokerJSON

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
    /// The text of an array or object that was read from JSON, and its place there: it is written unchanged.
    private var written: (text: JSONText, range: Range<Int>)?

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

    /// A text, or the texts of an array; other elements are left out.
    package var oneOrMoreStrings: [String] { string.map { [$0] } ?? elements.compactMap(\.string) }

    /// The last member of that key in an object; nil when there is none, or this is no object.
    package subscript(key: String) -> ModelValue? {
        members.last { $0.key.hasSameBytes(as: key) }?.value
    }
}

// MARK: - Changing

extension ModelValue {
    package init(_ texts: [String], at place: SourcePlace = .unknown) {
        self.init(.array(texts.map { ModelValue(.string($0), at: place) }), at: place)
    }

    package static func text(_ text: String) -> ModelValue { ModelValue(.string(text), at: .unknown) }

    package func value(at path: [String]) -> ModelValue? { path.reduce(self) { $0?[$1] } }

    /// Gives a member a value, or removes it; objects on the way are made.
    package mutating func set(_ path: [String], _ value: ModelValue?) {
        guard let key = path.first, value != nil || self.value(at: path) != nil else { return }
        // Each array has one owner, so that it is changed in place.
        var members = members
        content = .null
        let index = members.firstIndex { $0.key.hasSameBytes(as: key) }
        var changed = value
        if path.count > 1 {
            let empty = ModelValue(.object([]), at: .unknown)
            changed = index.map { exchange(&members[$0].value, with: empty) } ?? empty
            changed?.set(Array(path.dropFirst()), value)
        }
        switch (index, changed) {
        case (let index?, let changed?): members[index].value = changed
        case (let index?, nil): members.remove(at: index)
        case (nil, let changed?): members.append(Member(key, at: .unknown, changed))
        case (nil, nil): break
        }
        content = .object(members)
    }
}

// MARK: - JSON

extension ModelValue {
    /// The tree of a JSON text.
    ///
    /// - Parameter source: the file's name for positions.
    package init(parsing text: JSONText, source: String = "") throws(JSONError) {
        // The values point into the document's tape, and do not retain it.
        self = try JSONDocument(parsing: text).withRoot {
            ModelValue($0, lines: LineIndex(of: text), source: source)
        }
    }

    private init(_ value: JSONValue, lines: LineIndex, source: String) {
        place = lines.place(at: value.offset, source: source)
        switch value.kind {
        case .null: content = .null
        case .false, .true: content = .bool(value.kind == .true)
        case .number: content = .number(String(decoding: value.bytes, as: UTF8.self))
        case .string: content = .string(String(decoding: value.bytes, as: UTF8.self))
        case .array:
            content = .array(value.elements.map { ModelValue($0, lines: lines, source: source) })
            written = (lines.text, value.offset..<value.offset + value.bytes.count)
        case .object:
            let members = value.members.map { key, value in
                Member(
                    String(decoding: key.bytes, as: UTF8.self), at: lines.place(at: key.offset, source: source),
                    ModelValue(value, lines: lines, source: source))
            }
            content = .object(members)
            written = (lines.text, value.offset..<value.offset + value.bytes.count)
        }
    }

    /// Writes a value that comes from JSON unchanged.
    package func write(to writer: inout JSONWriter) {
        if let written { return writer.raw(written.text.bytes[written.range]) }
        switch content {
        case .null: writer.null()
        case .bool(let bool): writer.bool(bool)
        case .number(let text): writer.raw(text.utf8)
        case .string(let string): writer.string(string)
        case .array(let elements):
            writer.array(of: elements) { $0.write(to: &$1) }
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

/// The offsets of the lines of a text. It returns the same as `JSONPosition`, without reading the text for every
/// position.
struct LineIndex {
    let text: JSONText
    private let starts: [Int]

    init(of text: JSONText) {
        var starts = [0]
        for (offset, byte) in text.bytes.enumerated() where byte == UInt8(ascii: "\n") { starts.append(offset + 1) }
        self.starts = starts
        self.text = text
    }

    func place(at offset: Int, source: String) -> SourcePlace {
        var low = 0
        var high = starts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if starts[middle] <= offset { low = middle } else { high = middle }
        }
        return SourcePlace(source: source, line: low + 1, column: offset - starts[low] + 1)
    }
}

// MARK: - Indented JSON

extension ModelValue {
    /// JSON for people: one line for each member; short values share a line.
    package var indentedJSON: String {
        var text = ""
        write(to: &text, indentation: 0)
        return text
    }

    private static let longestLine = 100

    private func write(to text: inout String, indentation: Int) {
        let inner = String(repeating: "  ", count: indentation + 1)
        let outer = String(repeating: "  ", count: indentation)
        guard !isShort(at: indentation) else { return text += line }
        let isObject = kind == .object
        let items = isObject ? members.map { (Self.quoted($0.key) + ": ", $0.value) } : elements.map { ("", $0) }
        text += isObject ? "{\n" : "[\n"
        for (index, (key, value)) in items.enumerated() {
            text += inner + key
            value.write(to: &text, indentation: indentation + 1)
            text += index < items.count - 1 ? ",\n" : "\n"
        }
        text += outer + (isObject ? "}" : "]")
    }

    /// Objects of entities and above always have lines of their own.
    private func isShort(at indentation: Int) -> Bool {
        switch content {
        case .object(let members):
            members.isEmpty || indentation > 3 && 2 * indentation + line.utf8.count <= Self.longestLine
        case .array(let elements):
            elements.isEmpty || 2 * indentation + line.utf8.count <= Self.longestLine
        default: true
        }
    }

    /// On one line, with a space after each comma and colon.
    private var line: String {
        switch content {
        case .object(let members):
            "{" + members.map { Self.quoted($0.key) + ": " + $0.value.line }.joined(separator: ", ") + "}"
        case .array(let elements): "[" + elements.map(\.line).joined(separator: ", ") + "]"
        case .number(let text): text
        case .string(let string): Self.quoted(string)
        case .bool(let bool): bool ? "true" : "false"
        case .null: "null"
        }
    }

    private static func quoted(_ string: String) -> String {
        var writer = JSONWriter()
        writer.string(string)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

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

    package static let unknown = SourcePlace(line: 0, column: 0)
}

extension ModelPlace {
    package init(pointer: String, at place: SourcePlace) {
        self.init(pointer: pointer, source: place.source, line: place.line, column: place.column)
    }
}

/// A decision of a source of models about a part of a ``ModelDocument``, with the reason: no part of a foreign model is
/// converted, inferred or skipped silently.
package struct ModelNote: Sendable, Equatable, CustomStringConvertible {
    package enum Kind: String, Sendable, CaseIterable {
        /// The part is converted to another form.
        case taken
        /// The part is inferred by a rule; the source lacks it.
        case inferred
        /// The part is skipped: this model cannot express it.
        case leftOut = "skipped"
        /// The part is ignored: it has no effect.
        case passedOver = "ignored"
    }

    package var kind: Kind
    package var message: String
    /// The subject: a JSON Pointer, also of a skipped part that the document lacks.
    package var place: ModelPlace

    package init(_ kind: Kind, _ message: String, at place: ModelPlace) {
        self.kind = kind
        self.message = message
        self.place = place
    }

    /// The line of the source, the subject, and the note.
    package var description: String { ModelFault("\(kind.rawValue): \(message)", at: place).description }
}
