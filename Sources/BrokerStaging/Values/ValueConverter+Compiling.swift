import BrokerJSON
import BrokerModel

extension ValueConverter {
    /// - Throws: all faults in the attribute's formats, time zone, constraints and default value.
    static func compiled(
        _ attribute: Attribute, _ patterns: ModelPatterns = ModelPatterns()
    ) throws(ModelError) -> ValueConverter {
        var compiler = Compiler(attribute: attribute, patterns: patterns)
        let converter = compiler.compile()
        guard compiler.faults.isEmpty else { throw ModelError(faults: compiler.faults) }
        return converter
    }
}

/// Compiles an attribute and collects its faults.
private struct Compiler {
    let attribute: Attribute
    let patterns: ModelPatterns
    var faults: [ModelFault] = []

    mutating func compile() -> ValueConverter {
        let dates = attribute.type.isDate ? dates() : ValueConverter.Dates()
        // The values of the constraints are converted like all values, but without these constraints.
        let limits = limits(of: converter(dates: dates))
        guard let json = attribute.defaultValue?.text else { return converter(dates: dates, limits: limits) }
        let defaultCell = cell(of: json, named: "default", by: converter(dates: dates, limits: limits))
        return converter(dates: dates, limits: limits, defaultCell: defaultCell)
    }

    private func converter(
        dates: ValueConverter.Dates, limits: ValueLimits = ValueLimits(), defaultCell: OwnedCell? = nil
    ) -> ValueConverter {
        ValueConverter(
            name: attribute.name, type: attribute.type, transform: TextTransform(attribute.transforms), dates: dates,
            scale: attribute.decimalScale, limits: limits, defaultCell: defaultCell)
    }

    private mutating func fault(_ message: String) {
        faults.append(ModelFault("attribute \"\(attribute.name)\": \(message)", at: attribute.place))
    }

    private mutating func dates() -> ValueConverter.Dates {
        var dates = ValueConverter.Dates(storage: attribute.dateStorage, precision: attribute.precision)
        if let name = attribute.timeZone {
            if let zone = LocalZone(name) {
                dates.zone = zone
            } else {
                fault(
                    "there is no time zone \"\(name)\"; write an IANA name like Europe/Berlin or an offset like +02:00")
            }
        }
        for (position, pattern) in attribute.dateFormats.enumerated() {
            guard pattern != DateFormat.unixTime || attribute.type == .calendarDate else {
                dates.readsUnixTime = true
                if position == 0 { dates.writesUnixTime = true }
                continue
            }
            do {
                let format = try DateFormat(pattern: pattern, zone: dates.zone)
                if attribute.type == .calendarDate, !format.readsDays {
                    fault(
                        "the date format \"\(pattern)\" reads no calendar date: it needs a year, a month and a day, like "
                            + "dd/MM/yyyy, and other common fields only")
                }
                dates.formats.append(format)
            } catch {
                fault("the date format \"\(pattern)\" cannot be read: \(error.message)")
            }
        }
        return dates
    }
}

// MARK: - Constraints

extension Compiler {
    private mutating func limits(of converter: ValueConverter) -> ValueLimits {
        let constraints = attribute.constraints
        var limits = ValueLimits()
        limits.isLimiting = !constraints.isEmpty
        limits.comparesDecimals = attribute.type == .decimal && attribute.decimalScale == nil
        addBounds(to: &limits, by: converter)
        if constraints.minimumLength != nil || constraints.maximumLength != nil {
            limits.lengths = lengths(constraints)
        }
        if let pattern = constraints.pattern { limits.pattern = compile(pattern) }
        for fragment in constraints.allowed {
            if let cell = cell(of: fragment.text, named: "enum", by: converter) { limits.allowed.append(cell) }
        }
        return limits
    }

    private var isText: Bool { [.string, .uri, .uuid].contains(attribute.type) }

    private mutating func lengths(_ constraints: ValueConstraints) -> ClosedRange<Int>? {
        guard isText else {
            fault("\"minLength\" and \"maxLength\" are for text; omit them for \(attribute.type.rawValue)")
            return nil
        }
        let minimum = constraints.minimumLength ?? 0
        let maximum = constraints.maximumLength ?? .max
        guard minimum >= 0, minimum <= maximum else {
            fault("\"minLength\" \(minimum) and \"maxLength\" \(maximum) allow no value; raise \"maxLength\"")
            return nil
        }
        return minimum...maximum
    }

    private mutating func compile(_ pattern: String) -> RegularExpression? {
        guard isText else {
            fault("\"pattern\" is for text; omit it for \(attribute.type.rawValue)")
            return nil
        }
        do throws(RegularExpression.Problem) {
            return try patterns.expression(pattern)
        } catch {
            fault("\"pattern\" \(pattern.quotedBriefly) \(error.message)")
            return nil
        }
    }

