import TestSupport
import Testing

/// Random jobs over a model with a hierarchy, delete rules at each of its levels, optional identities, `modified`, tombstones,
/// ordered relationships and links that both sides name.
struct EquivalentJobs {
    /// Features of the model. The contract's rules for them limit the comparisons, so each may be omitted.
    struct Features: OptionSet, CustomTestStringConvertible {
        let rawValue: Int

        /// Records that delete their objects. Then no relationship replaces: an operation with tombstones may be applied in
        /// several batches, and takes what the last one says.
        static let tombstones = Features(rawValue: 1)
        /// Attributes that are unique beside the identity, alone and with a part of it.
        static let uniqueValues = Features(rawValue: 2)
        /// No delete rule but `nullify`, so no tombstone depends on other records.
        static let noCascade = Features(rawValue: 4)
        /// Jobs with `onInvalid: skip`, and records at fault: each job is compared with itself without what it skips.
        static let skip = Features(rawValue: 8)
        /// The same identities in all branches of the hierarchy.
        static let mixedBranches = Features(rawValue: 16)

        static let all: [Features] = [
            [], .tombstones, .uniqueValues, [.tombstones, .uniqueValues], .mixedBranches, .skip,
        ]

        var testDescription: String { "features \(rawValue)" }
    }

    static func model(_ features: Features) -> String {
        let replace = features.isDisjoint(with: [.tombstones, .skip]) ? #""assignment": "replace", "# : ""
        func rule(_ name: String) -> String { features.contains(.noCascade) ? "nullify" : name }
        let (cascade, deny) = (rule("cascade"), rule("deny"))
        func skipping(_ text: String) -> String { features.contains(.skip) ? text : "" }
        return """
            {"entities": {
              "Bee": {"identity": "no", "modified": "at", "tombstone": "gone == YES",
                "attributes": {"no": "integer64", "at": "integer64", "gone": "boolean", "text": "string", "size": "double"},
                \(features.contains(.uniqueValues) ? #""unique": [["text"]],"# : "")
                "relationships": {
                  "friend": {"entity": "Bee"},
                  "cells": {"entity": "Cell", "toMany": true, "ordered": true, "inverse": "bee", "deleteRule": "\(cascade)"},
                  "fans": {"entity": "Bee", "toMany": true, "ordered": true, "inverse": "idols"},
                  "idols": {"entity": "Bee", "toMany": true, \(replace)"inverse": "fans"}}},
              "Drone": {"parent": "Bee", "attributes": {
                "wing": {"type": "float"\(skipping(#", "optional": false"#))}}, "relationships": {
                "queen": {"entity": "Queen", "inverse": "drones"}, "pal": {"entity": "Drone", "inverse": "pal"\(skipping(#", "missing": "ignore""#))},
                "hive": {"entity": "Hive", "inverse": "drone", "deleteRule": "\(cascade)"}}},
              "Scout": {"parent": "Drone", "relationships": {
                "finds": {"entity": "Hive", "toMany": true\(skipping(#", "missing": "fail""#)), "deleteRule": "\(deny)"}}},
              "Queen": {"parent": "Bee", "relationships": {
                "drones": {"entity": "Drone", "toMany": true, "ordered": true, "inverse": "queen", "deleteRule": "\(deny)"},
                "court": {"entity": "Bee", "toMany": true, \(replace)"ordered": true}}},
              "Cell": {"identity": "no", "attributes": {"no": "integer64", "text": "string"}, "relationships": {
                "bee": {"entity": "Bee", "inverse": "cells"}}},
              "Hive": {"identity": "name", "identityOptional": true, "attributes": {"name": "string", "text": "string"},
                "relationships": {
                  "drone": {"entity": "Drone", "inverse": "hive"}, "guests": {"entity": "Bee", "toMany": true},
                  "inside": {"entity": "Hive", "inverse": "rooms"},
                  "rooms": {"entity": "Hive", "toMany": true, "ordered": true, "inverse": "inside", "deleteRule": "\(cascade)"},
                  "near": {"entity": "Hive", "toMany": true, "inverse": "near"}}},
              "Slot": {"identity": ["no", "row"], \(features.contains(.uniqueValues) ? #""unique": [["row", "text", "wide"]],"# : "")
                "attributes": {"no": "integer64", "row": "integer64", "text": "string", "wide": "boolean"}, "relationships": {
                  "bee": {"entity": "Bee"}}}
            }}
            """
    }

