/// The options that decide, with the jobs and the model, how the jobs of a log end. A change of them is an entry of the log, so that
/// jobs that are applied again meet the same.
package struct LoggedLimits: Sendable, Equatable {
    /// Whether a job repeats an earlier one depends on it.
    package let retention: LedgerRetention

    package init(_ options: StoreOptions) { retention = options.retention }

    /// Parses ``text``; nil for anything else, which a later version may have written.
    package init?(_ text: String) {
        var numbers: [Substring: Int] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "=")
            guard parts.count == 2, let number = Int(parts[1]), number >= 0 else { return nil }
            numbers[parts[0]] = number
        }
        guard numbers.count == 2, let count = numbers["outcomesKept"], let seconds = numbers["outcomesKeptSeconds"]
        else { return nil }
        retention = LedgerRetention(count: count, seconds: seconds)
    }

    /// A line for each limit: `outcomesKept=1000000`.
    package var text: String { "outcomesKept=\(retention.count)\noutcomesKeptSeconds=\(retention.seconds)" }

    /// Sets the limits in the options of a store.
    package func set(in options: inout StoreOptions) { options.retention = retention }
}
