internal import BrokerJSON

/// A request for lists of jobs.
package struct JobsMessage: Sendable, Equatable {
    /// A list of jobs.
    package enum List: String, Sendable, CaseIterable {
        /// Those that have not ended.
        case running
        /// Those that failed.
        case failed
        /// Those that took long.
        case slow
    }

    /// The number of jobs in each list, at most.
    package static let limits = 1...1_000
    package static let defaultLimit = 20

    /// Without repetitions.
    package let lists: [List]
    package let limit: Int

    package init(lists: [List] = List.allCases, limit: Int = defaultLimit) {
        self.lists = lists
        self.limit = limit
    }

    init(_ root: JSONValue) throws(WireError) {
        var lists: Set<List> = []
        if let value = root["lists"] {
            guard value.kind == .array else { throw value.isNo("an array", at: "/lists") }
            for (index, name) in value.elements.enumerated() {
                guard let list = List.allCases.first(where: { name.isText($0.rawValue) }) else {
                    throw WireError(
                        .unsupportedMessage,
                        "There is no list \(name.quotedBriefly); the lists are \(List.allCases.map(\.rawValue).listed).",
                        path: "/lists/\(index)")
                }
                lists.insert(list)
            }
        }
        var limit = Self.defaultLimit
        if let value = root["limit"] {
            guard let number = value.wholeNumber, Self.limits.contains(Int(clamping: number)) else {
                throw WireError(
                    .unsupportedMessage,
                    "The `limit` of `jobs` is a whole number from \(Self.limits.lowerBound) to \(Self.limits.upperBound).",
                    path: "/limit")
            }
            limit = Int(number)
        }
        self.init(lists: List.allCases.filter { lists.isEmpty || lists.contains($0) }, limit: limit)
    }
}
