internal import BrokerJSON
internal import BrokerModel

/// The treatment of parts of a store that the model no longer has.
package struct RemovalPolicy: Sendable, Hashable {
    package enum Choice: String, Sendable, CaseIterable {
        case refuse
        /// The part stays in the file, unused, so that the earlier model can be used again.
        case keep
        case drop
    }

    /// Of the parts that are not named.
    private let others: Choice
    /// By the subject of their change.
    private let named: [ExactText: Choice]

    package static let refuse = RemovalPolicy(.refuse)
    package static let keep = RemovalPolicy(.keep)
    package static let drop = RemovalPolicy(.drop)

    package init(_ choice: Choice) { (others, named) = (choice, [:]) }

    /// All other parts are refused.
    ///
    /// - Parameters:
    ///   - kept: the subjects of changes: `Entity`, `Entity.attribute`.
    package init(keeping kept: [String], dropping dropped: [String]) {
        others = .refuse
        var named: [ExactText: Choice] = [:]
        for name in kept { named[ExactText(name)] = .keep }
        for name in dropped { named[ExactText(name)] = .drop }
        self.named = named
    }

    package func choice(for subject: String) -> Choice { named[subject] ?? others }

    /// Some part may be dropped.
    var drops: Bool { others == .drop || named.values.contains(.drop) }

    /// The named parts.
    var subjects: [String] { named.keys.map(\.text).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } }

    // MARK: - In a log

    /// One line: a word, or the named parts in JSON.
    package var line: String {
        guard !named.isEmpty else { return others.rawValue }
        var writer = JSONWriter()
        writer.object { writer in
            for choice in [Choice.keep, .drop] {
                writer.strings(choice.rawValue, subjects.filter { self.choice(for: $0) == choice })
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// - Returns: nil for a line that a later version wrote.
    package init?(line: String) {
        if let choice = Choice(rawValue: line) {
            self.init(choice)
            return
        }
        guard let root = try? ModelDocument(parsing: JSONText(copying: Array(line.utf8))).root else { return nil }
        let lists = [Choice.keep, .drop].map { choice in root[choice.rawValue]?.elements.compactMap(\.string) ?? [] }
        guard root.members.count == 2, !lists.joined().isEmpty else { return nil }
        self.init(keeping: lists[0], dropping: lists[1])
    }
}
