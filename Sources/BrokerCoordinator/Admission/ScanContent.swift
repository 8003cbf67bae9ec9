internal import BrokerStaging

/// The content of a frame, as far as its turn depends on it.
enum ScanContent {
    /// A message that has no place in an order: it was answered, or could not be.
    case nothing
    case job
    /// A job that may end very many links, or delete very many objects. To do that again, a job must make them first.
    case linking
    /// A job that may do much work in the store any number of times.
    case search
    case question

    /// How many scans may be in the order when one of this kind goes on, however cheap they are: past costs say little about
    /// future ones. Nil for what is no scan.
    var widest: Int? {
        switch self {
        case .nothing, .job, .question: nil
        case .linking: 32
        case .search: 4
        }
    }
}

extension Job {
    func content(under plan: StagingPlan) -> ScanContent {
        // A share of an entity's objects is known when all of them have been counted.
        if case .share = maximumDeletions { return .search }
        if operations.contains(where: { $0.isSearch(in: plan.model) }) { return .search }
        guard operations.contains(where: { $0.mayReachOthers(under: plan) }) else { return .job }
        // A job that is undone leaves everything as it was for the next one.
        let mayBeUndone =
            isDryRun || !mayDelete || maximumDeletions != nil || operations.count > 1 || plan.mayFailLast
        return mayBeUndone ? .search : .linking
    }
}
