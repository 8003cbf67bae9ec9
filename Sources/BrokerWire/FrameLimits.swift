/// The maximum sizes of a frame, compressed and decompressed. Both are checked before memory is allocated.
package struct FrameLimits: Sendable, Equatable {
    /// The largest length whose first byte is 0, so that any other protocol on the socket is recognised by its first
    /// byte (protocol: framing).
    package static let largestPayloadCount = 16_777_215

    /// 256 MiB: the contract's default limit of a frame's content.
    package static let defaultMaximumContentCount = 256 << 20

    /// 1 GiB: the largest limit that a server may be configured to. SQLite's own limit of a value is a little less
    /// (sqlite.org/limits.html).
    package static let largestContentCount = 1 << 30

    /// The limits that no server exceeds: those of a frame in the journal, which a server with other limits may have
    /// accepted.
    package static let largest = FrameLimits(maximumContentCount: largestContentCount)

    /// Bytes of one LZ4 frame, 1...``largestPayloadCount``.
    package let maximumPayloadCount: Int
    /// Bytes of a frame's content, decompressed.
    package let maximumContentCount: Int

    package init(
        maximumPayloadCount: Int = FrameLimits.largestPayloadCount,
        maximumContentCount: Int = FrameLimits.defaultMaximumContentCount
    ) {
        precondition(
            (1...Self.largestPayloadCount).contains(maximumPayloadCount), "a payload limit out of the format's range")
        precondition(maximumContentCount > 0, "a content limit that allows no content")
        self.maximumPayloadCount = maximumPayloadCount
        self.maximumContentCount = maximumContentCount
    }
}

extension BinaryInteger {
    /// Returns the number in decimal with commas, for people: 16,777,215.
    var grouped: String {
        var digits = Substring(String(magnitude))
        var groups: [Substring] = []
        while digits.count > 3 {
            groups.append(digits.suffix(3))
            digits = digits.dropLast(3)
        }
        groups.append(digits)
        return (self < 0 ? "-" : "") + groups.reversed().joined(separator: ",")
    }
}
