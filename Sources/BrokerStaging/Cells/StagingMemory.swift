package import BrokerModel

/// Counts the memory of a staging context, and asks the allowance in steps, so that a row costs no call.
struct StagingMemory {
    /// The first step, and the largest step beyond the memory that is needed: small jobs use little.
    private static let firstStep = 1 << 10
    private static let largestStep = 64 << 10

    private let allowance: (any StagingAllowance)?
    private var granted = 0
    private var used = 0

    /// - Parameter allowance: nil grants all.
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

/// The memory that one job may still use. The threads that stage the job ask for it in steps, before they use it. Its
/// owner gives back the granted memory when it releases the job's rows.
package protocol StagingAllowance: AnyObject, Sendable {
    /// Whether `bytes` more may be used. If not, staging ends with `StagingRefusal.noRoom`.
    func take(_ bytes: Int) -> Bool
}

/// The reason why a job, or a part of it, was not staged.
package enum StagingRefusal: Error, Sendable {
    /// The job has a fault, and its policy is `fail`.
    case fault(Fault)
    /// The allowance refused the memory. Nothing was staged; a later attempt may succeed.
    case noRoom
}
