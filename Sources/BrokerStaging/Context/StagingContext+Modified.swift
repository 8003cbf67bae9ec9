internal import BrokerJSON
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

extension StagingContext {
    /// Scans a record. The caller gives the slots back.
    ///
    /// - Parameter record: the record without its wrapper.
    mutating func open(
        _ mapped: MappedRecord, _ record: JSONValue, _ entity: EntityPlan, _ parameters: PathParameters?
    ) throws(StagingFault) -> RecordSource {
        var source = try scan(mapped, record, entity, parameters)
        source.hasOnlyUnknownKeys = scanner.hasOnlyUnknownKeys
        source.holder = mapped.holder
        return source
    }

    private mutating func scan(
        _ mapped: MappedRecord, _ record: JSONValue, _ entity: EntityPlan, _ parameters: PathParameters?
    ) throws(StagingFault) -> RecordSource {
        guard let nesting = entity.nesting else {
            return RecordSource(slots: scanner.open(record, entity), parameters: parameters)
        }
        if let key = mapped.nestedKey {
            let slots = scanner.open(nil, nested: (key, record), entity)
            return RecordSource(slots: slots, nestedKey: key, parameters: parameters)
        }
        let nested = try nested(in: record, nesting, entity)
        return RecordSource(
            slots: scanner.open(record, nested: nested, entity), nestedKey: nested?.key, parameters: parameters)
    }

    /// Returns the one member of the record that is an object and that no path of the mapping leads to. Its key is a
    /// value.
    private func nested(
        in record: JSONValue, _ nesting: NestingPlan, _ entity: EntityPlan
    ) throws(StagingFault) -> (key: JSONValue, value: JSONValue)? {
        var found: (key: JSONValue, value: JSONValue)?
        for member in record.members
        where member.value.kind == .object && entity.tree.child(of: 0, member.key.bytes) == nil {
            // The last of duplicate keys wins.
            guard let known = found, !Bytes.areEqual(known.key.bytes, member.key.bytes) else {
                found = (member.key, member.value)
                continue
            }
            let name = plan.model.entities[entity.ownIndex].attributes[nesting.column].name
            throw fault(
                .invalidValue,
                "Two keys of this record may be its \(name): \(known.key.quotedBriefly) and \(member.key.quotedBriefly). If "
                    + "it is a dictionary of many, give the mapping \"collection\": true.", record, entity)
        }
        return found
    }

    /// Returns the value that the record has for the attribute; nil when it has none.
    @inline(__always)
    func value(
        of attribute: EntityPlan.AttributePlan, _ column: Int, _ source: RecordSource, _ entity: EntityPlan
    ) -> JSONValue? {
        if attribute.node >= 0 {
            if let value = scanner.value(attribute.node, source.slots) { return value }
        } else if let value = scanner.value(attribute.nodes, source.slots) {
            return value
        }
        if let key = source.nestedKey, entity.nesting?.column == column { return key }
        return source.parameters?.value(of: attribute.converter.name)
    }
}

/// The identities of records, also of those that are rejected.
extension StagingContext {
    /// Retains the existing link of a rejected element, if the element's identity is readable.
    mutating func retainLink(
        _ record: MappedRecord, _ plan: EntityPlan.RelationshipPlan, _ linkSource: LinkSource
    ) throws(StagingFault) {
        guard let identity = try identityCells(of: record) else { return }
        try take(MemoryLayout<RetainedLink>.stride + identity.count * MemoryLayout<Cell>.stride + arena.takeFresh())
        retainedLinks.append(
            RetainedLink(
                entity: linkSource.table, row: linkSource.row, relationship: plan.index,
                concreteEntity: record.entity.ownIndex,
                identity: identity, operation: replacementOffset(plan, linkSource)))
    }

    mutating func identityCells(of mapped: MappedRecord) throws(StagingFault) -> [Cell]? {
        let (value, entity) = (mapped.value, mapped.entity)
        guard !entity.identity.isEmpty else { return nil }
        var cells: [Cell] = []
        if value.kind != .object {
            cells = entity.identity.map { column in
                if let cell = holderCell(column, entity, mapped.holder) { return cell }
                if let key = mapped.nestedKey {
                    return entity.nesting?.column == column ? identityCell(key, entity, column) : .null
                }
                let isBareKey = entity.identity.count == 1 && value.kind != .array && !value.isNull
                return isBareKey ? identityCell(value, entity, column) : .null
            }
        } else {
            let source = try open(mapped, entity.unwrap(value), entity, nil)
            defer { scanner.close(source.slots) }
            cells = entity.identity.map { column in
                let value = self.value(of: entity.attributes[column], column, source, entity)
                let own = value.map { identityCell($0, entity, column) } ?? .null
                return holderCell(column, entity, mapped.holder, hasOwn: own.kind != .null) ?? own
            }
        }
        return cells.contains { $0.kind == .null } ? nil : cells
    }

