internal import BrokerJSON
internal import Glibc

/// Numbers for people, in few characters.
package enum ShortText {
    /// A moment in this machine's time zone, from milliseconds since 1970.
    package static func moment(milliseconds: Int64) -> String {
        Timestamp(seconds: Int(milliseconds / 1_000)).formatted("%m-%d %H:%M:%S", isLocal: true)
    }

    /// `950 ms`, `12.3 s`, `4 min`, `3 h`, `12 d`: at most three digits before the point.
    package static func time(milliseconds: Int) -> String { time(microseconds: Int64(milliseconds) * 1_000) }

    package static func time(_ time: Duration) -> String { self.time(microseconds: Int64(time / .microseconds(1))) }

    package static func time(microseconds: Int64) -> String {
        let units: [(String, Double)] = [
            ("d", 86_400e6), ("h", 3_600e6), ("min", 60e6), ("s", 1e6), ("ms", 1e3), ("µs", 1),
        ]
        let (name, size) = units.first { Double(microseconds) >= $0.1 } ?? units[units.count - 1]
        return "\(number(Double(microseconds) / size)) \(name)"
    }

    /// `512 B`, `1.5 KiB`, `12 MiB`.
    package static func bytes(_ bytes: Int) -> String {
        var value = Double(bytes)
        for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
            if value < 1_000 || unit == "TiB" { return "\(number(value)) \(unit)" }
            value /= 1_024
        }
        return ""
    }

    /// A number with its thousands apart: `1,234,567`.
    package static func count(_ count: Int) -> String { count.grouped }

    /// A rate, with one digit after the point where it is small.
    package static func rate(_ value: Double) -> String { value < 10 ? number(value) : count(Int(value.rounded())) }

    /// One digit after the point below ten, if it is not 0.
    private static func number(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return tenths >= 100 || tenths % 10 == 0 ? "\(Int(value.rounded()))" : "\(tenths / 10).\(tenths % 10)"
    }
}

extension String {
    /// As a field of CSV (RFC 4180).
    ///
    /// - Parameter isQuoted: in quotes in any case, as the empty text is, so that it is not read as null.
    package func csvField(isQuoted: Bool = false) -> String {
        guard isQuoted || utf8.contains(where: { ",\"\r\n".utf8.contains($0) }) else { return self }
        // By scalars: a combining character may follow a quotation mark.
        return "\"" + unicodeScalars.map { $0 == "\"" ? "\"\"" : String($0) }.joined() + "\""
    }
}

package enum UserName {
    /// The name of the user, or the number where this machine has no name for it.
    package static func text(of number: Int64) -> String {
        UInt32(exactly: number).flatMap(getpwuid).map { String(cString: $0.pointee.pw_name) } ?? "\(number)"
    }
}
