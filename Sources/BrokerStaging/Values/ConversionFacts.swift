package import BrokerModel
import Foundation

/// Parts of the system that decide how values are converted and compared, each with a text that differs when they may decide
/// otherwise.
package enum ConversionFacts {
    /// - Returns: for each part its name and its text, in a fixed order.
    package static func of(_ model: Model) -> [(name: String, text: String)] {
        let zones = Set(model.entities.flatMap { $0.attributes.compactMap(\.timeZone) }).sorted()
        return [
            // Foundation, its ICU and the tables of Unicode belong to the version of Swift.
            ("swift", "\(_SwiftStdlibVersion.current)"), ("timeZoneData", TimeZone.timeZoneDataVersion),
            ("re2", RegularExpression.facts),
        ]
            + zones.compactMap { name in
                // A zone of a fixed offset is the same everywhere.
                guard case .named(let zone) = LocalZone(name) else { return nil }
                return ("timeZone \(name)", zone.facts)
            }
    }
}

extension RegularExpression {
    /// RE2 reports no version. The sizes of these programs change with its tables of Unicode and with its compiler, and the
    /// work budget counts instructions.
    fileprivate static var facts: String {
        [#"\p{L}"#, #"\p{N}"#, #"\p{Lu}\p{Ll}"#, #"\p{Greek}"#, #"\pP"#, #"\pS"#, #"(?i)\p{L}"#, #"(a+|b?){3,9}$"#]
            .map { pattern in (try? RegularExpression(pattern)).map { "\($0.instructions)" } ?? "none" }
            .joined(separator: " ")
    }
}

extension FoundationTimeZone {
    /// The years whose changes of the offset count.
    private static let years = (1900, 2100)
    /// The offset is read so often besides, so that a change counts that Foundation does not list.
    private static let step = 10 * Instant.secondsPerDay

    /// The changes of the offset, by the tables that Foundation uses: it has its own, and does not read those of the system.
    fileprivate var facts: String {
        let bounds = [Self.years.0, Self.years.1].map {
            CivilDate(year: $0, month: 1, day: 1)!.daysSince1970 * Instant.secondsPerDay
        }
        var facts = "\(offset(at: bounds[0]))"
        for change in changes(from: bounds[0], to: bounds[1]) { facts += " \(change):\(offset(at: change))" }
        var before: Int?
        for time in stride(from: bounds[0], to: bounds[1], by: Self.step) {
            let now = offset(at: time)
            if now != before { facts += " \(now)" }
            before = now
        }
        return facts
    }
}
