internal import BrokerModel
package import BrokerStaging
internal import CSQLite

/// The versions of all that decides outcomes besides the jobs, the model and the limits. Two stores to which the same jobs are
/// applied are equal if these are.
package struct ApplicationFingerprint: Sendable, Equatable {
    private struct Fact: Sendable, Equatable {
        let name: String
        let text: String
    }

    /// Raised by a change of Broker after which a job may end in another way, write other rows, or have another hash.
    private static let rules = 2

    private let facts: [Fact]

    /// - Parameter statistics: those of ANALYZE in the store, on which SQLite's plans depend; nil for none.
    package init(_ plan: StagingPlan, statistics: String? = nil) {
        var facts = [
            Fact(name: "broker", text: "\(Self.rules)"),
            Fact(name: "sqlite", text: String(cString: sqlite3_sourceid())),
        ]
        for (name, text) in ConversionFacts.of(plan.model) {
            // The changes of a time zone are some hundred.
            facts.append(Fact(name: name, text: text.utf8.count > 64 ? Self.digits(text, count: 16) : text))
        }
        if let statistics { facts.append(Fact(name: "statistics", text: Self.digits(statistics, count: 16))) }
        self.facts = facts
    }

    /// Another server's, of which nothing else is known.
    package init(digits: String) { facts = [Fact(name: Self.unknown, text: digits)] }

    private static let unknown = "digits"

    /// Parses ``text``; nil for anything else.
    package init?(_ text: String) {
        var facts: [Fact] = []
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { return nil }
            facts.append(Fact(name: String(parts[0]), text: String(parts[1])))
        }
        self.facts = facts
    }

    /// One line for each part.
    package var text: String { facts.map { "\($0.name)=\($0.text)" }.joined(separator: "\n") }

    /// 16 hexadecimal digits.
    package var digits: String {
        if facts.count == 1, facts[0].name == Self.unknown { return facts[0].text }
        return Self.digits(text, count: 16)
    }

    /// The parts that differ: `sqlite was A, is B`.
    package func differences(from earlier: ApplicationFingerprint) -> [String] {
        func texts(_ fingerprint: ApplicationFingerprint) -> [String: String] {
            Dictionary(fingerprint.facts.map { ($0.name, $0.text) }) { $1 }
        }
        guard earlier.facts.first?.name != Self.unknown else { return [] }
        let (before, now) = (texts(earlier), texts(self))
        return Set(before.keys).union(now.keys).sorted().compactMap { name in
            guard before[name] != now[name] else { return nil }
            return "\(name) was \(before[name] ?? "absent"), is \(now[name] ?? "absent")"
        }
    }

    private static func digits(_ text: String, count: Int) -> String {
        let hash = Array(text.utf8).withUnsafeBytes { ContentHash.hash($0) }
        return String(hash.flatMap { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.prefix(count))
    }
}
