import BrokerJSON
import BrokerModel

/// A constant of a predicate, with its offset.
struct PredicateConstant {
    let value: JSONValue
    let offset: Int
}

/// The side of a comparison that has a name, with the attribute whose type counts.
struct PredicateSide {
    let operand: PredicateOperand
    let attribute: Attribute
    let offset: Int

    var described: String { "\(attribute.name.quotedBriefly) (\(attribute.type.rawValue))" }

    private var isText: Bool { attribute.type == .string || attribute.type == .uri }

    private func predicate(_ test: PredicateTest) -> Predicate {
        .comparison(PredicateComparison(operand, test))
    }

    /// - Throws: when values of this type cannot be compared that way.
    func check(_ relation: PredicateRelation) throws(PredicateFault) {
        switch relation.kind {
        case .beginsWith, .endsWith, .contains, .like, .matches:
            guard isText else {
                throw PredicateFault(
                    "\(relation.kind.rawValue) is for texts, and this is \(described)", at: relation.offset)
            }
        case .less, .atMost, .greater, .atLeast, .between:
            guard attribute.type != .transformable else {
                throw PredicateFault("values of \(described) have no order", at: relation.offset)
            }
        case .equal, .notEqual, .isIn: break
        }
        guard !relation.hasOptions || isText && relation.kind != .between else {
            throw PredicateFault("[c] and [d] are for comparisons of texts, and not for BETWEEN", at: relation.offset)
        }
    }

    // MARK: - Tests

    func equals(_ constant: PredicateConstant, _ relation: PredicateRelation) throws(PredicateFault) -> Predicate {
        guard !constant.value.isNull else { return predicate(.isNil) }
        if relation.hasOptions { return try text(.equals, [constant], relation) }
        switch try PredicateConversion.convert(constant, for: attribute) {
        case .value(let value): return predicate(.equals(value))
        case .above, .belowAll: return .always(false)
        }
    }

    func isOrdered(
        _ order: PredicateOrder, _ constant: PredicateConstant, _ relation: PredicateRelation
    ) throws(PredicateFault) -> Predicate {
        guard !constant.value.isNull else { return .always(false) }
        if relation.hasOptions { return try text(.isOrdered(order), [constant], relation) }
        switch try PredicateConversion.convert(constant, for: attribute) {
        case .value(let value): return predicate(.isOrdered(order, value))
        case .above(let floor):
            switch order {
            case .less, .atMost: return predicate(.isOrdered(.atMost, .integer(floor)))
            case .greater, .atLeast: return predicate(.isOrdered(.greater, .integer(floor)))
            }
        case .belowAll:
            switch order {
            case .less, .atMost: return .always(false)
            case .greater, .atLeast: return .negation(of: predicate(.isNil))
            }
        }
    }

    /// Null among the values means nil.
    func isOneOf(
        _ constants: [PredicateConstant], _ relation: PredicateRelation
    ) throws(PredicateFault) -> Predicate {
        let present = constants.filter { !$0.value.isNull }
        let orNil = present.count < constants.count ? [predicate(.isNil)] : []
        guard !present.isEmpty else { return .alternative(orNil) }
        if relation.hasOptions { return .alternative([try text(.isOneOf, present, relation)] + orNil) }
        let values = try PredicateConversion.convert(present, for: attribute)
        switch values.count {
        case 0: return .alternative(orNil)
        case 1: return .alternative([predicate(.equals(values[0]))] + orNil)
        default: return .alternative([predicate(.isOneOf(values))] + orNil)
        }
    }

    /// The predicate of BEGINSWITH and the other text relations.
    func follows(_ constant: PredicateConstant, _ relation: PredicateRelation) throws(PredicateFault) -> Predicate {
        guard !constant.value.isNull else { return .always(false) }
        let kind: PredicateTextTest.Relation =
            switch relation.kind {
            case .beginsWith: .beginsWith
            case .endsWith: .endsWith
            case .contains: .contains
            case .like: .like
            default: .matches
            }
        if kind == .like, let text = constant.value.string, let form = WildcardPattern.form(ofSQL: text) {
            throw PredicateFault(
                "% is no wildcard of LIKE, which has * for any characters and ? for one: LIKE \(form.quotedBriefly); a percent sign "
                    + "itself is written \\\\%", at: constant.offset)
        }
        return try text(kind, [constant], relation)
    }

    private func text(
        _ kind: PredicateTextTest.Relation, _ constants: [PredicateConstant], _ relation: PredicateRelation
    ) throws(PredicateFault) -> Predicate {
        var texts: [[UInt8]] = []
        for constant in constants {
            switch constant.value.kind {
            case .string, .number, .true, .false: texts.append(Array(constant.value.bytes))
            case .null, .array, .object:
                throw PredicateFault(
                    "\(relation.kind.rawValue) wants a string, and this is \(constant.value.kind.phrase)",
                    at: constant.offset)
            }
        }
        var test = PredicateTextTest(
            kind, texts, ignoresCase: relation.ignoresCase, ignoresDiacritics: relation.ignoresDiacritics)
        do throws(RegularExpression.Problem) {
            test.instructions = try ValueTest.instructions(of: test)
        } catch {
            throw PredicateFault("this \(error.message)", at: constants.first?.offset ?? relation.offset)
        }
        return predicate(.text(test))
    }
}

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
