internal import BrokerJSON
internal import BrokerModel

extension StagingContext {
    /// Stages a record with everything nested in it, and returns its row.
    ///
    /// - Throws: when this very record is rejected or skipped. Faults in nested records are rejected there, or thrown
    ///   if the policy is `fail`.
    mutating func stage(
        _ mapped: MappedRecord, _ parameters: PathParameters? = nil
    ) throws(StagingFault) -> Int {
        try mapped.withEntity { entity throws(StagingFault) in try stage(mapped, entity, parameters) }
    }

    private mutating func stage(
        _ mapped: MappedRecord, _ entity: EntityPlan, _ parameters: PathParameters?
    ) throws(StagingFault) -> Int {
        let record = try read(mapped, entity, parameters)
        defer { close(record) }
        guard !record.isTombstone else {
            note(.tombstone)
            throw .skipped
        }
        let row = try row(of: record, entity)
        if !record.notes.isEmpty { valueWarnings.note(entity: entity.ownIndex, record.notes) }
        guard !entity.ownRelationships.isEmpty else { return row }
        let linkSource = LinkSource(entity: entity, row: row, sourceOffset: UInt32(record.offset))
        try stageRelationships(entity, record.source.slots, linkSource)
        if let parameters = record.source.parameters {
            try stageRelationships(entity, namedBy: parameters, record.source.slots, linkSource, at: record.offset)
        }
        return row
    }

    /// Stages a record of the operation's own, and notes its object.
    mutating func stageOwn(_ record: MappedRecord) throws(StagingFault) {
        let row = try stage(record, parameters)
        try notePayload((record.entity.index, row))
    }

    /// Finds or adds the record's row, and writes its attributes there.
    @inline(__always)
    private mutating func row(of record: OpenRecord, _ entity: EntityPlan) throws(StagingFault) -> Int {
        let cells = record.cells
        let table = tables[entity.index]
        let row: Int
        if record.hasIdentity {
            row = try findOrAdd(entity, identity: cells, offset: record.offset, .record)
            let naming = table.pointee.namings[row]
            if naming.isRepeated { noteRepetition(of: row, record) }
            // A key has named it before, and the rows have the order of the names.
            if policy == .skip, naming.offset != UInt32(record.offset), entity.hasUniqueLists { note(.unique) }
        } else {
            let concreteEntity =
                record.isTarget ? entity.ownIndex : try concreteEntity(ofNew: entity, at: record.offset)
            try take(entity.rowByteCount)
            row = table.pointee.findOrAdd(
                identity: nil, offset: record.offset, origin: .record, concreteEntity: concreteEntity)
        }
        table.pointee.noteRecord(row, modified: record.sentModified)
        let own = table.pointee.row(row)
        for index in entity.ownColumns.indices {
            let column = entity.ownColumns[index]
            let cell = scratch[cells + column]
            if cell.kind != .absent { own[column] = cell }
        }
        return row
    }

    /// Notes why a record that is not the first of its object cannot be united with the others.
    private mutating func noteRepetition(of row: Int, _ record: OpenRecord) {
        let entity = record.entity
        if entity.modified != nil { note(.modified) }
        if entity.hasUniqueLists { note(.unique) }
        let own = tables[entity.index].pointee.row(row)
        if entity.requiredColumns.contains(where: {
            own[$0].kind == .absent && scratch[record.cells + $0].kind != .absent
        }) {
            note(.required)
        }
    }

    /// Converts the record's own attributes.
    ///
    /// - Returns: the first fault in the text, and its offset.
    @inline(__always)
    mutating func convertAttributes(
        _ record: JSONValue, _ entity: EntityPlan, _ source: RecordSource, _ cells: Int, _ failed: inout Set<Int>,
        _ notes: inout [ValueNote]
    ) -> (StagingFault?, Int) {
        var (first, firstOffset): (StagingFault?, Int) = (nil, .max)
        wholeModified = nil
        entity.forEachOwnAttribute { column, attribute in
            guard let value = value(of: attribute, column, source, entity) else {
                if let missing = attribute.missingCell { scratch[cells + column] = missing.cell }
                return
            }
            do throws(StagingFault) {
                let cell = try cell(value, attribute, column, entity, &notes)
                scratch[cells + column] = cell
            } catch {
                let (error, offset) = source.relocated(error, at: textOffset(of: value), in: extent(of: record))
                // If there are several faults, the first in the text is reported.
                if offset < firstOffset { (first, firstOffset) = (error, offset) }
                failed.insert(column)
            }
        }
        if let (relationship, value) = scanner.misplacedLink, textOffset(of: value) < firstOffset {
            first = fault(.invalidValue, ValueConverter.misplaced(value, relationship.relationship.name), value, entity)
            firstOffset = textOffset(of: value)
        }
        return (first, firstOffset)
    }

