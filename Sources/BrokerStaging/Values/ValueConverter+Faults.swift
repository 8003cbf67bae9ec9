import BrokerJSON
import BrokerModel

/// Messages about rejected values, built only when needed.
extension ValueConverter {
    /// Limit in characters on a value in a message.
    private static let shownCount = 40

    @inline(never) func refusal(of value: JSONValue, as wanted: String, remedy: String? = nil) -> ValueFault {
        ValueFault(reason: .inconvertible, message: self.sentence(value, wanted, remedy))
    }

    private func sentence(_ value: JSONValue, _ wanted: String, _ remedy: String?) -> String {
        let what = "\(Self.shown(value)) is not \(wanted); attribute \"\(name)\" is \(type.rawValue)"
        return remedy.map { "\(what) (\($0))" } ?? what
    }

    @inline(never) func misplacement(of value: JSONValue) -> ValueFault {
        ValueFault(reason: .inconvertible, message: Self.misplaced(value, self.name))
    }

    static func misplaced(_ value: JSONValue, _ name: String) -> String {
        "\(shown(value)) is in the place of an object, through which a key path of \"\(name)\" leads; send an object, or "
            + "null to clear what is below it"
    }

    @inline(never) func violation(_ breach: ValueLimits.Breach, _ value: JSONValue, _ cell: Cell) -> ValueFault {
        ValueFault(reason: .notAllowed, message: self.sentence(breach, value, cell))
    }

    private func sentence(_ breach: ValueLimits.Breach, _ value: JSONValue, _ cell: Cell) -> String {
        let shown = Self.shown(value)
        return switch breach {
        case .bounds: "\(shown) is outside of the \"min\" and \"max\" of attribute \"\(name)\""
        case .length:
            "\(shown) has \(ValueLimits.scalarCount(cell.bytes)) characters; "
                + "attribute \"\(name)\" wants \(wantedLengths)"
        case .pattern(let verdict): "\(shown) \(sentence(verdict)): attribute \"\(name)\", \(pattern)"
        case .notListed: "\(shown) is not among the values that the \"enum\" of attribute \"\(name)\" lists"
        }
    }

    private var pattern: String { limits.pattern?.pattern ?? "" }

    private func sentence(_ verdict: RegularExpression.Verdict) -> String {
        switch verdict {
        case .matches, .doesNotMatch: "does not match the pattern"
        case .textTooLong:
            "is too long for the pattern: matching it may take more than "
                + "\(RegularExpression.maximumSteps / 1_000_000) million steps; shorten the text, or simplify the pattern"
        case .budgetSpent:
            "was not tried with the pattern, because other texts of this job have taken all the steps that a job may "
                + "take; send it in another job, or simplify the pattern"
        }
    }

    private var wantedLengths: String {
        guard let lengths = limits.lengths else { return "any number" }
        if lengths.upperBound == .max { return "at least \(lengths.lowerBound)" }
        return lengths.lowerBound == 0
            ? "at most \(lengths.upperBound)" : "\(lengths.lowerBound) to \(lengths.upperBound)"
    }

    /// Returns the value as JSON text, shortened.
    static func shown(_ value: JSONValue) -> String {
        let bytes = value.bytes
        var count = min(bytes.count, shownCount * 4)
        while count < bytes.count, count > 0, bytes[count] & 0xC0 == 0x80 { count -= 1 }
        let text = String(decoding: bytes[..<count], as: UTF8.self)
        let isWhole = count == bytes.count && text.count <= shownCount
        let shortened = isWhole ? text : text.prefix(shownCount) + "…"
        switch value.kind {
        case .string: return shortened.debugDescription
        case .array: return "the array \(shortened)"
        case .object: return "the object \(shortened)"
        case .null, .true, .false, .number: return shortened
        }
    }
}
