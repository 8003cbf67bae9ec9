internal import BrokerModel
internal import BrokerStaging

/// Examines unique values before anything is written: the slow path, taken only after a conflict.
extension JobMerge {
    /// Rejects the objects whose claims cannot be met. The others give up the values that they had, so that values can
    /// pass from one object to another in any order.
    ///
    /// - Returns: values of other objects that must be parked before the rows can be merged.
    mutating func settleUniqueValues() throws(MergeFailure) -> [OccupiedValue] {
        let contenders = try storing { () throws(StoreError) in try Contenders(&self) }
        guard !contenders.isRefused else { throw .fault(MergeMemory.refusal) }
        return try storing { () throws(StoreError) in
            var occupied: Set<OccupiedValue.Value> = []
            var claims = try UniqueConflicts(contenders.claims) { list, key throws(StoreError) in
                guard let retained = try contenders.retained(list, key, &self) else { return false }
                guard retained.isOutside, let parked, parked.canPark(retained.value) else { return true }
                occupied.insert(retained.value)
                return false
            }
            claims.settle()
            for (object, list) in claims.rejected.sorted(by: { $0.key < $1.key }) {
                let (object, list) = (contenders.objects[object], contenders.lists[list])
                let model = try self.model(ofRow: object.row, rows.tables[object.entity]!)
                reject(object.entity, object.row) { Self.taken(list.attributes, model, isListed: $0) }
            }
            guard claims.rejected.isEmpty else { return [] }
            if occupied.isEmpty { try freeValues(contenders) }
            return contenders.claimed(occupied, self)
        }
    }

    /// Replaces the values that objects give up by values that no other row has.
    private func freeValues(_ contenders: Contenders) throws(StoreError) {
        for (object, claims) in zip(contenders.objects, contenders.claims) {
            let statements = merger.entities[object.entity]
            for claim in claims where claim.isGivingUp {
                let columns = contenders.lists[claim.list].attributes.filter { column in
                    rows.tables[object.entity]!.row(object.row)[column].kind != .absent
                        && (statements.hasRowKey || !statements.entity.identity.contains(column))
                }
                guard !columns.isEmpty else { continue }
                let statement = try statements.freeValues(columns)
                var index = bindKey(ofRow: object.row, object.entity, to: statement, from: 1)
                for _ in columns {
                    // No value of the model's types can be equal: blobs do not start with this text by chance.
                    statement.bind(blob: Array("_broker_vacant \(object.entity) \(object.row)".utf8), at: index)
                    index += 1
                }
                try statement.run()
            }
        }
    }

    static func taken(_ list: [Int], _ model: Entity, isListed: Bool) -> Fault {
        let names = list.map { model.attributes[$0].name }
        let what = names.count == 1 ? "value of \(names[0])" : "values of \(names.joined(separator: ", ")) together"
        return Fault(
            .constraintViolation,
            isListed
                ? "Another \(model.name) has the \(what) that this one would get, and they are unique in the model. "
                    + "Change one of the two, or take the unique constraint out of the model." : "",
            entity: model.name, attribute: names.count == 1 ? names[0] : nil)
    }
}
