import ArgumentParser

/// A person's choices for entities that are inferred.
struct InferenceOptions: ParsableArguments {
    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            """
            Where a model is inferred: the key that identifies the records, or ENTITY=KEY for those of another \
            entity. Several keys with commas between them identify together. May be repeated.
            """, valueName: "key"))
    var identity: [String] = []

    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            """
            Where a model is inferred or extended: a key of the records that is ignored from now on, or ENTITY=KEY for \
            those of another entity. May be repeated.
            """, valueName: "key"))
    var ignore: [String] = []

    /// The options that are given.
    var given: [String] { [("--identity", identity), ("--ignore", ignore)].filter { !$1.isEmpty }.map(\.0) }

    mutating func validate() throws {
        for (name, texts) in [("--identity", identity), ("--ignore", ignore)] {
            for text in texts {
                let keys = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard !keys.contains(where: \.isEmpty), !keys.last!.split(separator: ",").isEmpty else {
                    throw ValidationError("\(name) is a key, or an entity, =, and a key: \(name) Country=alpha_3")
                }
            }
        }
    }

    /// By entity, the key paths of its identity.
    ///
    /// - Parameter entity: that of the records.
    func identities(or entity: String) -> [String: [String]] { Self.byEntity(identity, or: entity) }

    /// By entity, the key paths that are ignored.
    ///
    /// - Parameter entity: that of the records.
    func ignored(or entity: String) -> [String: [String]] { Self.byEntity(ignore, or: entity) }

    private static func byEntity(_ texts: [String], or entity: String) -> [String: [String]] {
        var byEntity: [String: [String]] = [:]
        for text in texts {
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            byEntity[parts.count == 2 ? parts[0] : entity, default: []] += parts.last!.split(separator: ",").map(
                String.init)
        }
        return byEntity
    }
}
