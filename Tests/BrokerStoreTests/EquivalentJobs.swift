import TestSupport

/// Random jobs over a model with a hierarchy, optional identities, `modified`, tombstones, ordered relationships and links
/// that both sides name.
struct EquivalentJobs {
    /// Features whose rules are tested here only when they are asked for.
    struct Features: OptionSet {
        let rawValue: Int

        /// Records that delete their objects.
        static let tombstones = Features(rawValue: 1)
        /// Attributes that are unique beside the identity.
        static let uniqueValues = Features(rawValue: 2)
    }

    /// One operation, as JSON in two forms.
    struct Operation {
        let json: String
        /// The same effect on an object that exists, as a plain `process`; nil of an operation that names no object.
        var plain: String?
        /// Of an object without a key in the model, what it is named by and where that stands in `json`.
        var name: (entity: String, identity: String)?
        /// It merges records.
        var isMerged = true
    }

    static let mark = "$KEY"

    static func model(_ features: Features) -> String {
        """
        {"entities": {
          "Bee": {"identity": "no", "modified": "at", "tombstone": "gone == YES",
            "attributes": {"no": "integer64", "at": "integer64", "gone": "boolean", "text": "string", "size": "double"},
            \(features.contains(.uniqueValues) ? #""unique": [["text"]],"# : "")
            "relationships": {
              "friend": {"entity": "Bee"},
              "cells": {"entity": "Cell", "toMany": true, "ordered": true, "inverse": "bee", "deleteRule": "cascade"},
              "fans": {"entity": "Bee", "toMany": true, "ordered": true, "inverse": "idols"},
              "idols": {"entity": "Bee", "toMany": true, "assignment": "replace", "inverse": "fans"}}},
          "Drone": {"parent": "Bee", "attributes": {"wing": "float"}, "relationships": {
            "queen": {"entity": "Queen", "inverse": "drones"}, "pal": {"entity": "Drone", "inverse": "pal"},
            "hive": {"entity": "Hive", "inverse": "drone"}}},
          "Queen": {"parent": "Bee", "relationships": {
            "drones": {"entity": "Drone", "toMany": true, "ordered": true, "inverse": "queen"},
            "court": {"entity": "Bee", "toMany": true, "ordered": true, "assignment": "replace"}}},
          "Cell": {"identity": "no", "attributes": {"no": "integer64", "text": "string"}, "relationships": {
            "bee": {"entity": "Bee", "inverse": "cells"}}},
          "Hive": {"identity": "name", "identityOptional": true, "attributes": {"name": "string", "text": "string"},
            "relationships": {
              "drone": {"entity": "Drone", "inverse": "hive"}, "guests": {"entity": "Bee", "toMany": true},
              "inside": {"entity": "Hive", "inverse": "rooms"},
              "rooms": {"entity": "Hive", "toMany": true, "ordered": true, "inverse": "inside"},
              "near": {"entity": "Hive", "toMany": true, "inverse": "near"}}}
        }}
        """
    }

    private static let relationships: [String: [(name: String, entity: String, isToMany: Bool)]] = {
        let bee = [("friend", "Bee", false), ("cells", "Cell", true), ("fans", "Bee", true), ("idols", "Bee", true)]
        return [
            "Bee": bee, "Drone": bee + [("queen", "Queen", false), ("pal", "Drone", false), ("hive", "Hive", false)],
            "Queen": bee + [("drones", "Drone", true), ("court", "Bee", true)], "Cell": [("bee", "Bee", false)],
            "Hive": [
                ("drone", "Drone", false), ("guests", "Bee", true), ("inside", "Hive", false), ("rooms", "Hive", true),
                ("near", "Hive", true),
            ],
        ]
    }()

    private var generator: SeededGenerator
    private let features: Features

    init(seed: UInt64, _ features: Features) {
        generator = SeededGenerator(seed: seed)
        self.features = features
    }

    /// Operations that fill a store.
    mutating func filling() -> [Operation] {
        ["Drone", "Queen", "Bee", "Cell", "Hive"].map { process($0, 4) }
    }

