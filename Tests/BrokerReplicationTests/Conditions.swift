#if Replication
import Foundation
import TestSupport

@testable import BrokerReplication

struct Timeout: Error { let what: String }

/// Waits for a condition that nothing announces, as long as a test waits.
func waitUntil(_ what: String, _ condition: () throws -> Bool) throws {
    let deadline = ContinuousClock.now + Patience.duration
    while try !condition() {
        guard ContinuousClock.now < deadline else { throw Timeout(what: what) }
        usleep(20_000)
    }
}

/// The error that a call throws.
func failure<Result>(_ call: () throws(ReplicationError) -> Result) -> ReplicationError? {
    do throws(ReplicationError) {
        _ = try call()
        return nil
    } catch {
        return error
    }
}
#endif
