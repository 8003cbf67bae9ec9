internal import BrokerModel
internal import BrokerStaging

/// The object that an operation names by its key.
extension JobMerge {
    /// It must exist; and when its record brings another identity, it gets that, and what refers to it follows.
    func settleSubject() throws(MergeFailure) {
        guard let subject = rows.subject else { return }
        let fault: Fault?
        do throws(StoreError) {
            fault = try settle(subject)
        } catch {
            throw .store(error)
        }
        if let fault { throw .subjectRefused(rows.located(fault, at: subject.offset)) }
    }

    private func settle(_ subject: StagedSubject) throws(StoreError) -> Fault? {
        let statements = merger.entities[subject.entity]
        let model = merger.entities[subject.kind].entity
        let key = try merger.forms.key(subject.key, of: subject.entity)
        guard try exists(key, statements), try isFitting(subject, key) else {
            return Fault(
                .objectNotFound,
                "There is no \(model.name) \(key.described). Process it without `object` first, or send another key.",
                entity: model.name)
        }
        let cells = rows.tables[subject.entity]!.row(subject.row)
        if model.hasRowKey {
            guard rows.tables[subject.entity]!.hasIdentity(subject.row),
                let holder = try merger.rowKey(of: cells, subject.kind), holder != subject.key[0].integer
            else { return nil }
            return taken(model)
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

    /// Of a hierarchy: it is what the operation says, or may become it.
    private func isFitting(_ subject: StagedSubject, _ key: StoredKey) throws(StoreError) -> Bool {
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
