import BrokerJSON
import BrokerModel

/// Converts constants to the form in which an attribute stores its values.
enum PredicateConversion {
    enum Result: Equatable {
        case value(PredicateValue)
        /// A number between this integer and the next one, or above the greatest; for values that are stored as integers.
        case above(Int64)
        /// A number below every integer.
        case belowAll
    }

    static func convert(
        _ constant: PredicateConstant, for attribute: Attribute
    ) throws(PredicateFault) -> Result {
        let converter = try converter(for: attribute, at: constant.offset)
        var arena = ByteArena()
        return try convert(constant, by: converter, arena: &arena)
    }

    /// Converts the constants that a stored value can equal.
    static func convert(
        _ constants: [PredicateConstant], for attribute: Attribute
    ) throws(PredicateFault) -> [PredicateValue] {
        guard let first = constants.first else { return [] }
        let converter = try converter(for: attribute, at: first.offset)
        var arena = ByteArena()
        var values: [PredicateValue] = []
        for constant in constants {
            if case .value(let value) = try convert(constant, by: converter, arena: &arena) { values.append(value) }
        }
        return values
    }

    /// A predicate compares with stored values, so the rules for records alone (transforms, limits) do not apply.
    private static func converter(for attribute: Attribute, at offset: Int) throws(PredicateFault) -> ValueConverter {
        // A URI may be compared with any text, for example a part of a URI.
        let type = attribute.type == .uri ? .string : attribute.type
        var plain = Attribute(
            name: attribute.name, type: type, timeZone: attribute.timeZone, dateStorage: attribute.dateStorage)
        (plain.decimalScale, plain.precision) = (attribute.decimalScale, attribute.precision)
        do throws(ModelError) {
            return try ValueConverter.compiled(plain)
        } catch {
            throw PredicateFault(error.description, at: offset)
        }
    }

    private static func convert(
        _ constant: PredicateConstant, by converter: ValueConverter, arena: inout ByteArena
    ) throws(PredicateFault) -> Result {
        let value = constant.value
        if value.kind == .number || value.kind == .string, let number = NumberText(value.bytes) {
            if converter.type.isInteger { return number.nearWhole }
            if let scale = converter.scale { return number.scaled(by: scale).nearWhole }
            if converter.type == .double || converter.type == .float, number.double == nil {
                return .value(.real(number.isNegative ? -.infinity : .infinity))
            }
        }
        do throws(ValueFault) {
            return .value(PredicateValue(try converter.convert(value, arena: &arena)))
        } catch {
            throw PredicateFault(error.message, at: constant.offset)
        }
    }
}

extension NumberText {
    /// The number as a bound for integers.
    fileprivate var nearWhole: PredicateConversion.Result {
        if let exact = int64 { return .value(.integer(exact)) }
        guard let magnitude = wholeMagnitude else { return isNegative ? .belowAll : .above(.max) }
        guard isNegative else {
            return .above(magnitude > UInt64(Int64.max) ? .max : Int64(magnitude))
        }
        // Between two integers, the lower of which is one further from zero; there is none below the least.
        return magnitude >= 1 << 63 ? .belowAll : .above(-Int64(magnitude) - 1)
    }
}

extension PredicateValue {
    /// - Precondition: a value, not a link and not null.
    init(_ cell: Cell) {
        switch cell.kind {
        case .integer: self = .integer(cell.integer)
        case .real: self = .real(cell.real)
        case .text: self = .text(Array(cell.bytes))
        case .blob: self = .blob(Array(cell.bytes))
        case .absent, .null, .object: preconditionFailure("a constant has a value")
        }
    }
}
