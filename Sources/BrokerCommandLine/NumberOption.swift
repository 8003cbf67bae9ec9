internal import ArgumentParser

/// A numeric option and what can be meant by it.
package struct NumberOption {
    private let name: String
    private let value: Int
    private let range: ClosedRange<Int>

    /// - Parameter name: as it is typed, `--workers`.
    package init(_ name: String, _ value: Int, in range: ClosedRange<Int>) {
        self.name = name
        self.value = value
        self.range = range
    }

    /// - Throws: a `ValidationError` that names the option, its range and what was given.
    package func check() throws {
        guard !range.contains(value) else { return }
        throw ValidationError("\(name) must be \(range.lowerBound) to \(range.upperBound), but is \(value).")
    }
}

extension [NumberOption] {
    /// Checks one after the other; the first that cannot be meant is told.
    package func check() throws {
        for option in self { try option.check() }
    }
}
