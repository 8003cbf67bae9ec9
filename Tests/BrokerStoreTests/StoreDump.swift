import BrokerModel
import Foundation

/// All rows of a store of ``EquivalentJobs``.
struct StoreDump {
    /// By topmost entity and key, the object's row; its own entity first.
    private var objects: [String: [String: String]] = [:]
    /// By topmost entity and key, its rows of link tables.
    private var links: [String: [String: Set<String>]] = [:]
    /// Rows without positions, and orders.
    private var lines: [String] = []
    private var faults: [String] = []

    private static let tables: [(entity: String, key: String, columns: [String], positions: [String])] = [
        (
            "Bee", "no", ["_entity", "no", "at", "gone", "text", "size", "friend", "wing", "queen", "pal", "hive"],
            ["queen_position"]
        ),
        ("Cell", "no", ["'Cell'", "no", "text", "bee"], ["bee_position"]),
        ("Hive", "_pk", ["'Hive'", "_pk", "name", "text", "drone", "inside"], ["inside_position"]),
    ]
    /// Name, the entities at both ends, the positions, and whether the destination has a relationship for it.
    private static let linkTables:
        [(name: String, source: String, destination: String, positions: [String], isPair: Bool)] = [
            ("Bee_fans", "Bee", "Bee", ["position"], true), ("Queen_court", "Bee", "Bee", ["position"], false),
            ("Scout_finds", "Bee", "Hive", [], false),
            ("Hive_guests", "Hive", "Bee", [], false), ("Hive_near", "Hive", "Hive", [], true),
        ]
    /// Table, the column of the owner, that of the element, and the position.
    private static let orders = [
        ("Bee", "queen", "no", "queen_position"), ("Cell", "bee", "no", "bee_position"),
        ("Hive", "inside", "_pk", "inside_position"), ("Bee_fans", "source", "destination", "position"),
        ("Queen_court", "source", "destination", "position"),
    ]

    init(_ store: TestStore) throws {
        for table in Self.tables {
            func rows(_ columns: [String]) throws -> [String] {
                try store.ownRows(
                    "SELECT \(columns.joined(separator: ", ")) FROM \(table.entity) ORDER BY \(table.key)")
            }
            lines += try rows(table.columns).map { "\(table.entity): \($0)" }
            let keys = try rows([table.key])
            objects[table.entity] = Dictionary(
                uniqueKeysWithValues: zip(keys, try rows(table.columns + table.positions)))
        }
        lines += try store.ownRows("SELECT no, row, text, wide, bee FROM Slot ORDER BY 1, 2").map { "Slot: \($0)" }
        for table in Self.linkTables {
            lines += try store.ownRows("SELECT source, destination FROM \(table.name) ORDER BY 1, 2")
                .map { "\(table.name): \($0)" }
            let columns = ["source", "destination"] + table.positions
            for row in try store.ownRows("SELECT \(columns.joined(separator: ", ")) FROM \(table.name)") {
                let ends = row.split(separator: "|").map(String.init)
                links[table.source, default: [:]][ends[0], default: []].insert("\(table.name) \(row)")
                if table.isPair {
                    links[table.destination, default: [:]][ends[1], default: []].insert("\(table.name) \(row)")
                }
            }
        }
        for (table, owner, element, position) in Self.orders {
            lines += try store.ownRows(
                "SELECT \(owner), \(element) FROM \(table) WHERE \(owner) IS NOT NULL ORDER BY \(owner), \(position)"
            ).map { "order of \(table).\(owner): \($0)" }
            faults += try store.ownRows(
                "SELECT \(owner), \(element) FROM \(table) WHERE \(owner) IS NOT NULL AND \(position) IS NULL"
            ).map { "\(table).\(owner) has no position: \($0)" }
        }
        faults += try store.ownRows(
            """
            SELECT d.no, d.hive, h._pk, h.drone FROM Bee AS d JOIN Hive AS h ON d.hive = h._pk AND h.drone IS NOT d.no
              OR h.drone = d.no AND d.hive IS NOT h._pk
            """
        ).map { "a drone and a hive do not name each other: \($0)" }
        faults += try store.ownRows(
            "SELECT a.no, a.pal, b.pal FROM Bee AS a JOIN Bee AS b ON a.pal = b.no AND b.pal IS NOT a.no"
        )
        .map { "two pals do not name each other: \($0)" }
        faults += try store.ownRows(
            "SELECT 1 FROM Hive_near AS a WHERE NOT EXISTS (SELECT 1 FROM Hive_near AS b WHERE a.source = b.destination AND a.destination = b.source)"
        )
        .map { _ in "a link of Hive_near has no other direction" }
        faults += try store.ownRows("PRAGMA foreign_key_check").map { "a link leads nowhere: \($0)" }
    }

    /// The fault of the store after a job; nil for none.
    func inconsistency() -> String? { faults.first }

    /// By topmost entity, the keys of its objects.
    var keys: [String: Set<String>] { objects.mapValues { Set($0.keys) } }

    func difference(from other: StoreDump) -> String? {
        guard lines != other.lines else { return nil }
        let (own, others) = (Set(lines), Set(other.lines))
        let missing = other.lines.filter { !own.contains($0) }, new = lines.filter { !others.contains($0) }
        return missing.isEmpty && new.isEmpty
            ? "another order: \(lines.filter { $0.hasPrefix("order") }), should be \(other.lines.filter { $0.hasPrefix("order") })"
            : "has \(new), should have \(missing)"
    }

    /// Where the keys of a job are not those of the objects that changed; nil for nowhere.
    static func miscount(_ outcome: Outcome, _ before: StoreDump, _ after: StoreDump) throws -> String? {
        let json = try JSONSerialization.jsonObject(with: Data(outcome.keys ?? [])) as? [String: [String: [Any]]] ?? [:]
        for (entity, key, _, _) in tables {
            let own = entity == "Bee" ? ["Bee", "Drone", "Scout", "Queen"] : [entity]
            func reported(_ word: String) -> [String] {
                own.flatMap { json[$0]?[word] ?? [] }.map { "\($0)" }.sorted()
            }
            let (old, new) = (before.objects[entity]!, after.objects[entity]!)
            let common = Set(old.keys).intersection(new.keys)
            let changed = common.filter { old[$0] != new[$0] }
            let linked = common.filter { before.links[entity]?[$0] ?? [] != after.links[entity]?[$0] ?? [] }
            let inserted = new.keys.filter { old[$0] == nil }.sorted(),
                deleted = old.keys.filter { new[$0] == nil }.sorted()
            let updated = reported("updated")
            if reported("inserted") != inserted {
                return "inserted \(entity).\(key) are \(reported("inserted")), should be \(inserted)"
            }
            if reported("deleted") != deleted {
                return "deleted \(entity).\(key) are \(reported("deleted")), should be \(deleted)"
            }
            guard Set(updated).isSuperset(of: changed), Set(updated).isSubset(of: changed.union(linked)),
                Set(updated).count == updated.count
            else { return "updated \(entity).\(key) are \(updated), should be \(changed), perhaps \(linked)" }
        }
        return nil
    }
}
