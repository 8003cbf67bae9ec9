package import ArgumentParser

/// A number of bytes on a command line or in a configuration: `65536`, `64K`, `16MiB`, `1.5G`. Each unit is 1024 of the one
/// before.
package struct ByteSize: Hashable, Sendable {
    package let bytes: Int

    package init(_ bytes: Int) { self.bytes = bytes }

    /// - Throws: a `ValidationError` with the text and the units.
    package init(parsing text: String) throws(ValidationError) {
        let units = ["": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40]
        guard let amount = Amount(text) else { throw Self.fault(text) }
        var unit = amount.unit.uppercased()
        if unit.hasSuffix("IB") { unit.removeLast(2) } else if unit.hasSuffix("B") { unit.removeLast() }
        guard let factor = units[unit], !(unit.isEmpty && amount.unit.count > 1) else { throw Self.fault(text) }
        guard let bytes = amount.times(factor) else {
            throw ValidationError("\"\(text)\" is more than this program can count, or not a whole number of bytes.")
        }
        self.bytes = bytes
    }

    private static func fault(_ text: String) -> ValidationError {
        ValidationError(
            "\"\(text)\" is no size. Give bytes, or a number with K, M, G or T, as in 64M (67108864 bytes).")
    }
}

extension ByteSize: ExpressibleByArgument {
    package init?(argument: String) {
        do throws(ValidationError) { try self.init(parsing: argument) } catch { return nil }
    }
}

extension ByteSize: Comparable, ExpressibleByIntegerLiteral {
    package init(integerLiteral bytes: Int) { self.init(bytes) }

    package static func < (one: ByteSize, other: ByteSize) -> Bool { one.bytes < other.bytes }
}

extension ByteSize: CustomStringConvertible {
    /// With the largest unit of which it is a whole number.
    package var description: String {
        for (unit, shift) in [("T", 40), ("G", 30), ("M", 20), ("K", 10)] where bytes != 0 && bytes % (1 << shift) == 0
        {
            return "\(bytes >> shift)\(unit)"
        }
        return "\(bytes)"
    }
}
