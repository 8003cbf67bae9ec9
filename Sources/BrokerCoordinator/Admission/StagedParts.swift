internal import BrokerStaging

/// The results of the collections of one job, each from the worker that staged it.
struct StagedParts {
    private var parts: [Result<StagedPart, StagingRefusal>?]
    private var missing: Int
    /// The time that workers spent on them.
    private var microseconds: Int64 = 0

    init(count: Int) {
        parts = Array(repeating: nil, count: count)
        missing = count
    }

    /// All of them, in payload order, and the time that they took, when this was the last one.
    mutating func note(
        _ part: Result<StagedPart, StagingRefusal>, at number: Int, took microseconds: Int64
    ) -> (parts: [Result<StagedPart, StagingRefusal>], microseconds: Int64)? {
        parts[number] = part
        missing -= 1
        self.microseconds += microseconds
        guard missing == 0 else { return nil }
        defer { parts = [] }
        return (parts.compactMap { $0 }, self.microseconds)
    }
}
