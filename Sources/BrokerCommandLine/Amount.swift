package import ArgumentParser

/// A time on a command line or in a configuration: `30` (seconds), `500ms`, `1.5s`, `5m`, `2h`, `7d`.
package struct TimeSpan: Hashable, Comparable, Sendable {
    private let milliseconds: Int

    package static func seconds(_ count: Int) -> TimeSpan { TimeSpan(milliseconds: count * 1_000) }

    package static func milliseconds(_ count: Int) -> TimeSpan { TimeSpan(milliseconds: count) }

    private init(milliseconds: Int) { self.milliseconds = milliseconds }

    package var duration: Duration { .milliseconds(milliseconds) }

    /// As a number that may have a fraction.
    package var exactSeconds: Double { Double(milliseconds) / 1_000 }

    /// Rounded up, so that a short time is not none.
    package var seconds: Int { (milliseconds + 999) / 1_000 }

    package static func < (one: TimeSpan, other: TimeSpan) -> Bool { one.milliseconds < other.milliseconds }
}

extension TimeSpan: ExpressibleByArgument, CustomStringConvertible {
    /// - Returns: nil for what is no whole number of milliseconds up to a thousand years.
    package init?(argument: String) {
        let units = ["": 1_000, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000]
        guard let milliseconds = amount(argument, { units[$0] }), milliseconds <= 1_000 * 365 * 86_400_000 else {
            return nil
        }
        self.milliseconds = milliseconds
    }

    /// With the largest unit of which it is a whole number.
    package var description: String {
        let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)]
        for (unit, factor) in units where milliseconds != 0 && milliseconds % factor == 0 {
            return "\(milliseconds / factor)\(unit)"
        }
        return milliseconds == 0 ? "0s" : "\(milliseconds)ms"
    }
}

/// A number of bytes on a command line or in a configuration: `65536`, `64K`, `16MiB`, `1.5G`. Each unit is 1024 of the one
/// before.
package struct ByteSize: Hashable, Comparable, Sendable, ExpressibleByIntegerLiteral {
    package let bytes: Int

    package init(_ bytes: Int) { self.bytes = bytes }

    package init(integerLiteral bytes: Int) { self.init(bytes) }

    package static func < (one: ByteSize, other: ByteSize) -> Bool { one.bytes < other.bytes }
}

extension ByteSize: ExpressibleByArgument, CustomStringConvertible {
    /// - Returns: nil for what is no whole number of bytes, or more than this program can count.
    package init?(argument: String) {
        let units = ["": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40]
        let bytes = amount(argument) { given in
            var unit = given.uppercased()
            if unit.hasSuffix("IB") { unit.removeLast(2) } else if unit.hasSuffix("B") { unit.removeLast() }
            return unit.isEmpty && given.count > 1 ? nil : units[unit]
        }
        guard let bytes else { return nil }
        self.bytes = bytes
    }

    /// With the largest unit of which it is a whole number.
    package var description: String {
        for (unit, shift) in [("T", 40), ("G", 30), ("M", 20), ("K", 10)] where bytes != 0 && bytes % (1 << shift) == 0
        {
            return "\(bytes >> shift)\(unit)"
        }
        return "\(bytes)"
    }
}

/// The number of a text that has a decimal number and a unit after it, as `1.5G` and `30 s`; nil when it is not whole, or too large.
///
/// - Parameter factor: how many the unit has, which is as it was written, and empty when there is none.
private func amount(_ text: String, _ factor: (_ unit: String) -> Int?) -> Int? {
    let number = text.prefix { $0.isASCII && $0.isNumber || $0 == "." }
    let parts = number.split(separator: ".", omittingEmptySubsequences: false)
    // An integer, and a power of ten, hold any number of 18 digits.
    guard (1...2).contains(parts.count), !parts.contains(where: \.isEmpty), number.count <= 18,
        let digits = Int(parts.joined()), let factor = factor(String(text.dropFirst(number.count).drop { $0 == " " }))
    else { return nil }
    // The digits without the point are that many times too large.
    let divisor = (parts.count == 2 ? parts[1] : "").reduce(1) { product, _ in product * 10 }
    let (product, hasOverflow) = digits.multipliedReportingOverflow(by: factor)
    return hasOverflow || product % divisor != 0 ? nil : product / divisor
}

/// Checks a numeric option, a size or a time that is given.
package func checkRange<Value: Comparable>(_ name: String, _ value: Value?, in range: ClosedRange<Value>) throws {
    guard let value, !range.contains(value) else { return }
    throw ValidationError("\(name) must be \(range.lowerBound) to \(range.upperBound), but is \(value).")
}

extension ArgumentHelp {
    /// The help of an option or argument whose value has that name.
    package static func value(_ name: String, _ help: String) -> ArgumentHelp { ArgumentHelp(help, valueName: name) }
}
