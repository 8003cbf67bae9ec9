public import BrokerModel

/// The memory that one job may still take. It is asked in steps, from whichever threads stage the job, before the memory
/// is used; what was granted is given back by its owner when the job's rows are gone.
public protocol StagingAllowance: AnyObject, Sendable {
    /// Whether `bytes` more may be taken. Staging ends with ``StagingRefusal/noRoom`` when they may not.
    func take(_ bytes: Int) -> Bool
}

/// Why a job, or a part of it, was not staged.
public enum StagingRefusal: Error, Sendable {
    /// Something in it is wrong, and the job asked to fail then.
    case fault(Fault)
    /// The allowance was refused. Nothing is kept, and the same may be staged again later.
    case noRoom
}

/// Counts what a staging context takes, and asks for it in steps, so that asking costs nothing for each row.
struct StagingMemory {
    /// Bytes asked for at first, and at most at a time beyond what is needed: small jobs take little.
    private static let firstStep = 1 << 10
    private static let largestStep = 64 << 10

    private let allowance: (any StagingAllowance)?
    private var granted = 0
    private var used = 0

    /// - Parameter allowance: nil takes what it wants.
    init(_ allowance: (any StagingAllowance)?) { self.allowance = allowance }

    /// Whether so much more may be used.
    @inline(__always)
    mutating func take(_ bytes: Int) -> Bool {
        used += bytes
        return used <= granted || ask()
    }

    private mutating func ask() -> Bool {
        guard let allowance else {
            granted = .max
            return true
        }
        let wanted = max(min(Self.largestStep, max(Self.firstStep, granted)), used - granted)
        guard allowance.take(wanted) else { return false }
        granted += wanted
        return true
    }
}
