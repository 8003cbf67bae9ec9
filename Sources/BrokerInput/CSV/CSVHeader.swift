import BrokerJSON

/// The header line of CSV: the position of each field in a record. Dots make nested objects.
///
/// Each field has a place of its own: one without a name is `column_N`, and one whose name is taken gets a number.
struct CSVHeader {
    /// A key of an object, and its value.
    private struct Member {
        let key: String
        var value: Value
    }

    private enum Value {
        case field(Int)
        /// The index of an object in ``objects``.
        case object(Int)
    }

    private struct Key: Hashable {
        let object: Int
        let name: [UInt8]
    }

    /// The record itself, and its nested objects; a nested object follows its parent.
    private var objects: [[Member]] = [[]]
    private var places: [Key: Value] = [:]
    /// The next number for a field whose name is taken.
    private var numbers: [Key: Int] = [:]
    /// The number of fields of each line.
    let count: Int

    /// - Parameter place: the position of the line.
    /// - Throws: for a name with too many dots.
    init(_ names: [String], at place: InputPlace) throws(InputFault) {
        count = names.count
        let written = CSVNames(names)
        for field in names.indices {
            let path = written.path(of: field)
            guard path.count < RecordLimits.maximumDepth else {
                throw InputFault(
                    reason: "the header's field \(field + 1) has too many dots: \(RecordLimits.tooDeep)", place: place)
            }
            var object = 0
            for name in path.dropLast() { object = nested(Key(object: object, name: name)) }
            add(field, Key(object: object, name: path[path.count - 1]), isGiven: written.isGiven(field), written)
        }
    }

    /// The number of the object at that key.
    private mutating func nested(_ key: Key) -> Int {
        // Names that other fields have as values are no paths.
        if case .object(let number) = places[key] { return number }
        objects.append([])
        add(.object(objects.count - 1), at: key)
        return objects.count - 1
    }

    private mutating func add(_ field: Int, _ key: Key, isGiven: Bool, _ written: CSVNames) {
        // A name that was made here gives way to those of the header.
        guard places[key] != nil || (!isGiven && written.hasKey(key.name)) else {
            return add(.field(field), at: key)
        }
        var number = numbers[key] ?? 2
        while true {
            let numbered = Key(object: key.object, name: key.name + Array("_\(number)".utf8))
            number += 1
            guard places[numbered] == nil, !written.hasKey(numbered.name) else { continue }
            numbers[key] = number
            return add(.field(field), at: numbered)
        }
    }

    private mutating func add(_ value: Value, at key: Key) {
        objects[key.object].append(Member(key: String(decoding: key.name, as: UTF8.self), value: value))
        places[key] = value
    }

    /// The record of a line. A missing value is null, and so is an object with only missing values.
    ///
    /// - Precondition: the row has fields of UTF-8.
    func record(of row: CSVRow) -> [UInt8] {
        var isMissing = [Bool](repeating: true, count: objects.count)
        for object in objects.indices.reversed() {
            isMissing[object] = objects[object].allSatisfy { member in
                switch member.value {
                case .field(let field): row.isMissing(field)
                case .object(let number): isMissing[number]
                }
            }
        }
        var writer = JSONWriter(capacity: row.count + 16 * count)
        // A line with only missing values is a record, too.
        isMissing[0] = false
        write(0, of: row, isMissing, to: &writer)
        return writer.bytes
    }

    private func write(_ object: Int, of row: CSVRow, _ isMissing: [Bool], to writer: inout JSONWriter) {
        guard !isMissing[object] else { return writer.null() }
        writer.object { writer in
            for member in objects[object] {
                writer.key(member.key)
                switch member.value {
                case .field(let field) where row.isMissing(field): writer.null()
                case .field(let field): row.withText(field) { writer.string($0) }
                case .object(let number): write(number, of: row, isMissing, to: &writer)
                }
            }
        }
    }
}

/// The fields of one line of CSV, without their quotes.
struct CSVRow {
    private var bytes: [UInt8] = []
    /// The end of each field in ``bytes``, and whether it was quoted.
    private var fields: [(end: Int, isQuoted: Bool)] = []

    /// The beginning of the field that is being read; nil between two fields.
    var fieldPlace: InputPlace?
    /// The field that is being read is quoted.
    var isQuoted = false

    /// Bytes of all fields.
    var count: Int { bytes.count }
    var fieldCount: Int { fields.count }

    mutating func append(_ more: some Collection<UInt8>) { bytes.append(contentsOf: more) }

    mutating func endField() {
        fields.append((bytes.count, isQuoted))
        fieldPlace = nil
        isQuoted = false
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        fields.removeAll(keepingCapacity: true)
    }