    private mutating func addBounds(to limits: inout ValueLimits, by converter: ValueConverter) {
        let constraints = attribute.constraints
        guard constraints.minimum != nil || constraints.maximum != nil else { return }
        guard attribute.type.isNumber || attribute.type.isDate else {
            return fault("\"min\" and \"max\" are for numbers and dates; omit them for \(attribute.type.rawValue)")
        }
        let isEmpty: Bool
        if attribute.type.isDate {
            let minimum = instant(constraints.minimum, named: "min", by: converter) ?? .earliest
            let maximum = instant(constraints.maximum, named: "max", by: converter) ?? .latest
            isEmpty = minimum > maximum
            if !isEmpty { limits.dates = minimum...maximum }
        } else {
            limits.minimum = constraints.minimum.flatMap { bound(of: $0.text, named: "min", by: converter) }
            limits.maximum = constraints.maximum.flatMap { bound(of: $0.text, named: "max", by: converter) }
            isEmpty =
                if let minimum = limits.minimum, let maximum = limits.maximum {
                    (Cell.order(minimum.cell, maximum.cell, isDecimal: limits.comparesDecimals) ?? 0) > 0
                } else {
                    false
                }
        }
        if isEmpty { fault("\"min\" is greater than \"max\", so that no value is allowed; exchange them") }
    }
}

// MARK: - The model's own values

extension Compiler {
    private mutating func bound(of json: String, named role: String, by converter: ValueConverter) -> OwnedCell? {
        let count = faults.count
        let cell = cell(of: json, named: role, by: converter)
        if cell == nil, faults.count == count { fault("\"\(role)\" is null; omit it for no limit") }
        return cell
    }

    /// Returns the converted value; nil for null, and after a fault.
    private mutating func cell(of json: String, named role: String, by converter: ValueConverter) -> OwnedCell? {
        withDocument(json, named: role) { (value, arena) throws(ValueFault) in
            value.isNull ? nil : OwnedCell(copying: try converter.convert(value, arena: &arena))
        }
    }

    private mutating func instant(
        _ fragment: JSONFragment?, named role: String, by converter: ValueConverter
    ) -> Instant? {
        guard let fragment else { return nil }
        return withDocument(fragment.text, named: role) { (value, arena) throws(ValueFault) in
            try converter.instant(value, arena: &arena)
        }
    }

    private mutating func withDocument<Result>(
        _ json: String, named role: String,
        _ body: (JSONValue, inout ByteArena) throws(ValueFault) -> Result?
    ) -> Result? {
        let document: JSONDocument
        do {
            document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        } catch {
            fault("\"\(role)\" is not JSON: \(error)")
            return nil
        }
        var arena = ByteArena()
        return withExtendedLifetime(document) {
            do throws(ValueFault) {
                return try body(document.root, &arena)
            } catch {
                fault("\"\(role)\" cannot be used: \(error.message)")
                return nil
            }
        }
    }
}

/// The constraints of an attribute, converted to its type.
struct ValueLimits: Sendable {
    /// Any limit is set.
    var isLimiting = false
    /// For dates ``dates``.
    var minimum: OwnedCell?
    var maximum: OwnedCell?
    /// Checked before the date is stored, because storing may round it.
    var dates: ClosedRange<Instant>?
    /// Limit in Unicode scalars on a text; nil without one.
    var lengths: ClosedRange<Int>?
    var pattern: RegularExpression?
    /// The allowed values; empty without a limit.
    var allowed: [OwnedCell] = []
    /// Texts are decimals: equal when their values are.
    var comparesDecimals = false

    /// The limit that a cell breaks.
    enum Breach: Equatable {
        case bounds
        case length
        /// The pattern does not match, or the match was not tried.
        case pattern(RegularExpression.Verdict)
        case notListed
    }

    /// Instructions of a pattern that are free, because the text's own bytes pay for them.
    private static let freeInstructions = 64

    func breach(by cell: Cell, budget: inout WorkBudget) -> Breach? {
        if !isWithinBounds(cell) { return .bounds }
        if cell.kind == .text {
            if let lengths, !lengths.contains(Self.scalarCount(cell.bytes)) { return .length }
            if let pattern {
                let verdict = pattern.verdict(
                    on: cell.bytes, wholeText: false, freeInstructions: Self.freeInstructions, budget: &budget)
                guard verdict == .matches else { return .pattern(verdict) }
            }
        }
        let isAllowed =
            allowed.isEmpty || allowed.contains { Cell.order(cell, $0.cell, isDecimal: comparesDecimals) == 0 }
        return isAllowed ? nil : .notListed
    }

    private func isWithinBounds(_ cell: Cell) -> Bool {
        if let minimum, (Cell.order(cell, minimum.cell, isDecimal: comparesDecimals) ?? 0) < 0 { return false }
        if let maximum, (Cell.order(cell, maximum.cell, isDecimal: comparesDecimals) ?? 0) > 0 { return false }
        return true
    }

    /// Every byte of UTF-8 that does not continue a sequence begins a scalar.
    static func scalarCount(_ text: UnsafeBufferPointer<UInt8>) -> Int {
        var count = 0
        for byte in text where byte & 0xC0 != 0x80 { count += 1 }
        return count
    }
}
