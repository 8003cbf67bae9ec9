internal import BrokerModel

/// The concrete entity of an object in a hierarchy.
///
/// A record of an entity, or a bare key that makes its object, finds the object of its identity in the whole hierarchy.
/// An object of a subentity stays one. An object of an ancestor becomes an object of the entity. Any other object is a
/// fault.
///
/// A bare key that makes nothing decides no object's entity. The merge checks that the object is of the key's entity after
/// the job's records, and otherwise the job is staged again without the key.
/// ```
/// first staging    compares the records of the job; the merge then asks the store
/// staged again     has the stored facts (``KnownEntities``), and the order over all parts
/// ```
extension StagingContext {
    /// Returns the object's concrete entity for a record or a bare key, and the origin of its row.
    ///
    /// A key of an abstract entity cannot insert an object, so the object must exist.
    ///
    /// - Parameter identity: index of its cells on the stack.
    /// - Throws: `constraintViolation` when the object is of another branch, `unmappable` when the entity is abstract
    ///   and the object does not exist; for a key that makes nothing `objectNotFound` or `skipped`.
    @inline(__always)
    mutating func concreteEntity(
        of entity: EntityPlan, identity: Int, offset: Int, _ origin: RowOrigin
    ) throws(StagingFault) -> (concreteEntity: Int, RowOrigin) {
        guard let hierarchy = entity.hierarchy else { return (entity.ownIndex, origin) }
        return try concreteEntity(of: entity, hierarchy, identity: identity, offset: offset, origin)
    }

    private mutating func concreteEntity(
        of entity: EntityPlan, _ hierarchy: HierarchyPlan, identity: Int, offset: Int, _ origin: RowOrigin
    ) throws(StagingFault) -> (concreteEntity: Int, RowOrigin) {
        let known = knownEntity(of: entity, identity: identity)
        let origin = entity.isAbstract && origin == .stub ? RowOrigin.mustExist : origin
        if origin.makesNothing {
            try checkKey(of: entity, identity: identity, offset: offset, origin)
            let current = stagedEntity(of: entity, identity: identity) ?? known?.concreteEntity
            return (current ?? hierarchy.identityHead, origin)
        }
        let staged = if let known { known.concreteEntity } else { stagedEntity(of: entity, identity: identity) }
        if let staged, staged != entity.ownIndex, !hierarchy.inherits(from: staged) {
            if !hierarchy.isInherited(by: staged) {
                guard known == nil else { throw unrelatedObject(entity, staged, offset: offset) }
                // The merge may find that the record that put the object into that branch does not count.
                hasUncertainEntities = true
            }
            return (staged, origin)
        }
        if entity.isAbstract {
            guard known == nil else { throw abstract(entity, offset: offset) }
            hasUncertainEntities = true
        } else if let knownEntities = exclusions?.knownEntities,
            staged != nil || origin.rawValue <= RowOrigin.stub.rawValue
        {
            scratch.withCells(at: identity) { knownEntities.note(current: entity.ownIndex, entity, $0) }
        }
        return (entity.ownIndex, origin)
    }

    /// Checks that the merge has not found the object of a bare key that makes nothing to be of another entity.
    private func checkKey(
        of entity: EntityPlan, identity: Int, offset: Int, _ origin: RowOrigin
    ) throws(StagingFault) {
        guard let knownEntities = exclusions?.knownEntities else { return }
        let final = scratch.withCells(at: identity) { knownEntities.finalEntity(of: $0, unlike: entity) }
        guard let final else { return }
        throw origin == .mayBeMissing ? .skipped : notFound(entity, final, offset: offset)
    }

    /// Returns the stored fact, and the effect on it of the records before this one.
    private func knownEntity(of entity: EntityPlan, identity: Int) -> KnownEntities.Known? {
        exclusions?.knownEntities.flatMap { known in scratch.withCells(at: identity) { known.find(entity, $0) } }
    }

    /// Returns the object's concrete entity as far as this part says; nil when no record or key has named it, or when a
    /// tombstone deleted it.
    private func stagedEntity(of entity: EntityPlan, identity: Int) -> Int? {
        let table = tables[entity.index]
        return scratch.withCells(at: identity) { cells in
            if tombstones?.isDeleted(entity, cells) ?? false { return nil }
            return table.pointee.find(identity: cells, concreteEntity: entity.ownIndex).map {
                table.pointee.concreteEntity(of: $0)
            }
        }
    }

    /// Checks that a tombstone's object is not known to be of another branch. The merge compares it with the stored
    /// object.
    ///
    /// - Parameter identity: index of its cells on the stack.
    mutating func checkBranch(of entity: EntityPlan, identity: Int, offset: Int) throws(StagingFault) {
        guard let hierarchy = entity.hierarchy else { return }
        let known = knownEntity(of: entity, identity: identity)
        let current = if let known { known.concreteEntity } else { stagedEntity(of: entity, identity: identity) }
        guard let current, current != entity.ownIndex, !hierarchy.inherits(from: current),
            !hierarchy.isInherited(by: current)
        else { return }
        guard known == nil else { throw unrelatedObject(entity, current, offset: offset) }
        // As for a record: the record that put the object into that branch may not count.
        hasUncertainEntities = true
    }

    /// Checks that the object of a record that is not newer is of the relationship's entity, since the record does not
    /// make it so.
    ///
    /// - Throws: `skipped` when it is not.
    mutating func checkEntity(ofRow row: Int, for destination: EntityPlan) throws(StagingFault) {
        guard destination.ownIndex != destination.index, let hierarchy = destination.hierarchy else { return }
        let table = tables[destination.index]
        let concreteEntity = table.pointee.concreteEntity(of: row)
        guard concreteEntity != destination.ownIndex, !hierarchy.isInherited(by: concreteEntity) else { return }
        let known = exclusions?.knownEntities?.find(plan.entities[concreteEntity], table.pointee.row(row))
        guard known == nil else { throw .skipped }
        hasUncertainEntities = true
    }

    /// Returns the concrete entity of a record without identity.
    func concreteEntity(ofNew entity: EntityPlan, at offset: Int) throws(StagingFault) -> Int {
        if entity.isAbstract { throw abstract(entity, offset: offset) }
        return entity.ownIndex
    }

    func abstract(_ entity: EntityPlan, offset: Int) -> StagingFault {
        let below = plan.model.subentities(of: entity.ownIndex).filter { !plan.model.entities[$0].isAbstract }
        let names = below.map { plan.model.entities[$0].name }.prefix(20).joined(separator: ", ")
        return fault(
            .unmappable,
            "\(entity.name) is abstract, so a record of it can make no object, and there is none with this identity. "
                + (names.isEmpty ? "No entity inherits from it." : "Process it as one of: \(names)."),
            at: offset, entity)
    }

    func notFound(_ entity: EntityPlan, _ concreteEntity: Int, offset: Int) -> StagingFault {
        fault(
            .objectNotFound,
            "The object with the key given here is one of \(plan.model.entities[concreteEntity].name), not of "
                + "\(entity.name), and a key that makes no object does not change that. Send a record of \(entity.name) "
                + "with this identity, or another key.", at: offset, entity)
    }

    func unrelatedObject(_ entity: EntityPlan, _ concreteEntity: Int, offset: Int) -> StagingFault {
        fault(
            .constraintViolation,
            "The object with this identity is one of \(plan.model.entities[concreteEntity].name), and cannot be one of "
                + "\(entity.name), too: both share one space of identities. Send another identity, or delete the object "
                + "first.", at: offset, entity)
    }
}
