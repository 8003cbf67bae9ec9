internal import BrokerModel

/// Why new jobs are refused. The causes come and go by themselves. A pure value.
struct Refusals {
    /// The server stops.
    var stopping: Fault?
    /// Nothing more is applied.
    var halt: Fault?
    /// The store takes no writes.
    var store: Fault?
    /// The log takes no entries.
    var log: Fault?

    /// Nil while new jobs are accepted.
    var current: Fault? { stopping ?? halt ?? store ?? log }
}
