import TestSupport

/// Records for every entity of a ``ChangingModel``, written with the keys that no change touches.
struct ChangingRecords {
    private struct Record {
        /// By number of the part, JSON; nil is null.
        var values: [Int: String?] = [:]
    }

    private var records: [(entity: Int, records: [Record])] = []

    init(of model: ChangingModel, using generator: inout SeededGenerator) {
        var next = 10
        var newest: [Int: Int] = [:]
        for entity in model.entities {
            let identity = model.identity(of: entity.number)
            let count = entity.isAbstract ? 0 : Int.random(in: 0...6, using: &generator)
            let records = (0..<count).map { _ in
                var record = Record()
                // All of a hierarchy share one space of identities.
                let position = newest[model.topmost(of: entity.number), default: 0]
                newest[model.topmost(of: entity.number)] = position + 1
                for attribute in model.attributes(of: entity.number) {
                    next += 1
                    let isIdentity = identity.contains(attribute.number)
                    guard isIdentity || attribute.isRequired || !generator.chance(4) else {
                        record.values[attribute.number] = .some(nil)
                        continue
                    }
                    let value = isIdentity ? position + 1 : next
                    record.values[attribute.number] = ChangingModel.value(attribute.type, value)
                }
                return record
            }
            self.records.append((entity.number, records))
        }
        for index in records.indices { link(index, model, using: &generator) }
    }

    /// Bare keys of objects that there are, for entities with one attribute as identity.
    private mutating func link(_ index: Int, _ model: ChangingModel, using generator: inout SeededGenerator) {
        for relationship in model.relationships(of: records[index].entity) {
            let identity = model.identity(of: relationship.destination)
            guard identity.count == 1 else { continue }
            let others = records.filter { model.isKind($0.entity, of: relationship.destination) }.flatMap(\.records)
            let keys = others.compactMap { $0.values[identity[0]] ?? nil }
            guard !keys.isEmpty else { continue }
            for position in records[index].records.indices where !generator.chance(3) {
                let some = (0..<Int.random(in: 1...3, using: &generator)).map { _ in
                    keys.randomElement(using: &generator)!
                }
                records[index].records[position].values[relationship.number] =
                    relationship.isToMany ? "[\(some.joined(separator: ", "))]" : some[0]
            }
        }
    }

    /// A null value that a changed model does not allow is omitted, so that the default replaces it.
    ///
    /// First come the objects and then their links: a key of an abstract entity that is below another needs an object that
    /// is one of it already.
    func json(in model: ChangingModel) -> String {
        let identified = records.filter { !model.identity(of: $0.entity).isEmpty }
        return
            "{\((members(identified, in: model, withLinks: false) + members(records, in: model, withLinks: true)).joined(separator: ",\n"))}"
    }

    private func members(
        _ records: [(entity: Int, records: [Record])], in model: ChangingModel, withLinks: Bool
    ) -> [String] {
        records.map { number, records in
            let entity = model.entity(number)!
            let attributes = model.attributes(of: number)
            let objects = records.map { record in
                let members = record.values.sorted { $0.key < $1.key }.compactMap { number, value -> String? in
                    guard withLinks || attributes.contains(where: { $0.number == number }) else { return nil }
                    let isRequired = attributes.contains { $0.number == number && $0.isRequired }
                    if value == nil, isRequired { return nil }
                    return "\"k\(number)\": \(value ?? "null")"
                }
                return "{\(members.joined(separator: ", "))}"
            }
            return "\"\(entity.name)\": [\(objects.joined(separator: ",\n"))]"
        }
    }

    /// Records of some entity make new objects every time.
    func hasRowKeys(in model: ChangingModel) -> Bool {
        records.contains { model.identity(of: $0.entity).isEmpty && !$0.records.isEmpty }
    }
}
