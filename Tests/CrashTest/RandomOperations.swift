import TestSupport

/// Makes jobs of several operations over few objects, met often.
struct RandomOperations {
    private var generator: SeededGenerator
    /// One of so many values of the job is wrong; 0: none.
    private var wrongness = 0

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    /// The first job fills the store; those after it do what comes.
    mutating func jobs(_ count: Int) -> [RandomOperationJob] {
        var jobs = [
            RandomOperationJob(
                operations: GraphModel.entities.map { entity in
                    let records = (0..<4).map { _ in record(entity, depth: 1) }
                    return RandomOperation(entity: entity, action: .process(object: nil), records: records)
                }, hasKeys: true, skips: true)
        ]
        while jobs.count < count {
            let skips = chance(2)
            wrongness = skips ? number(6...20) : chance(6) ? 30 : 0
            var operations: [RandomOperation] = []
            for _ in 0..<number(1...5) { operations += chance(8) ? chain() : [operation()] }
            jobs.append(RandomOperationJob(operations: operations, hasKeys: !chance(3), skips: skips))
        }
        return jobs
    }

    /// Operations that follow an object from one identity to another, or that give one's identity to another.
    private mutating func chain() -> [RandomOperation] {
        let entity = pick(GraphModel.entities.filter { !$0.identity.isEmpty })
        var operations: [RandomOperation] = []
        var (from, to) = (key(entity), key(entity))
        if chance(2) { operations.append(RandomOperation(entity: entity, action: .delete([to]))) }
        for _ in 0..<number(1...3) {
            switch number(0...4) {
            case 0...2:
                var record = record(entity, depth: 0)
                record.identity = to
                operations.append(RandomOperation(entity: entity, action: .process(object: from), records: [record]))
                (from, to) = (to, chance(2) ? from : key(entity))
            case 3:
                var record = record(entity, depth: 0)
                record.identity = from
                operations.append(RandomOperation(entity: entity, action: .process(object: nil), records: [record]))
            default: operations.append(operation())
            }
        }
        return operations
    }

    private mutating func operation() -> RandomOperation {
        // Most of the links are a Person's.
        let entity = chance(4) ? GraphModel.entity("Person") : pick(GraphModel.entities)
        switch number(0...16) {
        case 0...5:
            return RandomOperation(entity: entity, action: .process(object: nil), records: records(entity, 1...3))
        case 6...8:
            var record = record(entity, depth: 1)
            if chance(3) { record.identity = nil }
            return RandomOperation(entity: entity, action: .process(object: key(entity)), records: [record])
        case 9...11:
            let relationship = pick(entity.relationships)
            let record = GraphRecord(entity: entity, links: [(relationship, value(relationship, depth: 1))])
            return RandomOperation(entity: entity, action: .relate(object: key(entity)), records: [record])
        case 12, 13:
            let keys = (0..<number(0...2)).map { _ in key(entity) }
            return RandomOperation(entity: entity, action: .delete(keys))
        case 14: return RandomOperation(entity: entity, action: .deleteMatching(condition(entity)))
        default:
            let part = chance(2) ? (id: pick(["x", "y"]), isLast: chance(3)) : nil
            let entity = part?.id == "x" ? GraphModel.entity("Person") : entity
            let condition = chance(4) ? nil : part?.id == "x" && !chance(5) ? always : condition(entity)
            return RandomOperation(
                entity: entity, action: .sync(condition, actions(), part: part),
                records: records(entity, 0...3))
        }
    }

    private mutating func actions() -> Set<String> {
        // In an order of its own, so that the same seed gives the same operations in every process.
        let all = ["insert", "update", "delete"]
        return Set(chance(2) ? all : all.filter { _ in !chance(3) })
    }

    private let always = GraphCondition(path: ["age"], comparison: "!=", value: "2", isText: false)

    private mutating func condition(_ entity: GraphModel.Entity) -> GraphCondition? {
        if chance(6) { return nil }
        let toOnes = entity.relationships.filter { !$0.isToMany }
        var path: [String] = []
        var last = entity
        if chance(2), let relationship = toOnes.randomElement(using: &generator) {
            path = [relationship.name]
            last = GraphModel.entity(relationship.destination)
        }
        let attribute = pick(last.attributes)
        let isText = last.texts.contains(attribute)
        let comparison = pick(isText ? ["==", "!="] : ["==", "!=", "<"])
        let value = chance(6) && comparison != "<" ? nil : isText ? pick(["a", "b", "c"]) : "\(number(1...3))"
        return GraphCondition(path: path + [attribute], comparison: comparison, value: value, isText: isText)
    }

    // MARK: - Records

    private mutating func records(_ entity: GraphModel.Entity, _ count: ClosedRange<Int>) -> [GraphRecord] {
        (0..<number(count)).map { _ in record(entity, depth: 1) }
    }

    private mutating func record(_ entity: GraphModel.Entity, depth: Int) -> GraphRecord {
        var record = GraphRecord(entity: entity)
        if !entity.identity.isEmpty, !isWrong { record.identity = key(entity) }
        for attribute in entity.attributes where !entity.identity.contains(attribute) {
            if attribute == entity.required {
                if !chance(5) {
                    record.values.append((attribute, value(entity, attribute, orNull: isWrong)))
                }
            } else if chance(3) {
                record.values.append((attribute, value(entity, attribute, orNull: chance(5))))
            }
        }
        guard depth >= 0 else { return record }
        for relationship in entity.relationships where chance(entity.name == "Person" ? 4 : 3) {
            record.links.append((relationship, value(relationship, depth: depth)))
        }
        record.links.shuffle(using: &generator)
        return record
    }

    private mutating func value(_ entity: GraphModel.Entity, _ attribute: String, orNull isNull: Bool) -> String? {
        if isNull { return nil }
        if isWrong { return GraphModel.Entity.wrong }
        return entity.texts.contains(attribute) ? pick(["a", "b", "c"]) : "\(number(1...3))"
    }

    private mutating func value(_ relationship: GraphModel.Relationship, depth: Int) -> GraphValue {
        if chance(5) { return .null }
        let destination = GraphModel.entity(relationship.destination)
        guard relationship.isToMany else { return element(destination, depth: depth) }
        return .list((0..<number(0...2)).map { _ in element(destination, depth: depth) })
    }

    private mutating func element(_ entity: GraphModel.Entity, depth: Int) -> GraphValue {
        if entity.identity.count == 1, depth == 0 || !chance(3) { return .key(entity, key(entity)) }
        return .record(record(entity, depth: depth - 1))
    }

    private mutating func key(_ entity: GraphModel.Entity) -> [String] {
        guard !entity.identity.isEmpty else { return ["\(number(1...8))"] }
        if entity.identity == Array(entity.integers.prefix(1)), isWrong { return [GraphModel.Entity.wrong] }
        return entity.identity.map { entity.texts.contains($0) ? pick(["a", "b", "c"]) : "\(number(1...4))" }
    }

    // MARK: - Chance

    private mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }

    private var isWrong: Bool {
        mutating get { wrongness > 0 && chance(wrongness) }
    }

    private mutating func chance(_ one: Int) -> Bool { number(1...one) == 1 }

    private mutating func pick<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &generator)! }
}
