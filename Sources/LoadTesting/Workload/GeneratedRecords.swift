/// Makes records: the same options, number and version give the same bytes, on every machine.
package struct GeneratedRecords: Sendable {
    package let layout: RecordLayout
    private let options: RecordOptions
    /// The fields' order, shuffled for each record if requested.
    private var order: [Int]
    private let isPlain: Bool

    package init(_ options: RecordOptions) {
        self.options = options
        layout = RecordLayout(options)
        order = Array(layout.fields.indices)
        isPlain = options.presence >= 1 && options.nulls <= 0 && options.keyOrder == .declared
    }

    /// Appends one record.
    ///
    /// - Parameters:
    ///   - version: two versions of a record in a row differ in every value that is there, but not in its links.
    ///   - isInvalid: its identity is one that no conversion takes.
    package mutating func write(_ number: Int, version: Int = 0, isInvalid: Bool = false, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "{"))
        if isPlain {
            for field in layout.fields { write(field, number, version, isInvalid, to: &bytes) }
        } else {
            writeVarying(number, version, isInvalid, to: &bytes)
        }
        // Every field ends with a comma.
        bytes[bytes.count - 1] = UInt8(ascii: "}")
    }

    private mutating func writeVarying(_ number: Int, _ version: Int, _ isInvalid: Bool, to bytes: inout [UInt8]) {
        var random = LoadRandom(seed: options.seed, number: number)
        if options.keyOrder == .random {
            for place in order.indices { order[place] = place }
            order.shuffle(using: &random)
        }
        for place in order {
            let field = layout.fields[place]
            guard field.kind != .identity else {
                write(field, number, version, isInvalid, to: &bytes)
                continue
            }
            guard random.chance(options.presence) else { continue }
            if !field.isLink, random.chance(options.nulls) {
                bytes.append(contentsOf: field.prefix)
                bytes.append("null,")
            } else {
                write(field, number, version, isInvalid, to: &bytes)
            }
        }
    }

    /// A member with its comma.
    private func write(
        _ field: RecordField, _ number: Int, _ version: Int, _ isInvalid: Bool, to bytes: inout [UInt8]
    ) {
        bytes.append(contentsOf: field.prefix)
        // No modulus below divides the step, so each version has other values than the one before.
        let value = number &+ version &* 131
        switch field.kind {
        case .identity:
            if isInvalid { bytes.append("[") }
            writeKey(number, to: &bytes)
            if isInvalid { bytes.append("]") }
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
            bytes.append(decimal: 1_000 + value % 8 * 125)
            bytes.remove(at: bytes.count - 4)
        case .boolean: bytes.append((value & 1) == 0 ? "true" : "false")
        case .date: writeDate(value, to: &bytes)
        case .integer(let modulus): bytes.append(decimal: value % modulus)
        case .department:
            bytes.append("{\"id\":")
            bytes.append(decimal: number % RecordLayout.departments)
            bytes.append(",\"name\":")
            bytes.appendText("Department ", number % RecordLayout.departments)
            bytes.append("}")
        case .departmentKey: bytes.append(decimal: number % RecordLayout.departments)
        case .managerKey: writeKey(number / 10, to: &bytes)
        case .projectKeys: writeProjects(number, to: &bytes)
        }
        bytes.append(UInt8(ascii: ","))
    }

    private func writeDate(_ value: Int, to bytes: inout [UInt8]) {
        bytes.append("\"2015-03-")
        bytes.append(twoDigits: 1 + value % 28)
        bytes.append("T")
        bytes.append(twoDigits: value % 24)
        bytes.append(":30:00Z\"")
    }

    private func writeProjects(_ number: Int, to bytes: inout [UInt8]) {
        for place in 0..<RecordLayout.projectsOfRecord {
            bytes.append(place == 0 ? "[" : ",")
            bytes.append(decimal: (number &* 7 &+ place &* 601) % RecordLayout.projects)
        }
        bytes.append("]")
    }

    // MARK: - Identities

    /// The identity of the record of that number, as JSON.
    package func writeKey(_ number: Int, to bytes: inout [UInt8]) {
        switch options.keys {
        case .ascending: bytes.append(decimal: number)
        case .random: bytes.append(decimal: Self.scattered(number, options.seed))
        case .uuid: bytes.append(uuid: number, seed: options.seed)
        }
    }

    /// A permutation of the numbers of 53 bits, which JSON readers everywhere keep exactly.
    static func scattered(_ number: Int, _ seed: UInt64) -> Int {
        let mask: UInt64 = 1 << 53 - 1
        var mixed = (UInt64(number) ^ LoadRandom.mixed(seed)) & mask
        mixed = (mixed &* 0x9E37_79B9_7F4A_7C15) & mask
        mixed ^= mixed >> 26
        mixed = (mixed &* 0xBF58_476D_1CE4_E5B9) & mask
        mixed ^= mixed >> 27
        return Int(mixed)
    }
}

