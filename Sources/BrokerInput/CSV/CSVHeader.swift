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