    typealias Relationship = (name: String, entity: String, isToMany: Bool)

    static let relationships: [String: [Relationship]] = {
        let bee = [("friend", "Bee", false), ("cells", "Cell", true), ("fans", "Bee", true), ("idols", "Bee", true)]
        let drone = bee + [("queen", "Queen", false), ("pal", "Drone", false), ("hive", "Hive", false)]
        return [
            "Bee": bee, "Drone": drone, "Scout": drone + [("finds", "Hive", true)],
            "Queen": bee + [("drones", "Drone", true), ("court", "Bee", true)], "Cell": [("bee", "Bee", false)],
            "Hive": [
                ("guests", "Bee", true), ("near", "Hive", true), ("inside", "Hive", false), ("rooms", "Hive", true),
                ("drone", "Drone", false),
            ],
            "Slot": [("bee", "Bee", false)],
        ]
    }()

    private var generator: SeededGenerator
    private let features: Features
    private var favorites: [String: String] = [:]
    /// Operations that clear a relationship and fill it again.
    private var refilling: [EquivalentOperation] = []

    init(seed: UInt64, _ features: Features) {
        generator = SeededGenerator(seed: seed)
        self.features = features
    }

    /// Operations that fill a store.
    mutating func filling() -> [EquivalentOperation] {
        ["Drone", "Scout", "Queen", "Bee", "Cell", "Hive", "Slot"].map { process($0, 4) }
    }

    /// Its operations often name one object of each entity, so that they change what others of them have changed.
    mutating func job() -> [EquivalentOperation] {
        favorites = [:]
        let entity = entity()
        for entity in Self.relationships.keys.sorted() where entity != "Slot" { favorites[entity] = key(entity) }
        let operations = (0..<number(1...4)).map { _ in operation(chance(2) ? entity : self.entity()) }
        // The second of two such jobs changes nothing.
        guard chance(2) else { return operations }
        if refilling.isEmpty || chance(3) {
            var entity = self.entity()
            if entity == "Slot" { entity = "Bee" }
            let (relationship, name) = (relationship(entity), name(entity))
            let full = value(relationship, depth: 0)
            refilling = ["null", full].map {
                EquivalentOperation(.relate(relationship.name), entity, name: name, [$0])
            }
        }
        return chance(2) ? refilling : refilling + operations
    }

    private mutating func operation(_ entity: String) -> EquivalentOperation {
        if entity == "Slot" { return slotOperation() }
        switch number(0...10) {
        case 0...3: return process(entity, number(1...3))
        case 4, 5:
            let (name, relationship) = (name(entity), relationship(entity))
            let value = value(relationship, depth: 1)
            return EquivalentOperation(.relate(relationship.name), entity, name: name, [value])
        case 6, 7:
            let name = name(entity)
            var members = members(entity, depth: 1)
            var isRenaming = false
            if chance(3) {
                isRenaming = chance(4)
                let identity = isRenaming ? key(entity) : EquivalentOperation.identityMark
                members.insert("\"\(EquivalentOperation.identity(entity))\": \(identity)", at: 0)
            }
            return EquivalentOperation(isRenaming ? .rename : .change, entity, name: name, members)
        case 8, 9: return EquivalentOperation(.delete, entity, name: name(entity), [EquivalentOperation.mark])
        default:
            let condition = entity == "Hive" ? "name == 'a'" : "#no == \(number(1...7))"
            return EquivalentOperation(.sync(condition), entity, [record(entity, depth: 1)])
        }
    }

    /// Such an object is named by two values.
    private mutating func slotOperation() -> EquivalentOperation {
        switch number(0...4) {
        case 0: EquivalentOperation(.delete, "Slot", ["{\(slotKey())}"])
        case 1: EquivalentOperation(.sync("#row == \(number(1...2))"), "Slot", [record("Slot", depth: 1)])
        default: process("Slot", number(1...3))
        }
    }

