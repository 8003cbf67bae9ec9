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
        case backup(Int)
    }

    struct Strike {
        /// One, or two at once.
        let faults: [Fault]
        /// After so many answers.
        let answers: Int
        /// How long they last, in microseconds.
        let duration: UInt32
    }

    /// In the order of their answers.
    let strikes: [Strike]

    /// - Parameter answers: about as many as the clients will get.
    init(seed: UInt64, answers: Int) {
        var generator = SeededGenerator(seed: ~seed)
        func machine() -> Int { Int.random(in: 0..<3, using: &generator) }
        func fault() -> Fault {
            let (one, other) = (machine(), Int.random(in: 1...2, using: &generator))
            return switch Int.random(in: 0..<16, using: &generator) {
            case 0...2: .killLeader
            case 3: .killNATS(one)
            case 4...6: .killBroker(one)
            case 7: .stopNATS(one)
            case 8: .stopBroker(one)
            case 9...10: .cut(one)
            case 11: .cutOneWay(one, (one + other) % 3)
            case 12: .fullDisk(one)
            case 13: .reload(one)
            case 14: .join(one, (one + other) % 3)
            default: .backup(one)
            }
        }
        strikes = (0..<Int.random(in: 1...3, using: &generator)).map { _ in
            Strike(
                faults: (0..<Int.random(in: 1...2, using: &generator)).map { _ in fault() },
                answers: Int.random(in: 0...answers, using: &generator),
                duration: UInt32.random(in: 1_000...3_000_000, using: &generator))
        }.sorted { $0.answers < $1.answers }
    }
}
