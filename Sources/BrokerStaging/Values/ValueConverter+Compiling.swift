import BrokerJSON
import BrokerModel
internal import Glibc

extension ValueConverter {
    /// - Parameter patterns: those of the model.
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
        limits.bounds = bounds(by: converter)
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

    private mutating func bounds(by converter: ValueConverter) -> ValueLimits.Bounds {
        let constraints = attribute.constraints
        guard constraints.minimum != nil || constraints.maximum != nil else { return .none }
        guard attribute.type.isNumber || attribute.type.isDate else {
            fault("\"min\" and \"max\" are for numbers and dates; omit them for \(attribute.type.rawValue)")
            return .none
        }
        if attribute.type.isDate {
            let minimum = instant(constraints.minimum, named: "min", by: converter) ?? .earliest
            return range(minimum, instant(constraints.maximum, named: "max", by: converter) ?? .latest)
                .map { .date($0) } ?? .none
        }
        let minimum = constraints.minimum.flatMap { bound(of: $0.text, named: "min", by: converter) }
        let maximum = constraints.maximum.flatMap { bound(of: $0.text, named: "max", by: converter) }
        switch attribute.type {
        case .decimal where attribute.decimalScale == nil:
            if let minimum, let maximum,
                DecimalText(normal: minimum.cell.bytes) > DecimalText(normal: maximum.cell.bytes)
            {
                reportEmptyRange()
            }
            return .decimal(minimum: minimum, maximum: maximum)
        case .double, .float:
            return range(minimum?.cell.real ?? -.infinity, maximum?.cell.real ?? .infinity)
                .map { .real($0) } ?? .none
        default:
            return range(minimum?.cell.integer ?? .min, maximum?.cell.integer ?? .max).map { .integer($0) } ?? .none
        }
    }

    private mutating func range<Bound: Comparable>(_ minimum: Bound, _ maximum: Bound) -> ClosedRange<Bound>? {
        if minimum > maximum { reportEmptyRange() }
        return minimum <= maximum ? minimum...maximum : nil
    }

