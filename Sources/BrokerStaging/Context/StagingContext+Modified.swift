internal import BrokerModel

/// Records that may be skipped because they are not newer than their object (`modified` of the model).
///
/// ```
/// first staging    compares the records of one part with each other; the merge then asks the store (``StagedRows``)
/// staged again     has the stored values (``ModifiedValues``), and the order over all parts
/// ```
extension StagingContext {
    /// Whether the record is newer than its object, as far as this staging knows.
    ///
    /// - Parameter cells: index of the record's converted attributes on the stack.
    mutating func isAccepted(
        _ row: Int, _ entity: EntityPlan, _ cells: Int, _ modified: ModifiedColumn, hasIdentity: Bool
    ) -> Bool {
        let cell = sentValue(of: modified, cells)
        let table = tables[entity.index]
        if let values = exclusions?.modified, hasIdentity {
            let isNewer = scratch.withCells(at: cells) { identity in
                guard values.isNewer(cell, modified, entity.index, identity: identity) else { return false }
                values.note(current: cell, entity.index, identity: identity)
                return true
            }
            if !isNewer { return false }
        } else if modified.isStale(cell, against: table.pointee.lastModified[row]) {
            return false
        }
        table.pointee.bring(modified: cell, row)
        return true
    }
}

extension StagingContext {
    /// Returns the row of the record's object in a hierarchy, if the record is known not to be newer. Such a record
    /// does not decide the object's concrete entity. Nil when the record is accepted.
    mutating func staleRelative(_ entity: EntityPlan, _ cells: Int, at offset: Int) throws(StagingFault) -> Int? {
        guard let modified = entity.modified, let hierarchy = entity.hierarchy else { return nil }
        let cell = sentValue(of: modified, cells)
        let table = tables[entity.index]
        let isNewer = scratch.withCells(at: cells) { identity in
            exclusions?.modified?.isNewer(cell, modified, entity.index, identity: identity)
                ?? isNewerThanStaged(cell, modified, entity, identity)
        }
        guard isNewer else {
            return try findOrAdd(plan.entities[hierarchy.identityHead], identity: cells, offset: offset, .mayBeMissing)
        }
        // A record that is rejected here has no effect, so later records are not compared with it.
        let row = try findOrAdd(entity, identity: cells, offset: offset, .record)
        if let values = exclusions?.modified {
            scratch.withCells(at: cells) { values.note(current: cell, entity.index, identity: $0) }
        }
        table.pointee.bring(modified: cell, row)
        return nil
    }

    private func isNewerThanStaged(
        _ cell: Cell, _ modified: ModifiedColumn, _ entity: EntityPlan, _ identity: UnsafePointer<Cell>
    ) -> Bool {
        let table = tables[entity.index]
        guard let row = table.pointee.find(identity: identity, concreteEntity: entity.ownIndex) else { return true }
        return tombstones?.isDeleted(entity, identity) == true
            || !modified.isStale(cell, against: table.pointee.lastModified[row])
    }

    /// The value of the record being converted, with all its digits.
    private func sentValue(of modified: ModifiedColumn, _ cells: Int) -> Cell {
        wholeModified ?? scratch[cells + modified.column]
    }

    // MARK: - Tombstones

    /// Whether a record that deletes its object is newer than the object, as far as this staging knows. If not, it is
    /// skipped like any other.
    mutating func isAccepted(tombstone entity: EntityPlan, _ cells: Int, hasIdentity: Bool) -> Bool {
        guard let modified = entity.modified, hasIdentity else { return true }
        let cell = sentValue(of: modified, cells)
        let isAccepted = scratch.withCells(at: cells) { identity in
            exclusions?.modified?.isNewer(tombstone: cell, modified, entity.index, identity: identity)
                ?? isNewerThanStaged(cell, modified, entity, identity)
        }
        // The merge cannot compare the age of a deleted object.
        if isAccepted, cell.kind.rawValue > Cell.Kind.null.rawValue { needsComparison = true }
        return isAccepted
    }
}

// MARK: - The target of an operation

extension StagingContext {
    /// Returns the row of the operation's target, if its record is known not to be newer; nil when the record is
    /// accepted.
    ///
    /// A skipped record does not rename its target.
    mutating func staleTargetRow(_ entity: EntityPlan, _ cells: Int) throws(StagingFault) -> Int? {
        guard let modified = entity.modified, let stored = exclusions?.modified?.target, let target,
            modified.isStale(sentValue(of: modified, cells), against: stored)
        else { return nil }
        let row = try row(ofKey: target.key, at: target.recordOffset, entity, .mustExist)
        self.target?.row = row
        self.target?.isRenamed = false
        return row
    }
}

// MARK: - Conditional faults

extension StagingContext {
    /// Whether a fault nested in this record counts only if the record is newer than its object, which the first
    /// staging cannot know.
    @inline(__always)  // A call would copy the context, which is large.
    func isConditional(_ entity: EntityPlan, _ row: Int) -> Bool {
        guard policy == .fail, exclusions == nil, let modified = entity.modified else { return false }
        return tables[entity.index].pointee.row(row)[modified.column].kind.rawValue > Cell.Kind.null.rawValue
    }

    /// Notes a fault that the merge decides on; returns false when the job must fail now.
    ///
    /// After the first such fault all faults are noted, so that the job reports the first in the text that counts.
    mutating func noteConditional(_ fault: Fault, at offset: Int) -> Bool {
        guard conditionalDepth > 0 || conditionalFault != nil else { return false }
        conditionalFault = .first(conditionalFault, ConditionalFault(fault: fault, offset: offset))
        return true
    }
}
