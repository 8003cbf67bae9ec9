internal import Glibc

/// A moment in UTC, as texts for people and for names of files.
package struct Timestamp: Sendable {
    private let seconds: Int

    /// - Parameter seconds: since 1970.
    package init(seconds: Int) { self.seconds = seconds }

    package static var now: Timestamp { Timestamp(seconds: time(nil)) }

    /// `20261125T213000Z`: the basic format of ISO 8601. Names with it sort by time.
    package var fileNamePart: String { formatted("%Y%m%dT%H%M%SZ") }

    /// `2026-11-25 21:30:00 UTC`
    package var text: String { formatted("%Y-%m-%d %H:%M:%S UTC") }

    package static func isFileNamePart(_ text: some StringProtocol) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 16, bytes[8] == UInt8(ascii: "T"), bytes[15] == UInt8(ascii: "Z") else { return false }
        return (bytes[..<8] + bytes[9..<15]).allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    /// - Parameter format: of strftime(3), for numbers alone, at most 63 bytes.
    func formatted(_ format: String) -> String {
        var (time, parts) = (time_t(seconds), tm())
        gmtime_r(&time, &parts)
        var bytes = [CChar](repeating: 0, count: 64)
        let count = strftime(&bytes, bytes.count, format, &parts)
        return String(decoding: bytes.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
