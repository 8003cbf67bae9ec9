import Foundation
import TestSupport

/// The decisions before a round. The time of a kill depends on the machine, too.
struct RoundPlan {
    enum Target {
        case server
        case client(Int)
        /// The server and all clients: after its next start it works without them.
        case everything
    }

    struct Kill {
        let target: Target
        /// It strikes so many microseconds after so many answers.
        let answers: Int
        let microseconds: UInt32
        /// Microseconds after the server's next starts at which it is killed again.
        let starts: [UInt32]
    }

    static let mostClients = 4

    let jobs: [[CrashJob]]
    /// The value of the server's `--synchronous`: no kill shows the difference, but one is slow and the other fast.
    let synchronous: String
    /// Jobs that a client has in flight, by client.
    let windows: [Int]
    /// In the order of their answers.
    let kills: [Kill]

    /// - Parameter jobs: of all clients, instead of some hundred.
    init(seed: UInt64, withJournal: Bool, count jobs: Int? = nil) {
        var generator = SeededGenerator(seed: seed)
        func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
        /// As many below a tenth of the limit as above: most of what can go wrong is soon over.
        func moment(_ limit: Double) -> UInt32 { UInt32(limit * pow(10, -Double.random(in: 0...3, using: &generator))) }
        let clients = number(2...Self.mostClients)
        let drawn = number(60...160)
        let count = (jobs ?? drawn) / clients
        self.jobs = (0..<clients).map { CrashJob.jobs(seed: seed, client: $0, count: count, withJournal: withJournal) }
        windows = (0..<clients).map { _ in number(1...12) }
        synchronous = number(0...2) == 0 ? "full" : "normal"
        let targets: [Target] =
            (0..<number(1...3)).map { _ in .server } + (0..<number(0...2)).map { _ in .client(number(0...clients - 1)) }
            + (0..<number(withJournal ? 1...2 : 0...1)).map { _ in .everything }
        kills = targets.map { target in
            let starts = number(0...1) == 0 ? 0 : number(1...2)
            return Kill(
                target: target, answers: number(0...clients * count), microseconds: moment(5_000),
                starts: (0..<starts).map { _ in moment(40_000) })
        }.sorted { $0.answers < $1.answers }
    }
}
