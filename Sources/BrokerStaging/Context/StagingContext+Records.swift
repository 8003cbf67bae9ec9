internal import BrokerJSON
internal import BrokerModel

/// The part of a record that staging uses.
enum RecordDecision {
    case accepted
    /// The object is known to be as new: neither the record nor its nested records count.
    case notNewer
    /// The sync may not insert or change the object: only the nested records count.
    case ignored
}

extension StagingContext {
    /// Stages a nested record with everything nested in it, and returns its row.
    ///
    /// - Parameter destination: the entity of the relationship that holds the record.
    /// - Throws: when this very record is rejected or skipped. Faults in nested records are rejected there, or thrown
    ///   if the policy is `fail`.
    mutating func stage(_ record: MappedRecord, for destination: EntityPlan) throws(StagingFault) -> Int {
        let (row, decision) = try stageWithDecision(record, nil)
        if decision == .notNewer { try checkEntity(ofRow: row, for: destination) }
        return row
    }

    /// Stages a record of the operation's own, and notes its object.
    mutating func stageOwn(_ record: MappedRecord) throws(StagingFault) {
        let (row, decision) = try stageWithDecision(record, parameters)
        try notePayload(decision == .ignored ? nil : (record.entity.index, row))
    }

    private mutating func stageWithDecision(
        _ mapped: MappedRecord, _ parameters: PathParameters?
    ) throws(StagingFault) -> (row: Int, RecordDecision) {
        try mapped.withEntity { entity throws(StagingFault) in try stageWithDecision(mapped, entity, parameters) }
    }

    private mutating func stageWithDecision(
        _ mapped: MappedRecord, _ entity: EntityPlan, _ parameters: PathParameters?
    ) throws(StagingFault) -> (row: Int, RecordDecision) {
        guard mapped.value.kind == .object else {
            throw fault(
                .invalidValue, "A record of \(entity.name) must be an object, not \(mapped.value.kind.phrase).",
                mapped.value, entity)
        }
        var record = entity.unwrap(mapped.value)
        let outerRange = rewrittenAt
        defer { rewrittenAt = outerRange }
        if let rewritten = try rewritten(record, entity) {
            guard rewritten.kind == .object else {
                throw fault(
                    .invalidValue,
                    "The embedding program made \(rewritten.kind.phrase) of a record of \(entity.name), and an object is wanted.",
                    record, entity)
            }
            rewrittenAt = extent(of: record)
            record = rewritten
        }
        let source = try open(mapped, record, entity, parameters)
        let slots = source.slots
        defer { scanner.close(slots) }
        if collection.refusesUnknownKeys, let unknown = scanner.firstUnknownKey {
            throw fault(.unknownKey, entity.unknownKeyMessage(unknown.key, at: unknown.node), record, entity)
        }
        let (row, decision) = try convert(record, entity, source)
        if decision == .ignored {
            try stageNestedAlone(
                entity, slots, LinkSource(entity: entity, row: row ?? -1, sourceOffset: UInt32(textOffset(of: record))))
        }
        if decision == .notNewer { try nameInside(entity, slots) }
        guard let row else { throw .skipped }
        if decision == .accepted, !entity.ownRelationships.isEmpty {
            let isConditional = isConditional(entity, row)
            if isConditional { conditionalDepth += 1 }
            defer { if isConditional { conditionalDepth -= 1 } }
            let linkSource = LinkSource(entity: entity, row: row, sourceOffset: UInt32(textOffset(of: record)))
            let outer = enclosing
            if entity.hasUniqueLists { enclosing = linkSource }
            defer { enclosing = outer }
            try stageRelationships(entity, slots, linkSource)
            if let parameters = source.parameters {
                try stageRelationships(entity, namedBy: parameters, slots, linkSource, at: textOffset(of: record))
            }
        }
        return (row, decision)
    }

