internal import BrokerJSON

/// A `subscribe` as the client sent it: it follows the committed jobs that change some entities.
package struct SubscribeMessage: Sendable {
    /// The contents of `committed`.
    package enum Reply: String, Sendable, CaseIterable { case summary, keys }

    /// A model has no more entities.
    package static let maximumEntities = 5_000

    /// Nil for those of the model.
    package let entities: [String]?
    /// Nil for the jobs from now on.
    package let after: Int64?
    package let reply: Reply
}

extension SubscribeMessage {
    init(_ root: JSONValue) throws(WireError) {
        if let list = root["entities"], list.kind == .array {
            var count = 0
            for _ in list.elements { count += 1 }
            guard (1...Self.maximumEntities).contains(count) else {
                throw WireError(
                    .unsupportedMessage,
                    "`entities` has 1 to \(Self.maximumEntities) names, not \(count). Omit it for all entities.",
                    path: "/entities")
            }
        }
        entities = root["entities"] == nil ? nil : try root.optionalStrings("entities", of: "names of entities")
        after = try root.optionalCount("after").map { Int64($0) }
        reply = try root.optionalWord("reply", Reply.self) ?? .summary
    }
}
