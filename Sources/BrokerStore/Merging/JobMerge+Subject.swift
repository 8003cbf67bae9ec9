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
        let model = statements.entity
        let key = StoredKey(subject.key)
        guard try exists(key, statements) else {
            return Fault(
                .objectNotFound,
                "There is no \(model.name) \(key.described). Process it without `object` first, or send another key.",
                entity: model.name)
        }
        let cells = rows.tables[subject.entity]!.row(subject.row)
        if model.hasRowKey {
            guard rows.tables[subject.entity]!.hasIdentity(subject.row),
                let holder = try merger.rowKey(of: cells, subject.entity), holder != subject.key[0].integer
            else { return nil }
            return taken(model)
        }
        guard subject.isRenamed else { return nil }
        let new = StoredKey(model.identity.map { cells[$0] })
        guard new != key else { return nil }
        if try exists(new, statements) { return taken(model) }
        let rename = try statements.rename()
        new.bind(to: rename, from: 1)
        key.bind(to: rename, from: 1 + model.identity.count)
        try rename.run()
        return nil
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
