internal import BrokerModel
internal import BrokerStaging

/// Unique values, looked through before anything is written: the careful way, taken only after a conflict.
extension JobMerge {
    /// Leaves out whose claims cannot be met; the others give up the values that they had, so that these may pass from
    /// one object to another in any order.
    mutating func settleUniqueValues() throws(StoreError) {
        let claimants = try Claimants(self)
        var claims = try UniqueClaims(claimants.claims) { list, value throws(StoreError) in
            try claimants.holder(list, value, &self)
        }
        claims.settle()
        if claims.refused.isEmpty { try vacate(claimants) }
        for (object, list) in claims.refused.sorted(by: { $0.key < $1.key }) {
            let object = claimants.objects[object]
            let model = try self.model(ofRow: object.row, rows.tables[object.entity]!)
            reject(object.entity, object.row) { Self.taken(claimants.lists[list].attributes, model, isTold: $0) }
        }
    }

    /// Puts values in place that nobody else has, where others are on their way.
    private func vacate(_ claimants: Claimants) throws(StoreError) {
        for (object, claims) in zip(claimants.objects, claimants.claims) {
            let statements = merger.entities[object.entity]
            for claim in claims where claim.isGivingUp {
                let columns = claimants.lists[claim.list].attributes.filter { column in
                    rows.tables[object.entity]!.row(object.row)[column].kind != .absent
                        && (statements.entity.hasRowKey || !statements.entity.identity.contains(column))
                }
                guard !columns.isEmpty else { continue }
                let vacate = try statements.vacate(columns)
                var index = bindKey(ofRow: object.row, object.entity, to: vacate, from: 1)
                for _ in columns {
                    // No value of the contract's types: those that are blobs do not begin like this by chance.
                    vacate.bind(blob: Array("_broker_vacant \(object.entity) \(object.row)".utf8), at: index)
                    index += 1
                }
                try vacate.run()
            }
        }
    }

    private static func taken(_ list: [Int], _ model: Entity, isTold: Bool) -> Fault {
        let names = list.map { model.attributes[$0].name }
        let what = names.count == 1 ? "value of \(names[0])" : "values of \(names.joined(separator: ", ")) together"
        return Fault(
            .constraintViolation,
            isTold
                ? "Another \(model.name) has the \(what) that this one would get, and they are unique in the model. "
                    + "Change one of the two, or take the unique constraint out of the model." : "",
            entity: model.name, attribute: names.count == 1 ? names[0] : nil)
    }
}

/// The objects of a job that have to do with unique values, and what they want.
private struct Claimants {
    struct UniqueList {
        let entity: Int
        let attributes: [Int]
    }

    struct Object: Hashable {
        let entity: Int
        let row: Int
    }

    private(set) var lists: [UniqueList] = []
    private(set) var objects: [Object] = []
    /// By object.
    private(set) var claims: [[UniqueClaims.Claim]] = []
    private var numbers: [Object: Int] = [:]
    /// By list and object, whether it gives up the value that it has, or may.
    private var leaving: Set<[Int]> = []

    init(_ merge: borrowing JobMerge) throws(StoreError) {
        for (entity, table) in merge.rows.tables.enumerated() {
            guard table != nil else { continue }
            for list in merge.merger.entities[entity].entity.unique {
                lists.append(UniqueList(entity: entity, attributes: list))
            }
        }
        var wants: [[Want]] = []
        for (entity, table) in merge.rows.tables.enumerated() {
            let numbers = lists.indices.filter { lists[$0].entity == entity }
            if let table, !numbers.isEmpty { wants += try self.wants(numbers, table, merge) }
        }
        let nestings = Dictionary(
            merge.rows.nestings.map { ($0.offset, $0) }, uniquingKeysWith: { first, _ in first })
        for (object, wants) in wants.enumerated() {
            claims.append(
                wants.map { want in
                    UniqueClaims.Claim(
                        list: want.list, claimedAt: want.saidAt.last!, old: want.old, new: want.new,
                        within: want.saidAt.flatMap { around($0, nestings) })
                })
            for claim in claims[object] where claim.isGivingUp || claim.isKeeping {
                leaving.insert([claim.list, object])
            }
        }
    }

    private struct Want {
        let list: Int
        let saidAt: [UInt32]
        let old: StoredKey?
        let new: StoredKey
    }

    /// By object, of those of one entity that are new or bring an attribute that is to be unique.
    private mutating func wants(
        _ listed: [Int], _ table: FrozenTable, _ merge: borrowing JobMerge
    ) throws(StoreError) -> [[Want]] {
        let entity = table.entityIndex
        let forms = merge.merger.forms
        let attributes = Set(listed.flatMap { lists[$0].attributes }).sorted()
        let values = try merge.merger.entities[entity].values(of: attributes)
        var wants: [[Want]] = []
        for row in 0..<table.rowCount {
            let staged = table.row(row)
            merge.bindKey(ofRow: row, entity, to: values, from: 1)
            defer { values.reset() }
            let exists = try values.step()
            // What becomes more special takes defaults of what is new to it.
            let taking = try merge.newAttributes(ofRow: row, table)
            if exists, attributes.allSatisfy({ staged[$0].kind == .absent && !taking.contains($0) }) { continue }
            let old = Dictionary(
                uniqueKeysWithValues: attributes.enumerated().map { ($1, exists ? values.cell($0) : .null) })
            numbers[Object(entity: entity, row: row)] = objects.count
            objects.append(Object(entity: entity, row: row))
            wants.append(
                try listed.map { number throws(StoreError) -> Want? in
                    let list = lists[number].attributes
                    // Of what the job does not speak the object keeps, whatever becomes of its records.
                    guard !exists || list.contains(where: { staged[$0].kind != .absent || taking.contains($0) }) else {
                        return nil
                    }
                    let new = list.map { column -> Cell in
                        if staged[column].kind != .absent { return staged[column] }
                        return exists && !taking.contains(column)
                            ? old[column]!
                            : merge.merger.plan.defaultCell(entity: table.kind(of: row), attribute: column) ?? .null
                    }
                    return Want(
                        list: number, saidAt: table.claims(of: list, row: row),
                        old: try exists ? forms.key(list.map { old[$0]! }, of: entity, list) : nil,
                        new: try forms.key(new, of: entity, list))
                }.compactMap { $0 })
        }
        return wants
    }

    /// The objects whose records stand around what begins there.
    private func around(_ offset: UInt32, _ nestings: [UInt32: StagedNesting]) -> [Int] {
        var around: [Int] = []
        var next = nestings[offset]
        while let nesting = next {
            // One that wants nothing is not left out for its values.
            if let object = numbers[Object(entity: nesting.entity, row: nesting.row)] { around.append(object) }
            next = nestings[nesting.aroundOffset]
        }
        return around
    }

    /// Who has that value of that list.
    func holder(_ list: Int, _ value: StoredKey, _ merge: inout JobMerge) throws(StoreError) -> UniqueClaims.Holder {
        let entity = lists[list].entity
        let holder = try merge.merger.entities[entity].holder(of: lists[list].attributes)
        value.bind(to: holder, from: 1)
        defer { holder.reset() }
        guard try holder.step() else { return .nobody }
        guard let row = try merge.stagedRow(entity, holder, from: 0),
            let object = numbers[Object(entity: entity, row: row)], leaving.contains([list, object])
        else { return .stranger }
        return .leaving(object: object)
    }
}
