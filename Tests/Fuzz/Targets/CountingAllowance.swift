import BrokerJSON
import BrokerStaging
import Synchronization

/// Grants up to a limit, and counts.
final class CountingAllowance: MemoryAllowance, StagingAllowance {
    private let limit: Int
    private let count = Mutex(0)

    init(limit: Int = .max) { self.limit = limit }

    /// Bytes that are taken and not given back.
    var taken: Int { count.withLock { $0 } }

    func take(_ bytes: Int) -> Bool {
        count.withLock { taken in
            guard bytes <= limit - taken else { return false }
            taken += bytes
            return true
        }
    }

    func giveBack(_ bytes: Int) { count.withLock { $0 -= bytes } }
}
