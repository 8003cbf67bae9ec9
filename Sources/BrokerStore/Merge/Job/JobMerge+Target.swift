internal import BrokerModel
internal import BrokerStaging

/// The object that an operation names by its key.
extension JobMerge {
    /// Checks that the target exists. If its record has another identity, the object gets that one, and all references
    /// to it follow.
    mutating func settleSubject() throws(MergeFailure) {
        guard let subject = rows.subject else { return }
        let fault: Fault?
        let otherIdentity: (identity: StoredKey, kind: Int)?
        do throws(StoreError) {
            fault = try settle(subject)
            otherIdentity = try fault == nil ? self.otherIdentity(of: subject) : nil
        } catch {
            throw .store(error)
        }
        if let fault { throw .subjectRefused(rows.located(fault, at: subject.offset)) }
        if let otherIdentity { throw .namedTwice(identity: otherIdentity.identity, kind: otherIdentity.kind) }
    }

    /// The identity of an object that is named by a row key, when other rows name it by that identity, so that one
    /// object has two rows.
    private func otherIdentity(of subject: StagedTarget) throws(StoreError) -> (identity: StoredKey, kind: Int)? {
        let (entity, key) = (subject.entity, StoredKey(subject.key))
        let isNamedByRowKey = merger.entities[subject.kind].entity.isNamedByRowKey
        guard isNamedByRowKey, !rows.tables[entity]!.hasIdentity(subject.row) else { return nil }
        var kind = subject.kind
        if merger.plan.model.isInHierarchy(entity) {
            let find = try merger.entities[entity].kind()
            key.bind(to: find, from: 1)
            defer { find.reset() }
            if try find.step() { kind = merger.plan.model.index(ofEntity: find.text(0)) ?? kind }
        }
        let identity = merger.entities[kind].entity.identity
        guard !identity.isEmpty else { return nil }
        let values = try merger.entities[kind].values(of: identity)
        key.bind(to: values, from: 1)
        defer { values.reset() }
        guard try values.step() else { return nil }
        var cells = Array(repeating: Cell.absent, count: merger.plan.layout.entities[entity].columnCount)
        for (position, column) in identity.enumerated() { cells[column] = values.cell(position) }
        guard identity.allSatisfy({ cells[$0].kind != .null }) else { return nil }
        let buried = rows.buried?.all.filter { $0.entityIndex == entity } ?? []
        let tables = [rows.tables[entity]].compactMap(\.self) + buried
        let isNamed = cells.withUnsafeBufferPointer { cells in
            tables.contains { $0.find(identity: cells.baseAddress!, kind: kind) != nil }
        }
        return isNamed ? (StoredKey(identity.map { cells[$0] }), kind) : nil
    }

    private mutating func settle(_ subject: StagedTarget) throws(StoreError) -> Fault? {
        let statements = merger.entities[subject.entity]
        let model = merger.entities[subject.kind].entity
        let found = try merger.storedKey(of: subject)
        guard let key = found, try exists(key, statements), try isFitting(subject, key) else {
            return Fault(
                .objectNotFound,
                "There is no \(model.name) \(StoredKey(subject.key).described). Process it without `object` first, or send another key.",
                entity: model.name)
        }
        let cells = rows.tables[subject.entity]!.row(subject.row)
        if model.hasRowKey {
            key.withCells { subjectRowKey = $0[0].integer }
            guard rows.tables[subject.entity]!.hasIdentity(subject.row) else { return nil }
            if let holder = try merger.rowKey(of: cells, subject.kind) {
                return holder == subjectRowKey ? nil : taken(model)
            }
            // From here on, the old identity names another object.
            let identify = try merger.entities[subject.kind].identify()
            key.bind(to: identify, from: 1)
            merger.entities[subject.kind].bindIdentity(cells, to: identify, from: 2)
            try identify.run()
            return nil
        }
        guard subject.isRenamed else { return nil }
        let new = try merger.forms.key(model.identity.map { cells[$0] }, of: subject.entity)
        guard new != key else { return nil }
        if try exists(new, statements) { return taken(model) }
        let rename = try statements.rename()
        new.bind(to: rename, from: 1)
        key.bind(to: rename, from: 1 + model.identity.count)
        try rename.run()
        return nil
    }

    /// Whether an object of a hierarchy is of the operation's entity, or may become one.
    private func isFitting(_ subject: StagedTarget, _ key: StoredKey) throws(StoreError) -> Bool {
        let model = merger.plan.model
        guard model.entities[subject.kind].parent != nil else { return true }
        let find = try merger.entities[subject.entity].kind()
        key.bind(to: find, from: 1)
        defer { find.reset() }
        guard try find.step(), let stored = model.index(ofEntity: find.text(0)) else { return false }
        if model.isKind(stored, of: subject.kind) { return true }
        return subject.mayBecome && model.isKind(subject.kind, of: stored) && !model.entities[subject.kind].isAbstract
    }

    private func exists(_ key: StoredKey, _ statements: EntityStatements) throws(StoreError) -> Bool {
        let exists = try statements.exists()
        key.bind(to: exists, from: 1)
        defer { exists.reset() }
        return try exists.step()
    }

    private func taken(_ model: Entity) -> Fault {
        Fault(
            .constraintViolation,
            "Another \(model.name) has the identity that the record brings, so the object cannot get it. Change that "
                + "identity, or process the record without `object` to update the other one.", entity: model.name)
    }
}
