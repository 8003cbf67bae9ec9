/// The options that decide, with the jobs and the model, how the jobs of a log end. A change of them is an entry of the log, so that
/// jobs that are applied again meet the same.
package struct LoggedLimits: Sendable, Equatable {
    /// Whether a job repeats an earlier one depends on it.
    package let retention: LedgerRetention
    /// ``StoreOptions/mergeMemory``.
    package let mergeMemory: Int?

    package init(_ options: StoreOptions) {
        retention = options.retention
        mergeMemory = options.mergeMemory
    }

    /// Parses ``text``; nil for anything else, which a later version may have written.
    package init?(_ text: String) {
        var numbers: [Substring: Int] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "=")
            guard parts.count == 2, let number = Int(parts[1]), number >= 0 else { return nil }
            numbers[parts[0]] = number
        }
        guard let count = numbers.removeValue(forKey: "outcomesKept"),
            let seconds = numbers.removeValue(forKey: "outcomesKeptSeconds")
        else { return nil }
        // Earlier versions did not limit the merges of their journals.
        mergeMemory = numbers.removeValue(forKey: "mergeMemory")
        guard numbers.isEmpty else { return nil }
        retention = LedgerRetention(count: count, seconds: seconds)
    }

    /// A line for each limit: `outcomesKept=1000000`.
    package var text: String {
        "outcomesKept=\(retention.count)\noutcomesKeptSeconds=\(retention.seconds)"
            + (mergeMemory.map { "\nmergeMemory=\($0)" } ?? "")
    }

    /// Sets the limits in the options of a store.
    package func set(in options: inout StoreOptions) {
        options.retention = retention
        options.mergeMemory = mergeMemory
    }
}
