internal import Synchronization

/// Processes for which the ledger is searched.
final class ListingProcesses: Sendable {
    private let processes = Mutex<Set<Int32>>([])

    /// - Returns: false when it is searched for that process already.
    func begin(_ process: Int32) -> Bool { processes.withLock { $0.insert(process).inserted } }

    func end(_ process: Int32) { processes.withLock { _ = $0.remove(process) } }
}