    /// Returns the row of the identity whose cells are at that index of the stack.
    mutating func findOrAdd(
        _ entity: EntityPlan, identity: Int, offset: Int, _ origin: RowOrigin
    ) throws(StagingFault) -> Int {
        let (concreteEntity, origin) = concreteEntity(of: entity, identity: identity, origin)
        let table = tables[entity.index]
        let count = table.pointee.rowCount
        let row = scratch.withCells(at: identity) {
            table.pointee.findOrAdd(identity: $0, offset: offset, origin: origin, concreteEntity: concreteEntity)
        }
        if table.pointee.rowCount != count { try take(entity.rowByteCount) }
        if let hierarchy = entity.hierarchy, origin.makesNothing, entity.ownIndex != hierarchy.identityHead {
            try take(StagedTable.bytesPerKeyEntity)
            table.pointee.noteKey(row, of: entity.ownIndex)
        }
        return row
    }

    /// Returns the first fault in the text of a record with a bad attribute. A missing identity counts at the record's
    /// offset. If the policy is `fail`, a fault in a nested record may precede the attribute.
    mutating func earliest(
        _ fault: StagingFault, at offset: Int, _ record: JSONValue, _ entity: EntityPlan, _ source: RecordSource,
        _ cells: Int
    ) throws(StagingFault) -> StagingFault {
        if !entity.isIdentityOptional {
            // The record of a target takes missing identity values from the target's key.
            let isTarget = target.map { $0.isMadeOf(recordAt: textOffset(of: record), entity) } ?? false
            let missing = entity.identity.first { column in
                !isTarget && value(of: entity.attributes[column], column, source, entity)?.isNull ?? true
                    && holderCell(column, entity, source.holder) == nil
            }
            if let missing { return missingIdentity(missing, record, entity) }
        }
        guard policy == .fail else { return fault }
        // The job fails, so the nested records may be staged for any row.
        let row = tables[entity.index].pointee.findOrAdd(
            identity: nil, offset: offset, origin: .record, concreteEntity: entity.ownIndex)
        for column in entity.identity { tables[entity.index].pointee.row(row)[column] = scratch[cells + column] }
        let linkSource = LinkSource(entity: entity, row: row, sourceOffset: UInt32(textOffset(of: record)))
        try stageRelationships(entity, source.slots, linkSource, before: offset)
        return fault
    }

    /// Whether the record has an identity. Where the identity is optional, missing values become NULL.
    ///
    /// - Parameter isTarget: the record is of the operation's target, which retains its identity.
    mutating func identity(
        _ record: JSONValue, _ entity: EntityPlan, _ cells: Int, isTarget: Bool
    ) throws(StagingFault) -> Bool {
        let missing = entity.identity.first { scratch[cells + $0].kind.rawValue <= Cell.Kind.null.rawValue }
        guard let missing else { return !entity.identity.isEmpty }
        // Only an object that is named by its row key lacks a part here, and it retains that part.
        if isTarget, plan.model.entities[entity.ownIndex].isNamedByRowKey { return false }
        guard entity.isIdentityOptional else { throw missingIdentity(missing, record, entity) }
        for column in entity.identity where scratch[cells + column].kind == .absent { scratch[cells + column] = .null }
        return false
    }

    func noKnownKey(_ record: JSONValue, _ entity: EntityPlan) -> StagingFault {
        fault(
            .noKnownKey,
            "The model names none of this record's keys (\(Self.shownKeys(of: record))), so it is no record of "
                + "\(entity.name). Send a record, or name its keys in the model.", record, entity)
    }

    private static let shownKeyCount = 5

    private static func shownKeys(of record: JSONValue) -> String {
        var members = record.members
        var keys: [String] = []
        while keys.count < shownKeyCount, let member = members.next() { keys.append(member.key.quotedBriefly) }
        return keys.joined(separator: ", ") + (members.next() == nil ? "" : " …")
    }

