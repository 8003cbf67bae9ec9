import BrokerJSON

/// The header line of CSV: the position of each field in a record. Dots make nested objects.
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

    /// The record itself, and its nested objects; a nested object follows its parent.
    private var objects: [[Member]] = [[]]
    /// The number of fields of each line.
    let count: Int

    /// - Parameter place: the position of the line.
    /// - Throws: the names that are missing, occur twice, or are both a value and an object.
    init(_ names: [String], at place: InputPlace) throws(InputFault) {
        count = names.count
        if let name = names.first, names.count == 1, let separator = name.first(where: { $0 == ";" || $0 == "\t" }) {
            throw InputFault(
                reason:
                    "the header names one field, with a \(separator == ";" ? "semicolon" : "tab") in it; fields are "
                    + "separated by commas here",
                place: place)
        }
        var places: [Key: Value] = [:]
        for (field, name) in names.enumerated() {
            func fault(_ reason: String) -> InputFault {
                InputFault(reason: "the header's field \(field + 1) \(reason)", place: place)
            }
            guard !name.isEmpty else { throw fault("has no name") }
            let parts = name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Array.init)
            guard !parts.contains([]) else { throw fault("is \"\(name)\"; each part between dots must have a name") }
            guard parts.count < RecordLimits.maximumDepth else {
                throw fault("has too many dots: \(RecordLimits.tooDeep)")
            }
            var object = 0
            for (depth, part) in parts.enumerated() {
                let key = Key(object: object, name: part)
                let isLast = depth == parts.count - 1
                switch places[key] {
                case nil where isLast: add(part, .field(field), at: key, to: &places)
                case nil:
                    objects.append([])
                    add(part, .object(objects.count - 1), at: key, to: &places)
                    object = objects.count - 1
                case .object(let number) where !isLast: object = number
                case .field where isLast: throw fault("is \"\(name)\", as another one is; each name may occur once")
                default: throw fault("is \"\(name)\", and another one makes the same a value and an object")
                }
            }
        }
    }

    private struct Key: Hashable {
        let object: Int
        let name: [UInt8]
    }

    private mutating func add(_ name: [UInt8], _ value: Value, at key: Key, to places: inout [Key: Value]) {
        objects[key.object].append(Member(key: String(decoding: name, as: UTF8.self), value: value))
        places[key] = value
    }

    /// The record of a line. A missing value is null, and so is an object with only missing values.
    ///
    /// - Precondition: the row has ``count`` fields of UTF-8.
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
