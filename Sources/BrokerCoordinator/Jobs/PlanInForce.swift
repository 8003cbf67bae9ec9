internal import BrokerStaging

/// The staging plan of the model in force.
struct PlanInForce {
    var plan: StagingPlan
    /// Rises with each change of the model, so that a job that was staged under another one is recognized.
    var generation: Int
}