    /// Converts the record's attributes and writes them to its row, unless its object is known to be as new.
    private mutating func convert(
        _ record: JSONValue, _ entity: EntityPlan, _ source: RecordSource
    ) throws(StagingFault) -> (row: Int?, RecordDecision) {
        let isTarget = try isTarget(record, entity, nestedIn: source.holder)
        let cells = scratch.push(entity.attributes.count)
        defer { scratch.pop(entity.attributes.count) }
        var (failed, notes): (Set<Int>, [ValueNote]) = ([], [])
        let (first, firstOffset) = convertAttributes(record, entity, source, cells, &failed, &notes)
        if let holder = source.holder { takeHolderValues(entity, holder, cells) }
        let isTombstone =
            try entity.tombstone.map { tombstone throws(StagingFault) in
                try isMet(tombstone, record, entity, cells, failed)
            } ?? false
        if let first, !isTombstone { throw try earliest(first, at: firstOffset, record, entity, source, cells) }
        if !isTombstone { try validate(record, entity, cells) }
        try take(arena.takeFresh())
        if isTarget { completeIdentity(entity, cells) }
        if isTarget, let row = try staleTargetRow(entity, cells) { return (row, .notNewer) }
        let identity = try identity(record, entity, cells, isTarget: isTarget)
        if source.hasOnlyUnknownKeys { throw noKnownKey(record, entity) }
        switch decision(entity, identity: identity ? cells : nil) {
        case .accepted: break
        case .named: return (try findOrAdd(entity, identity: cells, offset: textOffset(of: record), .ignored), .ignored)
        case .absent: return (nil, .ignored)
        }
        if isTombstone, isAccepted(tombstone: entity, cells, hasIdentity: identity) {
            // Without a row it throws, and nothing else of the record is read.
            if !isTarget { try nameInside(entity, source.slots) }
            return (try deleteObject(record, entity, identity ? cells : nil, isTarget: isTarget), .notNewer)
        }
        if identity, !isTarget, let row = try staleRelative(entity, cells, at: textOffset(of: record)) {
            return (row, .notNewer)
        }
        let row =
            isTarget
            ? try targetRow(of: record, entity, identity: identity ? cells : nil)
            : try row(of: record, entity, identity: identity ? cells : nil)
        if let modified = entity.modified, identity && entity.hierarchy == nil || isTarget {
            guard isAccepted(row, entity, cells, modified, hasIdentity: identity) else { return (row, .notNewer) }
        }
        try noteNesting(entity, at: textOffset(of: record))
        write(entity, cells, to: row, at: textOffset(of: record))
        valueWarnings.note(entity: entity.ownIndex, notes)
        return (row, .accepted)
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

    /// Writes an accepted record's attributes to its row.
    @inline(__always)
    private mutating func write(_ entity: EntityPlan, _ cells: Int, to row: Int, at offset: Int) {
        let own = tables[entity.index].pointee.row(row)
        for index in entity.ownColumns.indices {
            let column = entity.ownColumns[index]
            let cell = scratch[cells + column]
            if cell.kind != .absent { own[column] = cell }
        }
        for (position, column) in entity.uniqueColumns.enumerated() where scratch[cells + column].kind != .absent {
            tables[entity.index].pointee.claim(row, position, at: UInt32(offset))
        }
    }

    /// Finds or adds the record's row.
    ///
    /// - Parameter identity: index of its cells on the stack; nil when it has no identity.
    mutating func row(
        of record: JSONValue, _ entity: EntityPlan, identity: Int?
    ) throws(StagingFault) -> Int {
        guard let identity else {
            if let exclusions, exclusions.excludes(recordAt: textOffset(of: record)) { throw .skipped }
            let concreteEntity = try concreteEntity(ofNew: entity, at: textOffset(of: record))
            try take(entity.rowByteCount)
            return tables[entity.index].pointee.findOrAdd(
                identity: nil, offset: textOffset(of: record), origin: .record, concreteEntity: concreteEntity)
        }
        return try findOrAdd(entity, identity: identity, offset: textOffset(of: record), .record)
    }

    /// Returns the row of the identity whose cells are at that index of the stack.
    mutating func findOrAdd(
        _ entity: EntityPlan, identity: Int, offset: Int, _ origin: RowOrigin, isTarget: Bool = false
    ) throws(StagingFault) -> Int {
        if let exclusions {
            let isExcluded = scratch.withCells(at: identity) {
                exclusions.excludes(entity, identity: $0, at: offset, as: origin)
            }
            if isExcluded { throw .skipped }
        }
        // The merge asks the store for a target's concrete entity.
        let (concreteEntity, origin) =
            isTarget
            ? (entity.ownIndex, origin) : try concreteEntity(of: entity, identity: identity, offset: offset, origin)
        let table = tables[entity.index]
        let count = table.pointee.rowCount
        let row = scratch.withCells(at: identity) {
            table.pointee.findOrAdd(identity: $0, offset: offset, origin: origin, concreteEntity: concreteEntity)
        }
        if table.pointee.rowCount != count { try take(entity.rowByteCount) }
        if let tombstones,
            tombstones.revive(entity.index, UnsafePointer(table.pointee.row(row)), concreteEntity: entity.ownIndex)
        {
            table.pointee.renew(row, offset: offset, origin: origin, concreteEntity: concreteEntity)
        }
        if let hierarchy = entity.hierarchy {
            if origin == .record { table.pointee.noteRecord(row, of: entity.ownIndex, hierarchy) }
            if origin.makesNothing, entity.ownIndex != hierarchy.identityHead {
                try take(StagedTable.bytesPerKeyEntity)
                table.pointee.noteKey(row, of: entity.ownIndex)
            }
        }
        return row
    }

    /// Returns the first fault in the text of a record with a bad attribute. A missing identity counts at the record's
    /// offset. If the policy is `fail`, a fault in a nested record may precede the attribute.
    private mutating func earliest(
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