extension [UInt8] {
    mutating func append(_ text: StaticString) {
        append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// A text of a word and a number in quotes; it has nothing to escape.
    mutating func appendText(_ word: String, _ number: Int) {
        append(UInt8(ascii: "\""))
        append(contentsOf: word.utf8)
        append(decimal: number)
        append(UInt8(ascii: "\""))
    }

    mutating func append(decimal number: Int) {
        if number < 0 { append(UInt8(ascii: "-")) }
        var rest = number.magnitude
        let start = count
        repeat {
            append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10))
            rest /= 10
        } while rest > 0
        self[start...].reverse()
    }

    mutating func append(twoDigits number: Int) {
        append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / 10 % 10))
        append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number % 10))
    }

    /// A UUID of version 4 in quotes (RFC 9562), the same for the same number.
    mutating func append(uuid number: Int, seed: UInt64) {
        var random = LoadRandom(seed: seed, number: number)
        let high = random.next() & ~0xF000 | 0x4000
        let low = random.next() & ~(0b11 << 62) | 0b10 << 62
        append(UInt8(ascii: "\""))
        for place in 0..<32 {
            if place == 8 || place == 12 || place == 16 || place == 20 { append(UInt8(ascii: "-")) }
            let half = place < 16 ? high : low
            let digit = UInt8(truncatingIfNeeded: half >> UInt64(60 - place % 16 * 4)) & 0xF
            append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "A") + digit - 10)
        }
        append(UInt8(ascii: "\""))
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers for the same seed on every machine.
package struct LoadRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    /// A generator of its own for one number of a sequence, so that the record of a number needs none before it.
    package init(seed: UInt64, number: Int) {
        state = Self.mixed(seed &+ UInt64(bitPattern: Int64(number)) &* 0x9E37_79B9_7F4A_7C15)
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return Self.mixed(state)
    }

    /// True with that probability.
    mutating func chance(_ probability: Double) -> Bool {
        Double(next() >> 11) * 0x1p-53 < probability
    }

    /// A permutation of the 64-bit numbers that looks like chance.
    static func mixed(_ number: UInt64) -> UInt64 {
        var mixed = number
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// The options of generated records.
package enum RecordShape: String, CaseIterable, Sendable {
    /// Eight attributes and a link by a bare key.
    case flat
    /// Eight attributes and a link to an object that is nested in the record.
    case nested
    /// An identity and attributes of which each is there or not.
    case ragged
    /// A name, two to-one links and three links of a to-many, all by bare keys.
    case links
    /// An identity and a hundred attributes.
    case wide
}

/// The identities of records, in the order of new ones.
package enum RecordKeys: String, CaseIterable, Sendable {
    /// The records' numbers.
    case ascending
    /// Integers of 53 bits in an order that looks like chance.
    case random
    /// UUIDs that look like chance.
    case uuid
}

/// The order of a record's keys.
package enum RecordKeyOrder: String, CaseIterable, Sendable {
    /// The identity first, then as the model has them.
    case declared
    /// Another for each record.
    case random
}

/// How records are made. The same options and the same number give the same record.
package struct RecordOptions: Sendable, Equatable {
    package var shape: RecordShape
    /// Attributes beside the identity, for `ragged` and `wide`.
    package var attributes: Int
    /// The probability that an attribute or a link is there.
    package var presence: Double
    /// The probability that an attribute that is there is null.
    package var nulls: Double
    package var keyOrder: RecordKeyOrder
    package var keys: RecordKeys
    package var seed: UInt64

    /// - Parameters:
    ///   - attributes: nil is 12 for `ragged` and 100 for `wide`.
    ///   - presence: nil is one half for `ragged` and 1 for the others.
    package init(
        shape: RecordShape = .nested, attributes: Int? = nil, presence: Double? = nil, nulls: Double = 0,
        keyOrder: RecordKeyOrder = .declared, keys: RecordKeys = .ascending, seed: UInt64 = 1
    ) {
        self.shape = shape
        self.attributes = attributes ?? (shape == .wide ? 100 : 12)
        self.presence = presence ?? (shape == .ragged ? 0.5 : 1)
        self.nulls = nulls
        self.keyOrder = keyOrder
        self.keys = keys
        self.seed = seed
    }
}
