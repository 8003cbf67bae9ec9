import BrokerStaging
import TestSupport

/// A job over a small space of identities.
struct RandomJob {
    struct Condition {
        let maximum: Int
        var text: String { "id <= \(maximum)" }

        func isMet(_ values: [String: String]) -> Bool {
            values["id"].flatMap { Int($0) }.map { $0 <= maximum } ?? false
        }
    }

    enum Action {
        case process(Tree)
        /// The object's key as JSON.
        case change(key: String, Tree)
        case relate(key: String, relationship: String, Tree)
        case sync(Tree, Condition?)
        case delete(keys: [String])
        case deleteMatching(Condition)
    }

    struct Operation {
        var entity: String
        var action: Action

        var tree: Tree {
            var members = [("entity", Tree.literal("\"\(entity)\""))]
            switch action {
            case .process(let json): members.append(("json", json))
            case .change(let key, let json): members += [("object", .literal(key)), ("json", json)]
            case .relate(let key, let relationship, let json):
                members += [
                    ("op", .literal("\"relate\"")), ("object", .literal(key)),
                    ("relationship", .literal("\"\(relationship)\"")), ("json", json),
                ]
            case .sync(let json, let condition):
                members += [("op", .literal("\"sync\"")), ("json", json)]
                if let condition { members.append(("where", .literal("\"\(condition.text)\""))) }
            case .delete(let keys):
                members += [("op", .literal("\"delete\"")), ("objects", .array(keys.map { .literal($0) }))]
            case .deleteMatching(let condition):
                members += [("op", .literal("\"delete\"")), ("where", .literal("\"\(condition.text)\""))]
            }
            return .object(members.map { Tree.Member(key: $0, value: $1) })
        }
    }

    var operations: [Operation]
    var skips: Bool

    var policy: InvalidRecordPolicy { skips ? .skip : .fail }
    var tree: Tree { .array(operations.map(\.tree)) }
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
        return RandomJob(operations: operations, skips: !generator.chance(3))
    }

    private mutating func operation() -> RandomJob.Operation {
        let name = model.entities.filter { !$0.isOwned }.randomElement(using: &generator)!.name
        return RandomJob.Operation(entity: name, action: action(model.entity(name)))
    }

    private mutating func action(_ entity: RandomModel.Entity) -> RandomJob.Action {
        let hasKeys = entity.isNamedByRowKey || entity.identity.count == 1
        let hasNumbers = entity.identity == ["id"] && [.integer16, .integer64].contains(entity.attribute("id").type)
        let condition = hasNumbers ? RandomJob.Condition(maximum: Int.random(in: 1...3, using: &generator)) : nil
        switch Int.random(in: 0..<12, using: &generator) {
        case 0 where hasKeys: return .change(key: key(entity), record(entity, depth: 3))
        case 1 where hasKeys:
            guard let relationship = entity.relationships.filter({ !$0.isOfOwner }).randomElement(using: &generator)
            else { break }
            return .relate(key: key(entity), relationship: relationship.name, value(relationship, depth: 2))
        case 2: return .sync(records(entity), condition)
        case 3 where hasKeys:
            return .delete(keys: (0..<Int.random(in: 1...2, using: &generator)).map { _ in key(entity) })
        case 4: if let condition, generator.chance(2) { return .deleteMatching(condition) }
        default: break
        }
        return .process(generator.chance(5) ? record(entity, depth: 3) : records(entity))
    }

    private mutating func key(_ entity: RandomModel.Entity) -> String {
        if entity.isNamedByRowKey { return "\(Int.random(in: 1...6, using: &generator))" }
        let attribute = entity.attribute(entity.identity[0])
        let allowed = attribute.type.samples.prefix(4).filter { attribute.limit?.allows($0.stored) ?? true }
        return allowed.randomElement(using: &generator)!.json
    }

    private mutating func records(_ entity: RandomModel.Entity) -> Tree {
        .array(
            (0..<Int.random(in: 0...4, using: &generator)).map { _ in
                isFaulty() && generator.chance(3) ? .literal("1") : record(entity, depth: 3)
            })
    }

    private mutating func record(_ entity: RandomModel.Entity, depth: Int) -> Tree {
        roomForRecords -= 1
        var members: [Tree.Member] = []
        for attribute in entity.attributes {
            guard case .key = attribute.source else { continue }
            if attribute.name == "at" {
                guard generator.chance(2) else { continue }
                members.append(.init(key: "at", value: .literal("\(Int.random(in: 1...6, using: &generator))")))
            } else if attribute.name == "gone" {
                if generator.chance(6) { members.append(.init(key: "gone", value: .literal("true"))) }
            } else if entity.isOwned, attribute.name == "no" {
                members.append(.init(key: "no", value: .literal("\(Int.random(in: 1...3, using: &generator))")))
            } else if attribute.name == "mark" {
                newestMark += 1
                members.append(Tree.Member(key: "mark", value: .literal("\(newestMark)")))
            } else if entity.identity.contains(attribute.name) {
                guard !(entity.isIdentityOptional && generator.chance(3)), !isFaulty() else { continue }
                members.append(Tree.Member(key: attribute.name, value: identity(attribute)))
            } else if attribute.isRequired ? !generator.chance(4) : generator.chance(2) {
                members += value(attribute)
            }
        }
        for relationship in entity.relationships where depth > 0 && roomForRecords > 0 {
            guard !relationship.isOfOwner, generator.chance(3) else { continue }

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