    private mutating func slotKey() -> String { "\"no\": \(number(1...3)), \"row\": \(number(1...2))" }

    private mutating func process(_ entity: String, _ count: Int) -> EquivalentOperation {
        EquivalentOperation(.process, entity, (0..<count).map { _ in record(entity, depth: 1) })
    }

    private mutating func record(_ entity: String, depth: Int) -> String {
        var members = members(entity, depth: depth)
        if entity == "Slot" { return "{\((["\(slotKey())"] + members).joined(separator: ", "))}" }
        let isNameless = entity == "Hive" && chance(8)
        if !isNameless { members.insert("\"\(EquivalentOperation.identity(entity))\": \(key(entity))", at: 0) }
        return "{\(members.joined(separator: ", "))}"
    }

    private mutating func members(_ entity: String, depth: Int) -> [String] {
        var members: [String] = []
        // Few texts, or unique values never meet; many while the store is filled, or that would mostly fail.
        let texts = favorites.isEmpty ? "abcdefghijkl" : "abcd"
        if chance(3) { members.append(#""text": "\#(pick(texts.map(String.init)))""#) }
        if entity == "Slot" { members.append("\"wide\": \(chance(2))") }
        if features.contains(.skip), chance(12) { members.append(#""text": {}"#) }
        if !["Cell", "Hive", "Slot"].contains(entity) {
            if features.contains(.skip), chance(12) { members.append(#""at": "x""#) }
            if chance(3) { members.append("\"at\": \(number(1...4))") }
            if chance(4) { members.append("\"size\": \(pick(["5", "5.0", "5.5"]))") }
            if features.contains(.tombstones), chance(8) { members.append("\"gone\": true") }
        }
        if entity == "Drone" || entity == "Scout" && features.contains(.skip),
            features.contains(.skip) ? !chance(3) : chance(4)
        {
            members.append("\"wing\": \(number(1...3))")
        }
        for relationship in Self.relationships[entity]! where chance(4) {
            members.append("\"\(relationship.name)\": \(value(relationship, depth: depth))")
        }
        members.shuffle(using: &generator)
        return members
    }

    private mutating func value(_ relationship: Relationship, depth: Int) -> String {
        if chance(6) { return "null" }
        guard relationship.isToMany else { return element(relationship.entity, depth: depth) }
        let elements = (0..<number(0...3)).map { _ in element(relationship.entity, depth: depth) }
        return "[\(elements.joined(separator: ", "))]"
    }

    private mutating func element(_ entity: String, depth: Int) -> String {
        depth == 0 || chance(2) ? key(entity) : record(entity, depth: depth - 1)
    }

    private mutating func entity() -> String {
        pick(["Bee", "Drone", "Scout", "Scout", "Queen", "Queen", "Cell", "Hive", "Hive", "Hive", "Slot"])
    }

    /// Often one that is not the topmost entity's.
    private mutating func relationship(_ entity: String) -> Relationship {
        let all = Self.relationships[entity]!
        return pick(chance(2) ? all.suffix(3) : all)
    }

    /// The name of an operation's object: its identity; NULL for a Hive without one.
    private mutating func name(_ entity: String) -> String {
        if entity == "Hive", chance(8) { return "NULL" }
        let name = key(entity)
        // Its `json` often names it, too, which a Hive has another name for.
        favorites[entity] = name
        return name
    }

    private mutating func key(_ entity: String) -> String {
        if let favorite = favorites[entity], chance(2) { return favorite }
        return switch entity {
        case "Drone" where features.contains(.mixedBranches): "\(number(1...6))"
        case "Scout" where features.contains(.mixedBranches): "\(number(2...5))"
        case "Queen" where features.contains(.mixedBranches): "\(number(4...6))"
        case "Drone": "\(number(1...3))"
        case "Scout": "\(number(2...3))"
        case "Queen": "\(number(4...5))"
        case "Hive": #""\#(pick(["a", "b", "c"]))""#
        default: "\(number(1...7))"
        }
    }

    // MARK: - Chance

    private mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }
    private mutating func chance(_ one: Int) -> Bool { number(1...one) == 1 }
    private mutating func pick<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &generator)! }
}
