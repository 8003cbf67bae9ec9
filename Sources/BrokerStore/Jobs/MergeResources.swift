internal import BrokerJSON
internal import BrokerStaging

/// The resources that the steps of one job share while they are merged.
final class MergeResources {
    let budget = RestagingBudget()
    let parked: ParkedValues
    private let allowance: (any MemoryAllowance)?
    /// The memory of rows that were staged again, until the job's end.
    private var retained: [MergeMemory] = []

    init(_ job: StoreJob, parked: ParkedValues) {
        allowance = job.memory
        self.parked = parked
    }

    func memory() -> MergeMemory { MergeMemory(allowance) }

    var retainedCount: Int { retained.count }

    /// Releases the memory of all rows that were staged again after the first `count`.
    func release(after count: Int) { retained.removeLast(retained.count - count) }

    func retain(_ memory: MergeMemory) { retained.append(memory) }
}