    /// Returns null for a value that is not an identity.
    private mutating func identityCell(_ value: JSONValue, _ entity: EntityPlan, _ column: Int) -> Cell {
        guard !scanner.isMisplaced(value) else { return .null }
        do throws(ValueFault) {
            return try entity.attributes[column].converter.convert(value, arena: &arena)
        } catch {
            // The fault has been reported, or the record reports it.
            return .null
        }
    }
}

/// Records that delete their objects (`tombstone` of the model).
extension StagingContext {
    /// Whether the record deletes its object.
    ///
    /// - Parameters:
    ///   - cells: index of its converted attributes on the stack.
    ///   - failed: attributes that could not be converted. They are ignored with the others, unless the identity or the
    /// predicate needs them.
    mutating func isMet(
        _ tombstone: Tombstone, _ record: JSONValue, _ entity: EntityPlan, _ cells: Int, _ failed: Set<Int>
    ) throws(StagingFault) -> Bool {
        if failed.contains(where: { tombstone.asks(for: $0) || entity.identity.contains($0) }) { return false }
        do throws(Fault) {
            return try scratch.withCells(at: cells) { row throws(Fault) in
                try tombstone.isMet(budget: &arena.workBudget) { row[$0] }
            }
        } catch {
            throw .invalid(error.of(entity: entity.name), offset: textOffset(of: record))
        }
    }

    /// Notes the deletion of the record's object, and returns the row of a target's record.
    ///
    /// - Parameter identity: index of its cells on the stack; nil when it has none.
    /// - Throws: `constraintViolation` when the object is of another branch of the hierarchy; else `skipped`, because any
    ///   other record has no row.
    mutating func deleteObject(
        _ record: JSONValue, _ entity: EntityPlan, _ identity: Int?, isTarget: Bool
    ) throws(StagingFault) -> Int {
        // The merge checks a target's concrete entity.
        if let identity, !isTarget { try checkBranch(of: entity, identity: identity, offset: textOffset(of: record)) }
        let row = isTarget ? try targetRow(of: record, entity, identity: identity) : nil
        if let identity {
            try take(entity.rowByteCount)
            let known = tombstones ?? StagedTombstones(plan)
            tombstones = known
            let table = tables[entity.index]
            scratch.withCells(at: identity) {
                let isNamedBefore = table.pointee.find(identity: $0, concreteEntity: entity.ownIndex) != nil
                known.add(entity, $0, at: textOffset(of: record), isNamedBefore: isNamedBefore)
                exclusions?.knownEntities?.noteDeletion(entity, $0)
                if entity.modified != nil { exclusions?.modified?.noteDeletion(entity.index, identity: $0) }
            }
        }
        guard let row else { throw .skipped }
        return row
    }

    /// Returns the source offset of a link to the row: the offset of its record, or, if a tombstone inside that record
    /// has deleted the row's object before the record names it again, the offset of the tombstone.
    @inline(__always)
    func sourceOffset(_ linkSource: LinkSource, linkingTo row: Int, of entity: Int) -> UInt32 {
        guard let tombstones, tables[entity].pointee.hasIdentity(row) else { return linkSource.sourceOffset }
        let table = tables[entity]
        return max(
            linkSource.sourceOffset,
            tombstones.deletionOffset(
                entity, UnsafePointer(table.pointee.row(row)), concreteEntity: table.pointee.concreteEntity(of: row)))
    }
}

/// Where the values of a record's attributes are.
struct RecordSource {
    /// The scanner's slots with the record's own values.
    let slots: Int
    /// The dictionary key of the record, where that key is one of its values.
    var nestedKey: JSONValue?
    /// The record that contains it, where that one brings values of its own, or owns it.
    var holder: RecordHolder?
    /// Values of path parameters, for attributes that a record of the operation lacks.
    var parameters: PathParameters?
    /// The record has keys, and none of them is known.
    var hasOnlyUnknownKeys = false

    /// Moves a fault in a path parameter to the record, because the parameter is not in the record's text.
    ///
    /// - Parameter extent: the text of the record.
    func relocated(_ fault: StagingFault, at offset: Int, in extent: Range<Int>) -> (StagingFault, Int) {
        guard parameters != nil, case .invalid(let fault, let own) = fault, !extent.contains(own) else {
            return (fault, offset)
        }
        return (.invalid(fault, offset: extent.lowerBound), extent.lowerBound)
    }
}