    private func missingIdentity(_ column: Int, _ record: JSONValue, _ entity: EntityPlan) -> StagingFault {
        fault(
            .missingIdentity, entity.missingIdentityMessages[column] ?? "", at: textOffset(of: record), entity,
            plan.model.entities[entity.ownIndex].attributes[column].name)
    }

    /// - Parameter notes: gets a note if the attribute does not hold the value as it was sent.
    @inline(__always)
    mutating func cell(
        _ value: JSONValue, _ attribute: EntityPlan.AttributePlan, _ column: Int, _ entity: EntityPlan,
        _ notes: inout [ValueNote]
    ) throws(StagingFault) -> Cell {
        let isMisplaced = scanner.isMisplaced(value)
        let meant = isMisplaced ? value : try converted(value, column, entity) ?? value
        do throws(ValueFault) {
            if meant.isNull { return try attribute.nullCell(of: entity) }
            do throws(ValueFault) {
                guard !isMisplaced else { throw attribute.converter.misplacement(of: value) }
                let cell = try attribute.converter.convert(meant, arena: &arena)
                if arena.isInexact {
                    notes.append(ValueNote(property: column, code: .inexact))
                    if let modified = entity.modified, modified.column == column {
                        wholeModified = try modified.whole(meant, attribute.converter, arena: &arena)
                    }
                }
                return cell
            } catch {
                guard attribute.onInvalid != .fail else { throw error }
                let cell = attribute.onInvalid == .skip ? .absent : try attribute.nullCell(of: entity)
                notes.append(ValueNote(property: column, code: .ignoredValue))
                return cell
            }
        } catch {
            throw invalid(error, value, column, entity)
        }
    }

    func invalid(_ fault: ValueFault, _ value: JSONValue, _ column: Int, _ entity: EntityPlan) -> StagingFault {
        self.fault(
            fault.code, fault.message, at: textOffset(of: value), entity,
            plan.model.entities[entity.ownIndex].attributes[column].name)
    }

    func fault(
        _ code: FaultCode, _ message: @autoclosure () -> String, _ value: JSONValue, _ entity: EntityPlan
    ) -> StagingFault {
        fault(code, message(), at: textOffset(of: value), entity)
    }

    func fault(
        _ code: FaultCode, _ message: @autoclosure () -> String, at offset: Int, _ entity: EntityPlan?,
        _ attribute: String? = nil
    ) -> StagingFault {
        let message = rejections.isListing ? message() : ""
        return .invalid(Fault(code, message, entity: entity?.name, attribute: attribute), offset: offset)
    }
}

extension EntityPlan {
    /// Returns the record inside `{"employee": {…}}`, or the value itself.
    func unwrap(_ value: JSONValue) -> JSONValue {
        var members = value.members
        guard let only = members.next(), only.value.kind == .object, members.next() == nil else { return value }
        for wrapper in wrappers {
            let isWrapper = wrapper.withUnsafeBufferPointer { Bytes.areEqual($0, only.key.bytes) }
            if isWrapper { return only.value }
        }
        return value
    }
}

extension ValueFault {
    fileprivate var code: FaultCode {
        switch reason {
        case .inconvertible: .invalidValue
        case .notAllowed: .validationFailed
        case .missing: .missingValue
        }
    }
}

/// A value that is not stored as it was sent.
struct ValueNote: Hashable {
    /// Index of the attribute; for an `ignoredKey`, of the relationship.
    let property: Int
    /// `inexact`, `ignoredValue` or `ignoredKey`.
    let code: Warning.Code
}

/// Counts such values of accepted records, and such keys, by entity, property and code.
struct ValueWarnings {
    private struct Subject: Hashable {
        let entity: Int
        let note: ValueNote
    }

    private var counts: [Subject: Int] = [:]

    mutating func note(entity: Int, _ notes: [ValueNote]) {
        for note in notes { counts[Subject(entity: entity, note: note), default: 0] += 1 }
    }

    /// Returns one warning for each property and code, in the order of the model.
    func warnings(_ model: Model) -> [Warning] {
        let sorted = counts.sorted { left, right in
            (left.key.entity, left.key.note.property, left.key.note.code.rawValue)
                < (right.key.entity, right.key.note.property, right.key.note.code.rawValue)
        }
        return sorted.map { subject, count in
            let (entity, note) = (model.entities[subject.entity], subject.note)
            let name =
                note.code == .ignoredKey
                ? entity.relationships[note.property].name : entity.attributes[note.property].name
            return Warning(note.code, entity: entity.name, key: name, count: count)
        }
    }
}