    private mutating func reportEmptyRange() {
        fault("\"min\" is greater than \"max\", so that no value is allowed; exchange them")
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

extension ValueConverter {
    @inline(__always)
    func integer(
        _ value: JSONValue, in range: ClosedRange<Int64>, arena: inout ByteArena
    ) throws(ValueFault) -> Cell {
        if let number = value.int64, range.contains(number) { return .integer(number) }
        return .integer(try writtenInteger(value, in: range, arena: &arena))
    }

    /// Converts any value but a number that is written as an integer and fits.
    private func writtenInteger(
        _ value: JSONValue, in range: ClosedRange<Int64>, arena: inout ByteArena
    ) throws(ValueFault) -> Int64 {
        switch value.kind {
        case .true: return 1
        case .false: return 0
        case .number, .string:
            let text = value.kind == .string ? text(of: value, arena: &arena) : value.bytes
            guard let number = NumberText(text) else { break }
            guard let integer = number.int64 else {
                if number.isWhole { throw outOfRange(value, range) }
                throw refusal(of: value, as: "a whole number", remedy: "decimal and double keep fractions")
            }
            guard range.contains(integer) else { throw outOfRange(value, range) }
            return integer
        case .null, .array, .object: break
        }
        throw refusal(of: value, as: "a whole number")
    }

    @inline(never) private func outOfRange(_ value: JSONValue, _ range: ClosedRange<Int64>) -> ValueFault {
        let remedy = (type == .integer64 ? "" : "integer64 holds more, and ") + Self.widerType(for: value)
        return ValueFault(
            reason: .inconvertible,
            message: "\(Self.shown(value)) does not fit attribute \"\(self.name)\": \(self.type.rawValue) holds "
                + "\(range.lowerBound) to \(range.upperBound); \(remedy)")
    }

    /// The type that holds a number of any size: decimal, unless the exponent is too large for it.
    private static func widerType(for value: JSONValue) -> String {
        var arena = ByteArena()
        let isDecimal = NumberText(value.bytes).map { DecimalText.normalise($0, arena: &arena) != nil } ?? true
        return isDecimal ? "decimal keeps every digit" : "string holds it as it is written"
    }

    func decimal(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        var written = value.bytes
        switch value.kind {
        case .true: return .text(Self.one)
        case .false: return .text(Self.zero)
        case .number where DecimalText.isNormal(jsonNumber: written): return .text(written)
        case .number: break
        case .string: written = text(of: value, arena: &arena)
        case .null, .array, .object: throw refusal(of: value, as: "a number")
        }
        guard let number = NumberText(written) else { throw refusal(of: value, as: "a number") }
        guard let text = DecimalText.normalise(number, arena: &arena) else {
            // Beyond its range a double would be infinite, or zero.
            let isInRange = number.double.map { $0.isFinite && $0 != 0 } ?? false
            throw ValueFault(
                reason: .inconvertible,
                message: "\(Self.shown(value)) has an exponent too large for attribute \"\(self.name)\": a decimal may "
                    + "have \(DecimalText.maximumExpandedDigits) digits when it is written out; "
                    + (isInRange ? "double holds it, rounded" : "string holds it as it is written"))
        }
        return .text(text)
    }

    /// A decimal as a whole number of units, each ten to the power of `-scale`.
    func decimal(_ value: JSONValue, scale: Int, arena: inout ByteArena) throws(ValueFault) -> Cell {
        let written: UnsafeBufferPointer<UInt8>
        switch value.kind {
        case .true: written = Self.one
        case .false: written = Self.zero
        case .number: written = value.bytes
        case .string: written = text(of: value, arena: &arena)
        case .null, .array, .object: throw refusal(of: value, as: "a number")
        }
        guard let number = NumberText(written)?.scaled(by: scale) else { throw refusal(of: value, as: "a number") }
        if let units = number.int64 { return .integer(units) }
        let limit =
            number.isWhole
            ? "its values are whole numbers of 64 bits with \(scale) of the digits after the point"
            : "its \"scale\" allows \(scale) digits after the point"
        throw ValueFault(
            reason: .inconvertible,
            message: "\(Self.shown(value)) does not fit attribute \"\(self.name)\": \(limit); "
                + "\"storage\": \"text\" keeps every digit")
    }

    /// - Parameter largest: the greatest finite value of the type.
    func real(_ value: JSONValue, largest: Double, arena: inout ByteArena) throws(ValueFault) -> Cell {
        let number: Double?
        var written = value.bytes
        switch value.kind {
        case .true: return .real(1)
        case .false: return .real(0)
        case .number: number = Double(fastJSONNumber: written)
        case .string:
            written = text(of: value, arena: &arena)
            guard let text = NumberText(written) else { throw refusal(of: value, as: "a number") }
            number = text.double
        case .null, .array, .object: throw refusal(of: value, as: "a number")
        }
        guard let number, number.magnitude <= largest || Float(number).isFinite else {
            throw ValueFault(
                reason: .inconvertible,
                message: "\(Self.shown(value)) is too large for attribute \"\(self.name)\": \(self.type.rawValue) ends "
                    + "at \(largest); \(Self.widerType(for: value))")
        }
        // A double holds each integer of 15 digits exactly.
        if written.count > 15 || number == 0, Self.isInexact(written, number) { arena.isInexact = true }
        return .real(number)
    }

    /// Whether the number loses information as a double: an integer becomes another number, or a number other than zero
    /// becomes 0. Rounding a fraction to the nearest double is no loss in this sense.
    ///
    /// An integer has neither fraction nor exponent. An integer that a program printed from a double is exact, whether
    /// with all digits of the double or with the fewest that read as it.
    @inline(never) private static func isInexact(_ written: UnsafeBufferPointer<UInt8>, _ double: Double) -> Bool {
        guard let number = NumberText(written) else { return false }
        if double == 0 { return (0..<number.digitCount).contains { number.digit($0) != 0 } }
        guard number.fraction.isEmpty, number.exponent == 0 else { return false }
        if let integer = number.int64 {
            // 2^63 as a double is out of range.
            if let exact = Int64(exactly: double), exact == integer { return false }
        } else if double.integerDigits.withUnsafeBufferPointer({ number.hasSameDigits(as: $0) }) {
            return false
        }
        var shortest = double.description
        return shortest.withUTF8 { text in NumberText(text).map { !number.hasSameValue(as: $0) } ?? true }
    }

    func boolean(_ value: JSONValue, arena: inout ByteArena) throws(ValueFault) -> Cell {
        switch value.kind {
        case .true: return .integer(1)
        case .false: return .integer(0)
        case .number:
            if let number = NumberText(value.bytes)?.int64, number == 0 || number == 1 { return .integer(number) }
        case .string:
            if let truth = Self.truth(of: text(of: value, arena: &arena)) { return .integer(truth ? 1 : 0) }
        case .null, .array, .object: break
        }
        throw refusal(of: value, as: "true or false", remedy: "yes, no, t, f, y, n, 1 and 0 will do as well")
    }

    private static func truth(of word: UnsafeBufferPointer<UInt8>) -> Bool? {
        switch word.count {
        case 1:
            switch word[0] {
            case UInt8(ascii: "1"), UInt8(ascii: "t"), UInt8(ascii: "T"), UInt8(ascii: "y"), UInt8(ascii: "Y"): true
            case UInt8(ascii: "0"), UInt8(ascii: "f"), UInt8(ascii: "F"), UInt8(ascii: "n"), UInt8(ascii: "N"): false
            default: nil
            }
        case 2: isWord(word, "no") ? false : nil
        case 3: isWord(word, "yes") ? true : nil
        case 4: isWord(word, "true") ? true : nil
        case 5: isWord(word, "false") ? false : nil
        default: nil
        }
    }

    private static func isWord(_ text: UnsafeBufferPointer<UInt8>, _ word: StaticString) -> Bool {
        var cursor = TextCursor(text)
        return cursor.take(anyCase: word) && cursor.isAtEnd
    }

    private static let digits: StaticString = "01"
    private static var zero: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: digits.utf8Start, count: 1) }
    private static var one: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: digits.utf8Start + 1, count: 1) }
}

extension Double {
    /// All digits of a whole number, without the sign.
    fileprivate var integerDigits: [UInt8] {
        var buffer = [CChar](repeating: 0, count: 320)
        let count = withVaList([magnitude]) { vsnprintf(&buffer, buffer.count, "%.0f", $0) }
        return buffer.prefix(Int(count)).map { UInt8(bitPattern: $0) }
    }
}

extension NumberText {
    fileprivate func hasSameDigits(as other: UnsafeBufferPointer<UInt8>) -> Bool {
        integer.drop { $0 == UInt8(ascii: "0") }.elementsEqual(other)
    }

    /// Whether the values are equal without their signs.
    fileprivate func hasSameValue(as other: NumberText) -> Bool {
        let (own, others) = (normal, other.normal)
        return own.digits == others.digits && own.exponent == others.exponent
    }

    /// The digits without zeros at either end, and the power of ten of the last one.
    private var normal: (digits: [UInt8], exponent: Int) {
        var digits = (0..<digitCount).map { digit($0) }
        var exponent = exponent - fraction.count
        while digits.last == 0 {
            digits.removeLast()
            exponent += 1
        }
        return (Array(digits.drop { $0 == 0 }), digits.isEmpty ? 0 : exponent)
    }
}
