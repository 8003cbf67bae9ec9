internal import BrokerModel

/// A type that takes an attribute's values and those of new samples.
struct TypeWidening {
    let type: String
    /// All formats of a date; nil where they do not change.
    let formats: [String]?

    var isDouble: Bool { type == AttributeType.double.rawValue }

    /// - Parameter isJSON: the samples have objects or lists there.
    /// - Returns: nil when the attribute takes the samples as it is.
    init?(of attribute: Attribute, by guess: ScalarShape.TypeGuess, isJSON: Bool) {
        if attribute.type == .transformable || guess.reason.contains(ScalarShape.alwaysNull) && !isJSON { return nil }
        guard !isJSON else {
            (type, formats) = (AttributeType.transformable.rawValue, nil)
            return
        }
        if attribute.type == .date || attribute.type == .calendarDate, guess.name == attribute.type.rawValue {
            guard let new = Self.format(guess), !attribute.dateFormats.contains(new) else { return nil }
            (type, formats) = (guess.name, attribute.dateFormats + [new])
            return
        }
        let isTime = Self.format(guess) == Self.unixTime
        guard let wider = Self.wider(attribute, isTime ? "integer64" : guess.name) else { return nil }
        (type, formats) = (wider, nil)
    }

    /// For values that not all are exact as the type: it has every digit.
    static let decimal = TypeWidening(type: AttributeType.decimal.rawValue, formats: nil)

    private init(type: String, formats: [String]?) { (self.type, self.formats) = (type, formats) }

    private static func format(_ guess: ScalarShape.TypeGuess) -> String? {
        guard let json = guess.members.first(where: { $0.key == "format" })?.json else { return nil }
        return try? ModelDocument(parsing: .init(copying: Array(json.utf8))).root.string
    }

    private static let unixTime = "UnixTime"

    private static func wider(_ attribute: Attribute, _ new: String) -> String? {
        let old = attribute.type
        return switch old {
        case _ where old.rawValue == new: nil
        case .string, .transformable, .binary, .uri: nil
        case .integer16, .integer32, .integer64:
            ["double", "decimal"].contains(new) ? new : new == "integer64" ? nil : "string"
        case .double, .float:
            new == "decimal" ? new : ["integer64", "double"].contains(new) ? nil : "string"
        case .decimal: ["integer64", "double"].contains(new) ? nil : "string"
        // Numbers are seconds since 1970 only where they were before.
        case .date: new == "integer64" && attribute.dateFormats.contains(unixTime) ? nil : "string"
        default: "string"
        }
    }
}
