import Foundation

/// A violated promise.
struct Difference: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// The counts of rounds.
struct Figures {
    var rounds = 0
    var serverKills = 0
    var clientKills = 0
    var sent = 0
    var sentAgain = 0
    var completed = 0
    var failed = 0
    /// Jobs that were sent and have no known end.
    var unknown = 0
    /// Those of them that took effect.
    var unknownCommitted = 0

    mutating func add(_ other: Figures) {
        rounds += other.rounds
        serverKills += other.serverKills
        clientKills += other.clientKills
        sent += other.sent
        sentAgain += other.sentAgain
        completed += other.completed
        failed += other.failed
        unknown += other.unknown
        unknownCommitted += other.unknownCommitted
    }
}

/// A line that is seen at once, also in a file.
func say(_ text: String) throws { try FileHandle.standardOutput.write(contentsOf: Data("\(text)\n".utf8)) }

func seconds(since start: ContinuousClock.Instant) -> String {
    String(format: "%.1f", (ContinuousClock.now - start) / .seconds(1))
}
