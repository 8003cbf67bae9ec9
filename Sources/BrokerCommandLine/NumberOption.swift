internal import ArgumentParser

/// A numeric option and its valid range.
package struct NumberOption {
    private let name: String
    private let value: Int
    private let range: ClosedRange<Int>

    /// - Parameter name: the option as typed, `--workers`.
    package init(_ name: String, _ value: Int, in range: ClosedRange<Int>) {
        self.name = name
        self.value = value
        self.range = range
    }

    /// - Throws: a `ValidationError` with the option, its range and the given value.
    package func check() throws {
        guard !range.contains(value) else { return }
        throw ValidationError("\(name) must be \(range.lowerBound) to \(range.upperBound), but is \(value).")
    }
}

extension [NumberOption] {
    /// Checks the options one after the other; throws for the first invalid one.
    package func check() throws {
        for option in self { try option.check() }
    }
}
