import TestSupport

/// The decisions before a round of three machines.
struct ReplicaPlan {
    enum Fault: Equatable {
        case killLeader
        case killNATS(Int)
        case killBroker(Int)
        case stopNATS(Int)
        case stopBroker(Int)
        case cut(Int)
        case cutOneWay(Int, Int)
        case fullDisk(Int)
        case reload(Int)
        /// The store of the second is replaced by a backup of the first.
        case join(Int, Int)
        /// The store is replaced by the backup that was made before the log was trimmed.
        case joinEarlier(Int)
        case backup(Int)
        /// The clock of a server is so many hours ahead until the end of the strike.
        case clock(Int, hours: Int)
        /// All servers go over to another fingerprint.
        case upgrade
        /// These machines die at once, and their disks forget what was not synced.
        case powerCut([Int])

        /// Without the machines.
        var name: String { "\(self)".prefix { $0 != "(" }.description }
    }

    struct Strike {
        /// One, or two at once.
        var faults: [Fault]
        /// After so many answers.
        let answers: Int
        /// How long they last, in microseconds.
        let duration: UInt32
    }

    /// Besides the faults. Of 48 rounds with seeds that follow each other, one trims, two have a store that differs, and three have
    /// thousands of jobs.
    enum Subject: Equatable {
        case none
        /// The log passes checkpoints under the jobs of all clients.
        case manyJobs(Int)
        /// The log is trimmed first, after that backup.
        case trim(backup: Int)
        /// A row of the first store is changed while its server is stopped; the second makes the backup that replaces it.
        case difference(Int, Int)
    }

    let subject: Subject
    /// Jobs of all clients.
    let jobs: Int
    /// In the order of their answers.
    let strikes: [Strike]
    /// Microseconds that a client waits for each job that it has sent: there are jobs until the last strike ends.
    let pace: UInt32
    /// Microseconds besides the strikes.
    private static let leastTime: UInt32 = 2_000_000

    /// - Parameter isPower: machines lose their power, and no disk is full.
    init(seed: UInt64, isPower: Bool) {
        var generator = SeededGenerator(seed: ~seed)
        let (one, next) = (Int.random(in: 0..<3, using: &generator), Int.random(in: 1...2, using: &generator))
        let other = (one + next) % 3
        subject =
            switch seed % 48 {
            case 7, 23, 39: .manyJobs(Int.random(in: 1_200...2_400, using: &generator))
            case 15: .trim(backup: one)
            case 3, 31: .difference(one, other)
            default: .none
            }
        let drawn = Int.random(in: 150...400, using: &generator)
        jobs = if case .manyJobs(let count) = subject { count } else { drawn }
        var strikes = (0..<Int.random(in: 1...3, using: &generator)).map { [jobs] _ in
            Strike(
                faults: (0..<Int.random(in: 1...2, using: &generator)).map { _ in
                    Self.fault(isPower: isPower, using: &generator)
                },
                // Each job has two answers.
                answers: Int.random(in: 0...2 * jobs, using: &generator),
                duration: UInt32.random(in: 1_000...3_000_000, using: &generator))
        }.sorted { $0.answers < $1.answers }
        if case .trim = subject { strikes[0].faults.append(.joinEarlier(other)) }
        self.strikes = strikes
        let time = strikes.reduce(Self.leastTime) { $0 + $1.duration }
        pace = time * UInt32(RoundPlan.mostClients) / UInt32(jobs)
    }

    private static func fault(isPower: Bool, using generator: inout SeededGenerator) -> Fault {
        let (one, next) = (Int.random(in: 0..<3, using: &generator), Int.random(in: 1...2, using: &generator))
        let other = (one + next) % 3
        if isPower, Bool.random(using: &generator) {
            return switch Int.random(in: 0..<4, using: &generator) {
            case 0: .powerCut([one])
            case 1: .powerCut([one, other])
            default: .powerCut([0, 1, 2])
            }
        }
        return switch Int.random(in: 0..<20, using: &generator) {
        case 0...2: .killLeader
        case 3: .killNATS(one)
        case 4...6: .killBroker(one)
        case 7: .stopNATS(one)
        case 8: .stopBroker(one)
        case 9...10: .cut(one)
        case 11: .cutOneWay(one, other)
        case 12: isPower ? .killNATS(one) : .fullDisk(one)
        case 13: .reload(one)
        case 14: .join(one, other)
        case 15: .backup(one)
        case 16...17: .clock(one, hours: next == 1 ? 1 : -1)
        default: .upgrade
        }
    }
}

extension ReplicaPlan.Subject {
    /// Without its details.
    var name: String { "\(self)".prefix { $0 != "(" }.description }
}
