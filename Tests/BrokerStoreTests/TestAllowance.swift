import BrokerJSON
import Synchronization

/// Grants up to a limit, and notes the most that was used.
final class TestAllowance: MemoryAllowance {
    private let limit: Int
    private let bytes = Mutex((used: 0, most: 0))

    init(_ limit: Int) { self.limit = limit }

    var used: Int { bytes.withLock { $0.used } }
    var most: Int { bytes.withLock { $0.most } }

    func take(_ count: Int) -> Bool {
        bytes.withLock { bytes in
            guard bytes.used + count <= limit else { return false }
            bytes.used += count
            bytes.most = max(bytes.most, bytes.used)
            return true
        }
    }

    func giveBack(_ count: Int) { bytes.withLock { $0.used -= count } }
}
