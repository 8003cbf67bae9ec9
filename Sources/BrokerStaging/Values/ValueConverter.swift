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
        /// A number of 13 digits or more is milliseconds since 1970, and texts may contain numbers.
        var readsUnixTime = false
        /// ``readsUnixTime`` by the first of the attribute's formats: dates are written this way, too.
        var writesUnixTime = false
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

    /// Returns a string's content after the transforms.
    @inline(__always)
    func text(of string: JSONValue, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        guard let transform else { return string.bytes }
        return transform.apply(to: string.bytes, arena: &arena)
    }
}
