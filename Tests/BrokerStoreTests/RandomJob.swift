import BrokerStaging
import TestSupport

/// A job over a small space of identities: operations of entities and records, in payload order.
struct RandomJob {
    struct Operation {
        var entity: String
        var json: Tree
    }

    var operations: [Operation]
    var skips: Bool

    var policy: InvalidRecordPolicy { skips ? .skip : .fail }

    /// The payload as `TestStore` takes it: an object whose keys may come again.
    var tree: Tree { .object(operations.map { Tree.Member(key: $0.entity, value: $0.json) }) }
    var text: String { tree.text }
}

/// Makes random jobs for a model.
struct RandomJobs {
    let model: RandomModel
    var generator: SeededGenerator
    /// How often a fault comes: never, or one time in so many.
    private let faults: Int?
    private var newestMark = 0
    private var roomForRecords = 0

    init(_ model: RandomModel, _ generator: SeededGenerator) {
        self.model = model
        self.generator = generator
        faults = self.generator.chance(3) ? nil : 20
    }

    mutating func job() -> RandomJob {
        roomForRecords = Int.random(in: 1...10, using: &generator)
        let operations = (0..<Int.random(in: 1...3, using: &generator)).map { _ in operation() }
        return RandomJob(operations: operations, skips: !generator.chance(4))
    }

    private mutating func operation() -> RandomJob.Operation {
        let entity = model.entity(model.entities.randomElement(using: &generator)!.name)
        if generator.chance(5) { return RandomJob.Operation(entity: entity.name, json: record(entity, depth: 3)) }
        let records = (0..<Int.random(in: 0...4, using: &generator)).map { _ in
            isFaulty() && generator.chance(3) ? .literal("1") : record(entity, depth: 3)
        }
        return RandomJob.Operation(entity: entity.name, json: .array(records))
    }

    private mutating func record(_ entity: RandomModel.Entity, depth: Int) -> Tree {
        roomForRecords -= 1
        var members: [Tree.Member] = []
        for attribute in entity.attributes {
            if attribute.name == "mark" {
                newestMark += 1
                members.append(Tree.Member(key: "mark", value: .literal("\(newestMark)")))
            } else if entity.identity.contains(attribute.name) {
                guard !(entity.isIdentityOptional && generator.chance(3)), !isFaulty() else { continue }
                members.append(Tree.Member(key: attribute.name, value: identity(attribute)))
            } else if attribute.isRequired ? !generator.chance(4) : generator.chance(2) {
                members += value(attribute)
            }
        }
        for relationship in entity.relationships where depth > 0 && roomForRecords > 0 && generator.chance(3) {
            members.append(Tree.Member(key: relationship.name, value: value(relationship, depth: depth)))
        }
        if isFaulty() { members.append(Tree.Member(key: "unknown", value: .literal("1"))) }
        if isFaulty(), let again = members.randomElement(using: &generator) { members.append(again) }
        return .object(members.shuffled(using: &generator))
    }

    private mutating func value(_ attribute: RandomModel.Attribute) -> [Tree.Member] {
        let fallback = Tree.Member(
            key: "\(attribute.name)Of", value: .object([.init(key: "it", value: scalar(attribute))]))
        if attribute.hasFallback, generator.chance(3) { return [fallback] }
        if attribute.hasFallback, generator.chance(4) {
            return [Tree.Member(key: fallback.key, value: .literal("null"))]
        }
        let first = Tree.Member(key: attribute.name, value: scalar(attribute))
        return attribute.hasFallback && generator.chance(2) ? [first, fallback] : [first]
    }

    private mutating func scalar(_ attribute: RandomModel.Attribute) -> Tree {
        if generator.chance(attribute.isRequired ? 30 : 8) { return .literal("null") }
        if isFaulty(), let wrong = attribute.type.wrong.randomElement(using: &generator) { return .literal(wrong) }
        return .literal(allowed(attribute).randomElement(using: &generator)!)
    }

    private mutating func identity(_ attribute: RandomModel.Attribute) -> Tree {
        if isFaulty() {
            let wrong = (attribute.type.wrong + ["null"]).randomElement(using: &generator)!
            return .literal(wrong)
        }
        return .literal(allowed(attribute).prefix(4).randomElement(using: &generator)!)
    }

    /// Values within the limits, but for a few where faults may come.
    private mutating func allowed(_ attribute: RandomModel.Attribute) -> [String] {
        let isHeld = !isFaulty()
        return attribute.type.samples.filter { !isHeld || attribute.limit?.allows($0.stored) ?? true }.map(\.json)
    }

    private mutating func value(_ relationship: RandomModel.Relationship, depth: Int) -> Tree {
        if generator.chance(8) { return .literal("null") }
        if !relationship.isToMany || generator.chance(6) { return element(relationship, depth: depth) }
        return .array(
            (0..<Int.random(in: 0...3, using: &generator)).map { _ in
                isFaulty() && generator.chance(2) ? .literal("null") : element(relationship, depth: depth)
            })
    }

    private mutating func element(_ relationship: RandomModel.Relationship, depth: Int) -> Tree {
        let destination = model.entity(relationship.destination)
        let mayBeBare = destination.identity.count == 1 || isFaulty()
        if mayBeBare, depth == 0 || roomForRecords <= 0 || generator.chance(2) {
            guard destination.identity.count == 1 else { return .literal("1") }
            let bare = identity(destination.attribute(destination.identity[0]))
            // An object or an array in a relationship is none of its bare keys.
            if case .literal(let text) = bare, text == "null" || text.hasPrefix("{") || text.hasPrefix("[") {
                return .literal(destination.attributes[0].type == .binary ? "\"*\"" : "\"abc\"")
            }
            return bare
        }
        return record(destination, depth: max(0, depth - 1))
    }

    private mutating func isFaulty() -> Bool {
        guard let faults else { return false }
        return generator.chance(faults)
    }
}
