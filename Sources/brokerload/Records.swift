import BrokerJSON

enum RecordShape: String, CaseIterable, Sendable {
    /// Eight attributes and a link to a department that is nested in the record.
    case nested
    /// An identity and attributes of which each is there or not.
    case ragged
}

/// The identities of records, in the order of new ones.
enum RecordKeys: String, CaseIterable, Sendable {
    /// The records' numbers.
    case ascending
    /// UUIDs that look like chance.
    case uuid
}

enum RecordKeyOrder: String, CaseIterable, Sendable {
    /// The identity first, then as the model has them.
    case declared
    /// Another for each record.
    case random
}

/// How records are made. The same options and the same number give the same record.
struct RecordOptions: Sendable, Equatable {
    var shape = RecordShape.nested
    /// Attributes beside the identity, for `ragged`.
    var attributes = 12
    /// Nil for that of the shape.
    var presence: Double?
    /// The probability that an attribute that is there is null.
    var nulls = 0.0
    var keyOrder = RecordKeyOrder.declared
    var keys = RecordKeys.ascending
    var seed: UInt64 = 1

    /// The probability that an attribute or a link is there.
    var probability: Double { presence ?? (shape == .ragged ? 0.5 : 1) }
}

/// One member of the generated records, and the column that it becomes.
struct RecordField: Sendable {
    enum Kind: Sendable, Equatable {
        case identity
        case text
        case email
        /// Stored as its digits.
        case decimal
        case double
        case boolean
        case date
        /// A whole number below the modulus.
        case integer(Int)
        /// A to-one link to a department that is nested in the record.
        case department
    }

    /// The attribute or relationship, and its column.
    let name: String
    let key: String
    let kind: Kind
    /// The key in quotes with its colon.
    let prefix: [UInt8]

    init(_ name: String, key: String? = nil, _ kind: Kind) {
        self.name = name
        self.key = key ?? name
        self.kind = kind
        prefix = Array("\"\(self.key)\":".utf8)
    }

    /// The type in the model and that of the column, as `broker model schema` prints it.
    func types(_ keys: RecordKeys) -> (model: String, column: String) {
        switch kind {
        case .identity:
            keys == .uuid ? ("uuid", "TEXT NOT NULL PRIMARY KEY") : ("integer64", "INTEGER PRIMARY KEY")
        case .text, .email: ("string", "TEXT")
        case .decimal: ("decimal", "TEXT")
        case .double: ("double", "REAL")
        case .boolean: ("boolean", "INTEGER")
        case .date: ("date", "TEXT")
        case .integer: ("integer32", "INTEGER")
        case .department:
            (
                "Department",
                "INTEGER REFERENCES Department (id) ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED"
            )
        }
    }
}

/// The layout of a shape's records: their members, the model for Broker, and the tables for programs that write without it.
struct RecordLayout: Sendable {
    static let departments = 500

    let entity: String
    /// The identity is the first.
    let fields: [RecordField]
    private let keys: RecordKeys

    init(_ options: RecordOptions) {
        keys = options.keys
        let identity = RecordField("id", .identity)
        switch options.shape {
        case .nested:
            entity = "Employee"
            fields = [
                identity, RecordField("name", .text), RecordField("email", .email), RecordField("salary", .decimal),
                RecordField("score", .double), RecordField("active", .boolean),
                RecordField("hiredAt", key: "hired_at", .date), RecordField("level", .integer(12)),
                RecordField("department", .department),
            ]
        case .ragged:
            entity = "Record"
            let kinds: [RecordField.Kind] = [.text, .integer(1_000), .double, .text, .date, .decimal]
            fields = [identity] + (0..<options.attributes).map { RecordField("a\($0 + 1)", kinds[$0 % kinds.count]) }
        }
    }

    private var hasDepartments: Bool { fields.contains { $0.kind == .department } }

    /// For `brokerd --model`.
    var model: String {
        let attributes = fields.filter { $0.kind != .department }.map { field in
            let type = field.types(keys).model
            return field.key == field.name
                ? "\"\(field.name)\": \"\(type)\""
                : "\"\(field.name)\": {\"type\": \"\(type)\", \"key\": \"\(field.key)\"}"
        }
        let members =
            "\"identity\": \"id\",\n    \"attributes\": {\n      \(attributes.joined(separator: ",\n      "))}"
        guard hasDepartments else { return "{\"entities\": {\n  \"\(entity)\": {\n    \(members)}\n}}" }
        return """
            {"entities": {
              "\(entity)": {
                \(members),
                "relationships": {"department": {"entity": "Department"}}},
              "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}
            }}
            """
    }

    /// As `broker model schema` prints them for that model.
    var tables: [String] {
        let columns = fields.map { "\($0.name) \($0.types(keys).column)" }.joined(separator: ", ")
        let table = "CREATE TABLE \(entity) (\(columns))"
        guard hasDepartments else { return [table] }
        return [
            "CREATE TABLE Department (id INTEGER PRIMARY KEY, name TEXT)", table,
            "CREATE INDEX \"\(entity).department\" ON \(entity) (department)",
        ]
    }
}

