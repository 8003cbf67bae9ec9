internal import BrokerStaging

/// The results of the collections of one job, each from the worker that staged it.
struct StagedParts {
    private var parts: [Result<StagedPart, StagingRefusal>?]
    private var missing: Int

    init(count: Int) {
        parts = Array(repeating: nil, count: count)
        missing = count
    }

    /// All of them, in payload order, when this was the last one.
    mutating func note(
        _ part: Result<StagedPart, StagingRefusal>, at number: Int
    ) -> [Result<StagedPart, StagingRefusal>]? {
        parts[number] = part
        missing -= 1
        guard missing == 0 else { return nil }
        defer { parts = [] }
        return parts.compactMap { $0 }
    }
}