    /// Each field is quoted, if it needs quotes or not.
    var isQuotedThroughout: Bool { fields.allSatisfy(\.isQuoted) }

    /// Quotes do not distinguish an empty text from a missing value.
    var ignoresQuotes = false

    /// Not there, or empty and not quoted: a missing value.
    func isMissing(_ field: Int) -> Bool {
        field >= fields.count || (range(field).isEmpty && (ignoresQuotes || !fields[field].isQuoted))
    }

    func withText<Result>(_ field: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        bytes.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[range(field)])) }
    }

    var texts: [String] {
        fields.indices.map { withText($0) { String(decoding: $0, as: UTF8.self) } }
    }

    /// The first byte of the field that is being read that is not UTF-8, and its position.
    var fieldFault: (place: InputPlace, seen: String)? {
        let start = fields.last?.end ?? 0
        let offset = bytes.withUnsafeBufferPointer { utf8FaultOffset(UnsafeBufferPointer(rebasing: $0[start...])) }
        guard let offset, let fieldPlace else { return nil }
        // Each quote was two bytes, and one preceded the field.
        var written = isQuoted ? [UInt8(ascii: "\"")] : []
        for byte in bytes[start..<start + offset] {
            written.append(byte)
            if byte == UInt8(ascii: "\"") { written.append(byte) }
        }
        return (fieldPlace.advanced(over: written), bytes[start + offset].asSeen)
    }

    private func range(_ field: Int) -> Range<Int> { (field == 0 ? 0 : fields[field - 1].end)..<fields[field].end }
}

/// The names of a header, and the paths to which they lead.
///
/// Dots divide a name into keys, except in one like `No.`, `St. Name` or `a..b`, and where another name makes a value of
/// one of its objects. There each dot becomes `_`, because no key path of a model could have it.
struct CSVNames {
    private var paths: [[[UInt8]]] = []
    private var given: [Bool] = []
    /// All keys of the names that are in the header as they are.
    private var givenKeys: Set<[UInt8]> = []

    private static let dot = UInt8(ascii: ".")

    init(_ names: [String]) {
        for (index, name) in names.enumerated() {
            let isBlank = name.utf8.allSatisfy(Self.isBlank)
            let written = isBlank ? Array("column_\(index + 1)".utf8) : Array(name.utf8)
            let isPath = Self.isPath(written)
            paths.append(
                isPath ? written.split(separator: Self.dot).map(Array.init) : [Self.withoutDots(written)])
            given.append(!isBlank && (isPath || !written.contains(Self.dot)))
        }
        flattenPathsThroughValues()
        for (index, path) in paths.enumerated() where given[index] { givenKeys.formUnion(path) }
    }

    func path(of field: Int) -> [[UInt8]] { paths[field] }

    /// The name is in the header as it is.
    func isGiven(_ field: Int) -> Bool { given[field] }

    /// A name of the header has that key.
    func hasKey(_ key: [UInt8]) -> Bool { givenKeys.contains(key) }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

    /// Each dot is between two bytes that are no dots and not blank.
    private static func isPath(_ name: [UInt8]) -> Bool {
        for (index, byte) in name.enumerated() where byte == dot {
            guard index > 0, index + 1 < name.count else { return false }
            for neighbour in [name[index - 1], name[index + 1]] where neighbour == dot || isBlank(neighbour) {
                return false
            }
        }
        return true
    }

    private static func withoutDots(_ name: [UInt8]) -> [UInt8] { name.map { $0 == dot ? UInt8(ascii: "_") : $0 } }

    private struct Key: Hashable {
        let object: Int
        let name: [UInt8]
    }

    /// `a.b` beside `a`.
    private mutating func flattenPathsThroughValues() {
        guard paths.contains(where: { $0.count > 1 }) else { return }
        var objects: [Key: Int] = [:]
        var values: Set<Key> = []
        func key(_ path: [[UInt8]], _ depth: Int, in object: Int) -> Key { Key(object: object, name: path[depth]) }
        for path in paths {
            var object = 0
            for depth in path.indices {
                let key = key(path, depth, in: object)
                guard depth < path.count - 1 else {
                    values.insert(key)
                    break
                }
                object = objects[key] ?? objects.count + 1
                objects[key] = object
            }
        }
        for (index, path) in paths.enumerated() where path.count > 1 {
            var object = 0
            for depth in 0..<path.count - 1 {
                let key = key(path, depth, in: object)
                guard !values.contains(key) else {
                    paths[index] = [Array(path.joined(separator: [UInt8(ascii: "_")]))]
                    given[index] = false
                    break
                }
                object = objects[key] ?? 0
            }
        }
    }
}
