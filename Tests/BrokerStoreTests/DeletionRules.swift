/// The required effect of a `delete` by the delete rules in the model of ``EquivalentJobs``.
struct DeletionRules {
    private struct Node: Hashable {
        /// The topmost entity.
        let entity: String
        let key: String
    }

    private static let rules: [(entity: String, destination: String, isDeny: Bool, sql: String)] = [
        ("Bee", "Cell", false, "SELECT bee, no FROM Cell WHERE bee IS NOT NULL"),
        ("Bee", "Hive", false, "SELECT no, hive FROM Bee WHERE hive IS NOT NULL"),
        ("Hive", "Hive", false, "SELECT inside, _pk FROM Hive WHERE inside IS NOT NULL"),
        ("Bee", "Bee", true, "SELECT queen, no FROM Bee WHERE queen IS NOT NULL"),
        ("Bee", "Hive", true, "SELECT source, destination FROM Scout_finds"),
    ]

    private let links: [(from: Node, to: Node, isDeny: Bool)]
    private let named: Node?
    private let before: Set<Node>

    /// Reads what a store has before a deletion.
    ///
    /// - Parameter object: what is to be deleted; nil when it does not exist.
    init(_ store: TestStore, _ object: EquivalentOperation.Object?, _ features: EquivalentJobs.Features) throws {
        links = try (features.contains(.noCascade) ? [] : Self.rules).flatMap { rule in
            try store.ownRows(rule.sql).map { row in
                let ends = row.split(separator: "|").map(String.init)
                return (
                    Node(entity: rule.entity, key: ends[0]), Node(entity: rule.destination, key: ends[1]), rule.isDeny
                )
            }
        }
        named = object.map { object in
            Node(entity: ["Cell", "Hive"].contains(object.entity) ? object.entity : "Bee", key: object.key)
        }
        before = try Self.nodes(store)
    }

    /// The fault of the deletion; nil for none.
    func fault(_ store: TestStore, isDone: Bool) throws -> String? {
        var going = Set([named].compactMap(\.self))
        var count = 0
        while count < going.count {
            count = going.count
            going.formUnion(links.filter { !$0.isDeny && going.contains($0.from) }.map(\.to))
        }
        let isDenied = links.contains { $0.isDeny && going.contains($0.from) && !going.contains($0.to) }
        guard isDone else { return isDenied ? nil : "failed, and nothing holds the object back" }
        guard !isDenied else { return "was done, and an object is held back" }
        let (expected, left) = (before.subtracting(going), try Self.nodes(store))
        return left == expected
            ? nil : "left \(left.subtracting(expected)) and deleted \(expected.subtracting(left)), which it must not"
    }

    private static func nodes(_ store: TestStore) throws -> Set<Node> {
        try StoreDump(store).keys.reduce(into: []) { nodes, objects in
            nodes.formUnion(objects.value.map { Node(entity: objects.key, key: $0) })
        }
    }
}
