internal import ArgumentParser

/// A numeric option, a size or a time, and its valid range.
package struct NumberOption {
    /// Nil when the value is in the range.
    private let fault: String?

    /// - Parameter name: the option as typed, `--workers`.
    package init<Value: Comparable>(_ name: String, _ value: Value, in range: ClosedRange<Value>) {
        let isValid = range.contains(value)
        fault = isValid ? nil : "\(name) must be \(range.lowerBound) to \(range.upperBound), but is \(value)."
    }

    /// - Throws: a `ValidationError` with the option, its range and the given value.
    package func check() throws { if let fault { throw ValidationError(fault) } }
}

extension [NumberOption] {
    /// Checks the options one after the other; throws for the first invalid one.
    package func check() throws {
        for option in self { try option.check() }
    }
}
