package import BrokerModel

/// How the stored values of one type become values of another one without loss.
package enum TypeChange {
    /// They have the same form.
    case sameForm
    /// They become what a fetch prints of them.
    case converted
    /// The same, for whole numbers that a double holds exactly.
    case convertedIfExact
}

extension AttributeType {
    /// The change from another type; nil when some of its values would be lost.
    package func change(from other: AttributeType) -> TypeChange? {
        switch (other, self) {
        case (.integer16, .integer32), (.integer16, .integer64), (.integer32, .integer64): .sameForm
        case (.float, .double), (.uuid, .string), (.uri, .string): .sameForm
        case (_, .double) where other.isInteger: .convertedIfExact
        case (_, .decimal) where other.isNumber: .converted
        case (.boolean, .string), (.date, .string), (.calendarDate, .string), (.calendarDate, .date): .converted
        case (_, .string) where other.isNumber: .converted
        case (_, .transformable): .converted
        default: nil
        }
    }
}
