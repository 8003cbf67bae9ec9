import BrokerJSON
import BrokerModel

/// One attribute's conversion, compiled once from the model; immutable, shared by all workers.
///
/// A class, because it is large and every value of every record is passed to one.
///
/// Converts as RestKit's table does and never loses information: a value that does not fit exactly is rejected. Texts
/// that need no change stay in the document; other results are in the caller's arena.
final class ValueConverter: Sendable {
    /// The reading and storing of dates and calendar dates; for these attributes only.
    struct Dates: Sendable {
        var formats: [DateFormat] = []
        var zone = LocalZone.utc
        var storage = DateStorage.iso8601
        /// The digits of a second's fraction in a stored text.
        var precision = Attribute.defaultPrecision
        /// A number of 13 digits or more is milliseconds since 1970, and texts may contain numbers.
        var readsUnixTime = false
        /// ``readsUnixTime`` by the first of the attribute's formats: dates are written this way, too.
        var writesUnixTime = false

        /// The stored form of a time: smaller parts are cut off, toward the past.
        func cell(of instant: Instant, arena: inout ByteArena) -> Cell {
            switch storage {
            case .iso8601: .text(ISO8601.write(instant, digits: precision, arena: &arena))
            case .unix: .integer(Int64(instant.seconds))
            case .coreData: .real(instant.secondsSinceCoreDataReference)
            }
        }

        /// The time of a stored value; nil for a value of another form, which another program stored.
        func instant(_ cell: Cell) -> Instant? {
            switch (storage, cell.kind) {
            case (.iso8601, .text): ISO8601.instant(cell.bytes, zone: .utc)
            case (.unix, .integer): Instant(seconds: Int(cell.integer))
            case (.coreData, .real): Instant(secondsSinceCoreDataReference: cell.real)
            case (.coreData, .integer): Instant(secondsSinceCoreDataReference: Double(cell.integer))
            default: nil
            }
        }

        /// Whether both times have the same stored form.
        func isSame(_ one: Instant, _ other: Instant) -> Bool {
            guard storage != .coreData else {
                return one.secondsSinceCoreDataReference == other.secondsSinceCoreDataReference
            }
            let unit = Instant.unit(digits: storage == .unix ? 0 : precision)
            return one.seconds == other.seconds && one.nanoseconds / unit == other.nanoseconds / unit
        }

        /// Whether the stored form of the time has all its digits.
        func isExact(_ instant: Instant) -> Bool {
            guard !instant.hasFurtherDigits else { return false }
            return switch storage {
            case .iso8601: instant.nanoseconds % Instant.unit(digits: precision) == 0
            case .unix: instant.nanoseconds == 0
            case .coreData:
                Instant(secondsSinceCoreDataReference: instant.secondsSinceCoreDataReference).map { $0 == instant }
                    ?? false
            }
        }
    }

    let name: String
    let type: AttributeType
    let transform: TextTransform?
    let dates: Dates
    /// The digits after the point of a decimal that is stored as an integer; nil otherwise.
    let scale: Int?
    let limits: ValueLimits
    /// For inserts without a value; nil means NULL.
    let defaultCell: OwnedCell?

    init(
        name: String, type: AttributeType, transform: TextTransform?, dates: Dates, scale: Int?, limits: ValueLimits,
        defaultCell: OwnedCell?
    ) {
        self.name = name
        self.type = type
        self.transform = transform
        self.dates = dates
        self.scale = scale
        self.limits = limits
        self.defaultCell = defaultCell
    }

    /// Returns the cell to store: never `absent` or `object`, and `null` for JSON's null alone.
    ///
    /// Valid while the document of the value and the arena live.
    func convert(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        arena.isInexact = false
        guard !value.isNull else { return .null }
        let cell =
            switch type {
            case .integer16: try integer(value, in: Int64(Int16.min)...Int64(Int16.max), arena: &arena)
            case .integer32: try integer(value, in: Int64(Int32.min)...Int64(Int32.max), arena: &arena)
            case .integer64: try integer(value, in: Int64.min...Int64.max, arena: &arena)
            case .string: try string(value, arena: &arena)
            case .boolean: try boolean(value, arena: &arena)
            case .date, .calendarDate: try date(value, arena: &arena)
            case .decimal:
                if let scale {
                    try decimal(value, scale: scale, arena: &arena)
                } else {
                    try decimal(value, arena: &arena)
                }
            case .double: try real(value, largest: Double.greatestFiniteMagnitude, arena: &arena)
            case .float: try real(value, largest: Double(Float.greatestFiniteMagnitude), arena: &arena)
            case .uuid: try uuid(value, arena: &arena)
            case .uri: try uri(value, arena: &arena)
            case .binary: try binary(value, arena: &arena)
            case .transformable: Cell.text(CompactJSON.text(of: value, arena: &arena))
            }
        guard limits.isLimiting else { return cell }
        if let breach = limits.breach(by: cell, budget: &arena.workBudget) { throw violation(breach, value, cell) }
        return cell
    }

    /// Converts a key that is no part of a record. `false`, which some servers send for no object, is no number and no text.
    func convert(key: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        guard key.kind != .true && key.kind != .false || type == .boolean else {
            throw refusal(
                of: key, as: "a key", remedy: "if it means no object, name it in the \"none\" of the relationship")
        }
        return try convert(key, arena: &arena)
    }

    /// Returns a string's content after the transforms.
    @inline(__always)
    func text(of string: JSONValue, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        guard let transform else { return string.bytes }
        return transform.apply(to: string.bytes, arena: &arena)
    }
}
