package import BrokerModel

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
