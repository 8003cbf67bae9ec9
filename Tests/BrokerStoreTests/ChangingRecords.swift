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
        for entity in model.entities {
            let records = (0..<Int.random(in: 0...6, using: &generator)).map { position in
                var record = Record()
                for attribute in entity.attributes {
                    next += 1
                    let isIdentity = entity.identity.contains(attribute.number)
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
        for relationship in model.entity(records[index].entity)!.relationships {
            let destination = model.entity(relationship.destination)!
            guard destination.identity.count == 1 else { continue }
            let others = records.first { $0.entity == relationship.destination }!.records
            let keys = others.compactMap { $0.values[destination.identity[0]] ?? nil }
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

    /// A value that is null and may not be, in a changed model, is left out, so that the default stands for it.
    func json(in model: ChangingModel) -> String {
        let members = records.map { number, records in
            let entity = model.entity(number)!
            let objects = records.map { record in
                let members = record.values.sorted { $0.key < $1.key }.compactMap { number, value -> String? in
                    let isRequired = entity.attributes.contains { $0.number == number && $0.isRequired }
                    if value == nil, isRequired { return nil }
                    return "\"k\(number)\": \(value ?? "null")"
                }
                return "{\(members.joined(separator: ", "))}"
            }
            return "\"\(entity.name)\": [\(objects.joined(separator: ",\n"))]"
        }
        return "{\(members.joined(separator: ",\n"))}"
    }

    /// Records of some entity make new objects every time.
    func hasRowKeys(in model: ChangingModel) -> Bool {
        records.contains { model.entity($0.entity)!.identity.isEmpty && !$0.records.isEmpty }
    }
}
