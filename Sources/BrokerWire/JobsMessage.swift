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
    /// Only failures of jobs that were accepted then or later, in milliseconds since 1970.
    package let since: Int64?
    /// Only failures of that user.
    package let user: UInt32?
    /// Only failures of that code.
    package let code: String?

    package init(
        lists: [List] = List.allCases, limit: Int = defaultLimit, since: Int64? = nil, user: UInt32? = nil,
        code: String? = nil
    ) {
        self.lists = lists
        self.limit = limit
        self.since = since
        self.user = user
        self.code = code
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
        let user = try root.optionalCount("user")
        guard user.map({ UInt32(exactly: $0) != nil }) ?? true else {
            throw WireError(
                .unsupportedMessage, "`user` is the number of a user, at most \(UInt32.max).", path: "/user")
        }
        self.init(
            lists: List.allCases.filter { lists.isEmpty || lists.contains($0) }, limit: limit,
            since: try root.optionalCount("since").map { Int64($0) }, user: user.map { UInt32($0) },
            code: try root.optionalString("code", in: ""))
    }
}