/// Makes records: the same options, number and version give the same bytes, on every machine.
struct GeneratedRecords: Sendable {
    let layout: RecordLayout
    private let options: RecordOptions
    /// The fields' order, shuffled for each record if requested.
    private var order: [Int]
    private let isPlain: Bool

    init(_ options: RecordOptions) {
        self.options = options
        layout = RecordLayout(options)
        order = Array(layout.fields.indices)
        isPlain = options.probability >= 1 && options.nulls <= 0 && options.keyOrder == .declared
    }

    /// Appends one record.
    ///
    /// - Parameter version: two versions of a record in a row differ in every value that is there, but not in its link.
    mutating func write(_ number: Int, version: Int = 0, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "{"))
        if isPlain {
            for field in layout.fields { write(field, number, version, to: &bytes) }
        } else {
            writeVarying(number, version, to: &bytes)
        }
        // Every field ends with a comma.
        bytes[bytes.count - 1] = UInt8(ascii: "}")
    }

    private mutating func writeVarying(_ number: Int, _ version: Int, to bytes: inout [UInt8]) {
        var random = LoadRandom(seed: options.seed, number: number)
        if options.keyOrder == .random {
            for place in order.indices { order[place] = place }
            order.shuffle(using: &random)
        }
        for place in order {
            let field = layout.fields[place]
            if field.kind != .identity {
                guard random.chance(options.probability) else { continue }
                if field.kind != .department, random.chance(options.nulls) {
                    bytes.append(contentsOf: field.prefix)
                    bytes.append("null,")
                    continue
                }
            }
            write(field, number, version, to: &bytes)
        }
    }

    /// A member with its comma.
    private func write(_ field: RecordField, _ number: Int, _ version: Int, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: field.prefix)
        // No modulus below divides the step, so each version has other values than the one before.
        let value = number &+ version &* 131
        switch field.kind {
        case .identity:
            if options.keys == .uuid {
                bytes.append(uuid: number, seed: options.seed)
            } else {
                bytes.append(decimal: number)
            }
        case .text: bytes.appendText("\(layout.entity) ", value)
        case .email:
            bytes.append("\"employee")
            bytes.append(decimal: value)
            bytes.append("@example.com\"")
        case .decimal:
            bytes.append(decimal: 3_000 + value % 977)
            bytes.append(".")
            bytes.append(decimal: 10 + value % 90)
        case .double:
            bytes.append(decimal: value % 1_000 / 8)
            bytes.append(".")
            // Three digits, of which the first may be 0.
            bytes.append(decimal: 1_000 + value % 8 * 125)
            bytes.remove(at: bytes.count - 4)
        case .boolean: bytes.append((value & 1) == 0 ? "true" : "false")
        case .date:
            bytes.append("\"2015-03-")
            bytes.append(twoDigits: 1 + value % 28)
            bytes.append("T")
            bytes.append(twoDigits: value % 24)
            bytes.append(":30:00Z\"")
        case .integer(let modulus): bytes.append(decimal: value % modulus)
        case .department:
            bytes.append("{\"id\":")
            bytes.append(decimal: number % RecordLayout.departments)
            bytes.append(",\"name\":")
            bytes.appendText("Department ", number % RecordLayout.departments)
            bytes.append("}")
        }
        bytes.append(UInt8(ascii: ","))
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ text: StaticString) {
        append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// A text of a word and a number in quotes; it has nothing to escape.
    fileprivate mutating func appendText(_ word: String, _ number: Int) {
        append(UInt8(ascii: "\""))
        append(contentsOf: word.utf8)
        append(decimal: number)
        append(UInt8(ascii: "\""))
    }

    fileprivate mutating func append(decimal number: Int) { append(contentsOf: String(number).utf8) }

    fileprivate mutating func append(twoDigits number: Int) {
        append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / 10))
        append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number % 10))
    }

    /// A UUID of version 4 in quotes (RFC 9562), the same for the same number.
    fileprivate mutating func append(uuid number: Int, seed: UInt64) {
        var random = LoadRandom(seed: seed, number: number)
        let high = random.next() & ~0xF000 | 0x4000
        let low = random.next() & ~(0b11 << 62) | 0b10 << 62
        append(UInt8(ascii: "\""))
        for (place, digit) in (high.hexadecimalText + low.hexadecimalText).uppercased().utf8.enumerated() {
            if [8, 12, 16, 20].contains(place) { append(UInt8(ascii: "-")) }
            append(digit)
        }
        append(UInt8(ascii: "\""))
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers for the same seed on every machine.
struct LoadRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// A generator of its own for one number of a sequence, so that the record of a number needs none before it.
    init(seed: UInt64, number: Int) {
        state = Self.mixed(seed &+ UInt64(bitPattern: Int64(number)) &* 0x9E37_79B9_7F4A_7C15)
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return Self.mixed(state)
    }

    mutating func chance(_ probability: Double) -> Bool { Double(next() >> 11) * 0x1p-53 < probability }

    private static func mixed(_ number: UInt64) -> UInt64 {
        var mixed = number
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
