import BrokerJSON

/// Reads the limits of an attribute's values. Whether the values themselves can be converted is checked when they are
/// compiled.
struct ConstraintsReader {
    let fields: ModelFields
    /// Nil when the model gives no known one.
    let type: AttributeType?

    func read() -> ValueConstraints {
        refuseMisplaced()
        var constraints = ValueConstraints()
        constraints.minimum = bound("min")
        constraints.maximum = bound("max")
        constraints.minimumLength = fields["minLength"]?.count()
        constraints.maximumLength = fields["maxLength"]?.count()
        if let minimum = constraints.minimumLength, let maximum = constraints.maximumLength, minimum > maximum {
            fields["minLength"]?.report(
                "\"minLength\" \(minimum) and \"maxLength\" \(maximum) allow no value; raise \"maxLength\"")
        }
        constraints.pattern = fields["pattern"]?.string()
        constraints.allowed =
            fields["enum"]?.elements(expected: "an array of the allowed values")?
            .compactMap(allowedValue) ?? []
        return constraints
    }

    private func refuseMisplaced() {
        for name in ["min", "max"] {
            fields.refuse(name, unless: type.map { $0.isNumber || $0.isDate }, isFor: "numbers and dates")
        }
        for name in ["minLength", "maxLength", "pattern"] {
            fields.refuse(name, unless: type?.isText, isFor: "text")
        }
    }

    private func bound(_ name: String) -> JSONFragment? {
        guard let node = fields[name] else { return nil }
        guard node.value.kind == .number || node.value.kind == .string else {
            node.reportExpected(type?.isDate == true ? "a date" : "a number")
            return nil
        }
        return node.fragment(for: nil)
    }

    private func allowedValue(_ node: ModelNode) -> JSONFragment? {
        if node.value.isNull {
            node.report("null needs no place among the allowed values; say \"optional\": true instead")
            return nil
        }
        return node.fragment(for: type)
    }
}