    mutating func job() -> [Operation] { (0..<number(1...4)).map { _ in operation() } }

    private mutating func operation() -> Operation {
        let entity = entity()
        switch number(0...9) {
        case 0...4: return process(entity, number(1...3))
        case 5, 6:
            let relationship = pick(Self.relationships[entity]!)
            let value = value(relationship, depth: 1)
            let key = key(entity)
            return named(
                entity, key,
                #"{"op": "relate", "entity": "\#(entity)", "object": \#(Self.mark), "relationship": "\#(relationship.name)", "json": \#(value)}"#,
                [#""\#(relationship.name)": \#(value)"#])
        case 7:
            let (key, members) = (key(entity), members(entity, depth: 1))
            return named(
                entity, key,
                #"{"entity": "\#(entity)", "object": \#(Self.mark), "json": {\#(members.joined(separator: ", "))}}"#,
                members)
        case 8:
            // Of an optional identity the key is a number, which the operation does not know.
            let entity = entity == "Hive" ? "Cell" : entity
            return Operation(
                json: #"{"op": "delete", "entity": "\#(entity)", "objects": [\#(key(entity))]}"#, isMerged: false)
        default:
            let condition = entity == "Hive" ? "name == 'a'" : "no == \(number(1...7))"
            return Operation(
                json:
                    #"{"op": "sync", "entity": "\#(entity)", "json": [\#(record(entity, depth: 1))], "where": "\#(condition)"}"#,
                isMerged: false)
        }
    }

    private func named(_ entity: String, _ key: String, _ json: String, _ members: [String]) -> Operation {
        let identity = "\"\(entity == "Hive" ? "name" : "no")\": \(key)"
        var operation = Operation(
            json: json,
            plain: #"{"entity": "\#(entity)", "json": {\#(([identity] + members).joined(separator: ", "))}}"#)
        operation.isMerged = false
        operation.name = (entity, key)
        return operation
    }

    private mutating func process(_ entity: String, _ count: Int) -> Operation {
        let records = (0..<count).map { _ in record(entity, depth: 1) }
        return Operation(json: #"{"entity": "\#(entity)", "json": [\#(records.joined(separator: ", "))]}"#)
    }

    private mutating func record(_ entity: String, depth: Int) -> String {
        let identity = "\"\(entity == "Hive" ? "name" : "no")\": \(key(entity))"
        return "{\(([identity] + members(entity, depth: depth)).joined(separator: ", "))}"
    }

    private mutating func members(_ entity: String, depth: Int) -> [String] {
        var members: [String] = []
        if chance(3) { members.append(#""text": "\#(pick(["a", "b", "c"]))""#) }
        if entity != "Cell", entity != "Hive" {
            if chance(3) { members.append("\"at\": \(number(1...4))") }
            if chance(4) { members.append("\"size\": \(pick(["5", "5.0", "5.5"]))") }
            if features.contains(.tombstones), chance(8) { members.append("\"gone\": true") }
        }
        if entity == "Drone", chance(4) { members.append("\"wing\": \(number(1...3))") }
        for relationship in Self.relationships[entity]! where chance(4) {
            members.append("\"\(relationship.name)\": \(value(relationship, depth: depth))")
        }
        members.shuffle(using: &generator)
        return members
    }

    private mutating func value(
        _ relationship: (name: String, entity: String, isToMany: Bool), depth: Int
    ) -> String {
        if chance(6) { return "null" }
        guard relationship.isToMany else { return element(relationship.entity, depth: depth) }
        return
            "[\((0..<number(0...3)).map { _ in element(relationship.entity, depth: depth) }.joined(separator: ", "))]"
    }

    private mutating func element(_ entity: String, depth: Int) -> String {
        depth == 0 || chance(2) ? key(entity) : record(entity, depth: depth - 1)
    }

    private mutating func entity() -> String { pick(["Bee", "Drone", "Drone", "Queen", "Cell", "Hive", "Hive"]) }

    private mutating func key(_ entity: String) -> String {
        switch entity {
        case "Drone": "\(number(1...3))"
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
