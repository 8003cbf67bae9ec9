internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging

/// The object that an operation names by its key.
extension JobMerge {
    /// Checks that the target exists. If its record has another identity, the object gets that one, and all references
    /// to it follow.
    mutating func settleTarget() throws(MergeFailure) {
        guard let target = rows.target else { return }
        let (fault, otherIdentity) = try storing {
            () throws(StoreError) -> (Fault?, (identity: StoredKey, kind: Int)?) in
            let fault = try settle(target)
            return (fault, try fault == nil ? self.otherIdentity(of: target) : nil)
        }
        if let fault { throw .targetRejected(rows.located(fault, at: target.offset)) }
        if let otherIdentity { throw .needsTargetIdentity(identity: otherIdentity.identity, kind: otherIdentity.kind) }
    }

    /// The stored identity of an object that is named by a row key, when staging needs it:
    /// 1. Other rows name the object by that identity, so that it has two rows.
    /// 2. Its record has a part of an identity, which the stored parts complete.
    private func otherIdentity(of target: StagedTarget) throws(StoreError) -> (identity: StoredKey, kind: Int)? {
        let (entity, key) = (target.entity, StoredKey(target.key))
        let isNamedByRowKey = merger.entities[target.concreteEntity].entity.isNamedByRowKey
        guard isNamedByRowKey, !rows.tables[entity]!.hasIdentity(target.row) else { return nil }
        var kind = target.concreteEntity
        if merger.plan.model.isInHierarchy(entity) {
            kind = try merger.entities[entity].find(key)?.concreteEntity ?? kind
        }
        let identity = merger.entities[kind].entity.identity
        guard !identity.isEmpty else { return nil }
        let values = try merger.entities[kind].values(of: identity)
        key.bind(to: values, from: 1)
        defer { values.reset() }
        guard try values.step() else { return nil }
        let cells = identity.indices.map { values.cell($0) }
        let record = rows.tables[entity]!.row(target.row)
        if identity.contains(where: { record[$0].kind != .absent }) {
            let isWhole = zip(identity, cells).allSatisfy { record[$0].kind != .absent || $1.kind != .null }
            return isWhole ? (StoredKey(cells), kind) : nil
        }
        guard cells.allSatisfy({ $0.kind != .null }) else { return nil }
        let deleted = rows.tombstoneDeletions?.all.filter { $0.entityIndex == entity } ?? []
        let tables = [rows.tables[entity]].compactMap(\.self) + deleted
        let isNamed = tables.contains { $0.find(identity: cells, concreteEntity: kind) != nil }
        return isNamed ? (StoredKey(cells), kind) : nil
    }

    private mutating func settle(_ target: StagedTarget) throws(StoreError) -> Fault? {
        let statements = merger.entities[target.entity]
        let model = merger.entities[target.concreteEntity].entity
        let found = try merger.storedKey(of: target)
        guard let key = found, try statements.find(key) != nil, try isFitting(target, key) else {
            return Fault(
                .objectNotFound,
                "There is no \(model.name) \(StoredKey(target.key).described). Process it without `object` first, or send another key.",
                entity: model.name)
        }
        let cells = rows.tables[target.entity]!.row(target.row)
        if model.hasRowKey {
            key.withCells { targetRowKey = $0[0].integer }
            guard rows.tables[target.entity]!.hasIdentity(target.row) else { return nil }
            if let holder = try merger.rowKey(of: cells, target.concreteEntity) {
                return holder == targetRowKey ? nil : Self.taken(model)
            }
            // From here on, the old identity names another object.
            let identify = try merger.entities[target.concreteEntity].identify()
            key.bind(to: identify, from: 1)
            merger.entities[target.concreteEntity].bindIdentity(cells, to: identify, from: 2)
            merger.hasRenamed = true
            try identify.run()
            return nil
        }
        guard target.isRenamed else { return nil }
        let new = try merger.forms.key(model.identity.map { cells[$0] }, of: target.entity)
        guard new != key else { return nil }
        if try statements.find(new) != nil { return Self.taken(model) }
        let rename = try statements.rename()
        new.bind(to: rename, from: 1)
        key.bind(to: rename, from: 1 + model.identity.count)
        merger.hasRenamed = true
        try rename.run()
        for update in try merger.ownedKeys.updates(target.entity) {
            new.bind(to: update, from: 1)
            try update.run()
        }
        return nil
    }

    /// Whether an object of a hierarchy is of the operation's entity, or may become one.
    private func isFitting(_ target: StagedTarget, _ key: StoredKey) throws(StoreError) -> Bool {
        let model = merger.plan.model
        guard model.entities[target.concreteEntity].parent != nil else { return true }
        guard let stored = try merger.entities[target.entity].find(key)?.concreteEntity else { return false }
        if model.isKind(stored, of: target.concreteEntity) { return true }
        return target.mayBecome && model.isKind(target.concreteEntity, of: stored)
            && !model.entities[target.concreteEntity].isAbstract
    }

    static func taken(_ model: Entity) -> Fault {
        Fault(
            .constraintViolation,
            "Another \(model.name) has the identity that the record brings, so the object cannot get it. Change that "
                + "identity, or process the record without `object` to update the other one.", entity: model.name)
    }
}
