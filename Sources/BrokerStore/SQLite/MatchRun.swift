internal import BrokerModel

/// Why an execution of a predicate ended early.
final class MatchRun {
    private(set) var fault: Fault?
    /// Whether no further test may run.
    let isOver: () -> Bool

    init(isOver: @escaping () -> Bool) { self.isOver = isOver }

    func begin() { fault = nil }

    func giveUp(_ fault: Fault) { self.fault = fault }
}
