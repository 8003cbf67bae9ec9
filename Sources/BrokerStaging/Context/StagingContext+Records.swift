internal import BrokerJSON
internal import BrokerModel

/// Where the values of a record's attributes are.
struct RecordSource {
    /// The scanner's slots with the record's own values.
    let slots: Int
    /// The dictionary key of the record, where that key is one of its values.
    let nestedKey: JSONValue?
    /// The record that contains it, where that one brings values of its own, or owns it.
    let holder: RecordHolder?
    /// Values of path parameters, for attributes that a record of the operation lacks.
    let parameters: PathParameters?
}

/// A record whose attributes have been converted.
struct OpenRecord {
    // The plan has it for as long as the staging lasts. All workers share it: to count references would take their time.
    unowned(unsafe) let entity: EntityPlan
    let offset: Int
    /// The scanner's slots with its own values.
    let slots: Int
    /// Index of its cells on the stack.
    let cells: Int
    let isTarget: Bool
    /// It has a value for each part of its identity.
    let hasIdentity: Bool
    let isTombstone: Bool
    fileprivate let findings: RecordFindings?
    /// The range of the record around it that a hook has rewritten.
    fileprivate let outerRange: Range<Int>?

    var notes: [ValueNote] { findings?.notes ?? [] }
}

/// What the conversion of a record's attributes found, besides their cells. An object, which most records do not need.
private final class RecordFindings {
    /// The first fault in the text, and its offset.
    var fault: StagingFault?
    var offset = Int.max
    /// By column, why an attribute could not be converted, and the offset of its value.
    var failed: [Int: (fault: StagingFault, offset: Int)] = [:]
    /// Values that their attributes do not hold as they were sent.
    var notes: [ValueNote] = []
    /// The value of `modified` with all its digits, if its attribute stores only some.
    var wholeModified: Cell?
    /// ``ExtraValues``.
    var extraEntries: [UInt8] = []
    /// The nodes of values in the place of an object that are among these.
    var extraNodes: Set<Int> = []

    /// The first fault in the text among those of some columns.
    func firstFault(of columns: [Int]) -> StagingFault? {
        columns.compactMap { failed[$0] }.min { $0.offset < $1.offset }?.fault
    }

    /// Those of a record, which are made if it has none.
    static func of(_ record: inout RecordFindings?) -> RecordFindings {
        if let record { return record }
        let made = RecordFindings()
        record = made
        return made
    }
}

extension StagingContext {
    // MARK: - Rows

    /// Stages a record with everything nested in it, and returns its row.
    ///
    /// - Throws: when this very record is rejected or skipped. Faults in nested records are rejected there, or thrown
    ///   if the policy is `fail`.
    mutating func stage(
        _ mapped: MappedRecord, _ parameters: PathParameters? = nil
    ) throws(StagingFault) -> Int {
        try mapped.withEntity { entity throws(StagingFault) in
            let record = try read(mapped, entity, parameters)
            defer { close(record) }
            guard !record.isTombstone else {
                staged.note(.tombstone)
                throw .skipped
            }
            let row = try row(of: record, entity)
            if record.findings != nil { valueWarnings.note(entity: entity.ownIndex, record.notes) }
            guard !entity.ownRelationships.isEmpty else { return row }
            let linkSource = LinkSource(entity: entity, row: row, sourceOffset: UInt32(record.offset))
            try stageRelationships(entity, record.slots, linkSource)
            if let parameters {
                try stageRelationships(entity, namedBy: parameters, record.slots, linkSource, at: record.offset)
            }
            return row
        }
    }

    /// Finds or adds the record's row, and writes its attributes there.
    @inline(__always)
    private mutating func row(of record: OpenRecord, _ entity: EntityPlan) throws(StagingFault) -> Int {
        let cells = record.cells
        let table = staged.tables[entity.index]
        let row: Int
        if record.hasIdentity {
            row = try findOrAdd(entity, identity: cells, offset: record.offset, .record)
            let naming = table.pointee.namings[row]
            if naming.isRepeated { noteRepetition(of: row, record, entity) }
            // A key has named it before, and the rows have the order of the names.
            if policy == .skip, naming.offset != UInt32(record.offset), entity.hasUniqueLists { staged.note(.unique) }
        } else {
            let concreteEntity =
                record.isTarget ? entity.ownIndex : try concreteEntity(ofNew: entity, at: record.offset)
            try take(entity.rowByteCount)
            row = table.pointee.findOrAdd(
                identity: nil, offset: record.offset, origin: .record, concreteEntity: concreteEntity)
        }
        if let modified = sentModified(of: record) { table.pointee.noteRecord(row, modified: modified) }
        let own = table.pointee.row(row)
        if entity.isExtraContested(own, scratch[cells + max(0, entity.extraColumn)]) { staged.note(.extra) }
        for index in entity.ownColumns.indices {
            let column = entity.ownColumns[index]
            let cell = scratch[cells + column]
            if cell.kind != .absent { own[column] = cell }
        }
        return row
    }

    /// Notes why a record that is not the first of its object cannot be united with the others.
    private mutating func noteRepetition(of row: Int, _ record: OpenRecord, _ entity: EntityPlan) {
        if entity.modified != nil { staged.note(.modified) }
        if entity.hasUniqueLists { staged.note(.unique) }
        let own = staged.tables[entity.index].pointee.row(row)
        if entity.requiredColumns.contains(where: {
            own[$0].kind == .absent && scratch[record.cells + $0].kind != .absent
        }) {
            staged.note(.required)
        }
    }

    /// Returns the row of the identity whose cells are at that index of the stack.
    mutating func findOrAdd(
        _ entity: EntityPlan, identity: Int, offset: Int, _ origin: RowOrigin
    ) throws(StagingFault) -> Int {
        let (concreteEntity, origin) = concreteEntity(of: entity, identity: identity, origin)
        let table = staged.tables[entity.index]
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

    /// Adds a row that stands for the holder of nested records, with the values that they take from it.
    mutating func holderRow(
        _ entity: EntityPlan, _ values: [(Int, Cell)]
    ) throws(StagingFault) -> Int {
        try take(entity.rowByteCount)
        let table = staged.tables[entity.index]
        let row = table.pointee.findOrAdd(
            identity: nil, offset: 0, origin: .record, concreteEntity: entity.ownIndex)
        for (column, cell) in values { table.pointee.row(row)[column] = cell }
        return row
    }

    // MARK: - Reading

    /// Reads a record and converts its attributes. ``close(_:)`` gives back the space.
    mutating func read(
        _ mapped: MappedRecord, _ parameters: PathParameters?
    ) throws(StagingFault) -> OpenRecord {
        try mapped.withEntity { entity throws(StagingFault) in try read(mapped, entity, parameters) }
    }

    @inline(__always)
    private mutating func read(
        _ mapped: MappedRecord, _ entity: EntityPlan, _ parameters: PathParameters?
    ) throws(StagingFault) -> OpenRecord {
        guard mapped.value.kind == .object else {
            throw fault(
                .invalidValue, "A record of \(entity.name) must be an object, not \(mapped.value.kind.phrase).",
                mapped.value, entity)
        }
        let outerRange = rewrittenAt
        do throws(StagingFault) {
            var record = entity.unwrap(mapped.value)
            if plan.hooks != nil, let rewritten = try rewritten(record, entity) {
                rewrittenAt = extent(of: record)
                record = rewritten
            }
            let source = try open(mapped, record, entity, parameters)
            let cells = scratch.push(entity.attributes.count)
            do throws(StagingFault) {
                return try convert(record, entity, source, cells, outerRange)
            } catch {
                scratch.pop(entity.attributes.count)
                scanner.close(source.slots)
                throw error
            }
        } catch {
            rewrittenAt = outerRange
            throw error
        }
    }

    /// The value of an open record for `modified`, with all the digits that were sent; nil for an entity without.
    @inline(__always)
    func sentModified(of record: OpenRecord) -> Cell? {
        let column = record.entity.modifiedColumn
        return column < 0 ? nil : record.findings?.wholeModified ?? scratch[record.cells + column]
    }

    mutating func close(_ record: OpenRecord) {
        scratch.pop(record.entity.attributes.count)
        scanner.close(record.slots)
        rewrittenAt = record.outerRange
    }

    /// Scans a record. The caller gives the slots back.
    ///
    /// - Parameter record: the record without its wrapper.
    private mutating func open(
        _ mapped: MappedRecord, _ record: JSONValue, _ entity: EntityPlan, _ parameters: PathParameters?
    ) throws(StagingFault) -> RecordSource {
        var (own, nested): (JSONValue?, (key: JSONValue, value: JSONValue)?) = (record, nil)
        if let nesting = entity.nesting {
            if let key = mapped.nestedKey {
                (own, nested) = (nil, (key, record))
            } else {
                nested = try self.nested(in: record, nesting, entity)
            }
        }
        return RecordSource(
            slots: scanner.open(own, nested: nested, entity), nestedKey: nested?.key, holder: mapped.holder,
            parameters: parameters)
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

    @inline(__always)
    private mutating func convert(
        _ record: JSONValue, _ entity: EntityPlan, _ source: RecordSource, _ cells: Int, _ outerRange: Range<Int>?
    ) throws(StagingFault) -> OpenRecord {
        if collection.refusesUnknownKeys, let unknown = scanner.firstUnknownKey {
            throw fault(.unknownKey, entity.unknownKeyMessage(unknown.key, at: unknown.node), record, entity)
        }
        let isTarget = try isTarget(record, entity, nestedIn: source.holder)
        var findings: RecordFindings?
        convertAttributes(record, entity, source, cells, &findings)
        if entity.extraColumn >= 0 { addExtraKeys(of: record, entity, source, cells, &findings) }
        if let holder = source.holder { takeHolderValues(entity, holder, cells) }
        if entity.contentColumn >= 0 {
            let content = contentCell(record, source)
            scratch[cells + entity.contentColumn] = content
        }
        var isTombstone = false
        if let tombstone = entity.tombstone { isTombstone = try isMet(tombstone, record, entity, cells, findings) }
        if isTombstone {
            if let first = findings?.firstFault(of: entity.identity) {
                throw missingIdentity(record, entity, source) ?? first
            }
        } else {
            if let findings, let first = findings.fault {
                throw try earliest(first, at: findings.offset, record, entity, source, cells)
            }
            if plan.hooks != nil { try validate(record, entity, cells) }
        }
        try take(arena.takeFresh())
        if isTarget { completeIdentity(entity, cells) }
        let hasIdentity = try identity(record, entity, cells, isTarget: isTarget)
        if scanner.hasOnlyUnknownKeys { throw noKnownKey(record, entity) }
        return OpenRecord(
            entity: entity, offset: textOffset(of: record), slots: source.slots, cells: cells, isTarget: isTarget,
            hasIdentity: hasIdentity, isTombstone: isTombstone, findings: findings, outerRange: outerRange)
    }

    /// Converts the record's own attributes.
    @inline(__always)
    private mutating func convertAttributes(
        _ record: JSONValue, _ entity: EntityPlan, _ source: RecordSource, _ cells: Int,
        _ findings: inout RecordFindings?
    ) {
        entity.forEachOwnAttribute { column, attribute in
            guard column != entity.extraColumn else { return }
            guard let value = value(of: attribute, column, source, entity) else {
                if let missing = attribute.missingCell { scratch[cells + column] = missing.cell }
                return
            }
            do throws(StagingFault) {
                let cell = try cell(value, attribute, column, entity, &findings)
                scratch[cells + column] = cell
            } catch {
                note(error, of: column, at: textOffset(of: value), in: record, source, &findings)
            }
        }
        if let (relationship, value) = scanner.misplacedLink {
            let misplaced = fault(
                .invalidValue, ValueConverter.misplaced(value, relationship.relationship.name), value, entity)
            note(misplaced, of: nil, at: textOffset(of: value), in: record, source, &findings)
        }
    }

    /// Notes a fault in an attribute. If there are several, the first in the text is reported. A path parameter is not in
    /// the record's text: a fault in it is one of the record.
    private func note(
        _ fault: StagingFault, of column: Int?, at offset: Int, in record: JSONValue, _ source: RecordSource,
        _ findings: inout RecordFindings?
    ) {
        var (fault, offset) = (fault, offset)
        let extent = extent(of: record)
        if source.parameters != nil, case .invalid(let own, let place) = fault, !extent.contains(place) {
            (fault, offset) = (.invalid(own, offset: extent.lowerBound), extent.lowerBound)
        }
        let findings = RecordFindings.of(&findings)
        if let column { findings.failed[column] = (fault, offset) }
        if offset < findings.offset { (findings.fault, findings.offset) = (fault, offset) }
    }

    @inline(__always)
    private mutating func cell(
        _ value: JSONValue, _ attribute: EntityPlan.AttributePlan, _ column: Int, _ entity: EntityPlan,
        _ findings: inout RecordFindings?
    ) throws(StagingFault) -> Cell {
        let isMisplaced = scanner.isMisplaced(value)
        let meant = isMisplaced || plan.hooks == nil ? value : try converted(value, column, entity) ?? value
        guard !meant.isNull else { return try nullCell(value, attribute, column, entity) }
        do throws(ValueFault) {
            guard !isMisplaced else { throw attribute.converter.misplacement(of: value) }
            let cell = try attribute.converter.convert(meant, arena: &arena)
            guard arena.isInexact || arena.isPadded && entity.extraColumn >= 0 else { return cell }
            return try inexactCell(cell, of: meant, value, attribute, column, entity, &findings)
        } catch {
            return try self.cell(insteadOf: error, value, attribute, column, entity, &findings)
        }
    }

    /// The cell of a value that its attribute does not hold as it was sent.
    private mutating func inexactCell(
        _ cell: Cell, of meant: JSONValue, _ value: JSONValue, _ attribute: EntityPlan.AttributePlan, _ column: Int,
        _ entity: EntityPlan, _ findings: inout RecordFindings?
    ) throws(ValueFault) -> Cell {
        if entity.takesExtra(of: column) {
            guard !collection.refusesUnknownKeys else { throw attribute.converter.inexactness(of: value) }
            return extraCell(value, column, entity, &findings)
        }
        if entity.extraColumn >= 0, attribute.isRequired || entity.identity.contains(column) {
            throw attribute.converter.inexactness(of: value)
        }
        guard arena.isInexact else { return cell }
        let findings = RecordFindings.of(&findings)
        findings.notes.append(ValueNote(property: column, code: .inexact))
        if let modified = entity.modified, modified.column == column {
            findings.wholeModified = try modified.whole(meant, attribute.converter, arena: &arena)
        }
        return cell
    }

    /// The cell in the place of a value that the attribute cannot hold.
    private mutating func cell(
        insteadOf fault: ValueFault, _ value: JSONValue, _ attribute: EntityPlan.AttributePlan, _ column: Int,
        _ entity: EntityPlan, _ findings: inout RecordFindings?
    ) throws(StagingFault) -> Cell {
        guard attribute.onInvalid != .fail else {
            guard entity.takesExtra(of: column), !collection.refusesUnknownKeys else {
                throw invalid(fault, value, column, entity)
            }
            return extraCell(value, column, entity, &findings)
        }
        let cell = attribute.onInvalid == .skip ? .absent : try nullCell(value, attribute, column, entity)
        RecordFindings.of(&findings).notes.append(ValueNote(property: column, code: .ignoredValue))
        return cell
    }

    private mutating func nullCell(
        _ value: JSONValue, _ attribute: EntityPlan.AttributePlan, _ column: Int, _ entity: EntityPlan
    ) throws(StagingFault) -> Cell {
        do throws(ValueFault) {
            return try attribute.nullCell(of: entity)
        } catch {
            throw invalid(error, value, column, entity)
        }
    }

    /// Adds a value that the attribute cannot hold to the extra ones.
    ///
    /// - Returns: the attribute's cell.
    private mutating func extraCell(
        _ value: JSONValue, _ column: Int, _ entity: EntityPlan, _ findings: inout RecordFindings?
    ) -> Cell {
        let findings = RecordFindings.of(&findings)
        findings.notes.append(ValueNote(property: column, code: .extraValue, offset: textOffset(of: value)))
        if let node = scanner.misplacedNode(of: value) {
            if findings.extraNodes.insert(node).inserted {
                ExtraValues.add(
                    entity.extraPath(to: node), CompactJSON.text(of: value, arena: &arena), to: &findings.extraEntries
                )
            }
        } else {
            ExtraValues.add(
                entity.extraPaths[column], CompactJSON.text(of: value, arena: &arena), to: &findings.extraEntries)
        }
        return .null
    }

    /// Adds the record's unknown keys, and those that a fetch has printed in `_extra`, to the extra values, and stores these.
    private mutating func addExtraKeys(
        of record: JSONValue, _ entity: EntityPlan, _ source: RecordSource, _ cells: Int,
        _ findings: inout RecordFindings?
    ) {
        let column = entity.extraColumn
        let fetched = value(of: entity.attributes[column], column, source, entity)
        // In CSV it is text.
        let text = fetched.flatMap { $0.kind == .string ? $0.string : nil }
        let read = text.flatMap { JSONDocument(extra: Array($0.utf8)) }
        defer { withExtendedLifetime(read) {} }
        let object = [fetched, read?.root].lazy.compactMap { $0 }.first { $0.kind == .object }
        let count = scanner.extraKeys.count + (object.map { $0.members.reduce(0) { count, _ in count + 1 } } ?? 0)
        guard count <= ExtraValues.mostKeys else {
            let tooMany = fault(
                .validationFailed,
                "This record of \(entity.name) has \(count) keys that the model does not name, and _extra takes "
                    + "\(ExtraValues.mostKeys). If the keys are values, a mapping with \"nestingKey\" reads them.",
                record, entity)
            return note(tooMany, of: nil, at: textOffset(of: record), in: record, source, &findings)
        }
        var values = scanner.extraKeys.map { (path: entity.extraPath(to: $0.node, $0.key), value: $0.value) }
        if let object {
            values += object.members.map { (entity.extraPath(to: 0, $0.key), $0.value) }
        } else if let fetched {
            values.append((ExtraValues.path([Attribute.extraName]), fetched))
        }
        for (path, value) in values {
            let text = value.isNull ? nil : CompactJSON.text(of: value, arena: &arena)
            ExtraValues.add(path, text, to: &RecordFindings.of(&findings).extraEntries)
        }
        guard let findings, !findings.extraEntries.isEmpty else { return }
        scratch[cells + column] = .text(arena.store(findings.extraEntries))
    }

    func invalid(_ fault: ValueFault, _ value: JSONValue, _ column: Int, _ entity: EntityPlan) -> StagingFault {
        self.fault(
            fault.code, fault.message, at: textOffset(of: value), entity,
            plan.model.entities[entity.ownIndex].attributes[column].name)
    }

    // MARK: - Identities

    /// Returns the first fault in the text of a record with a bad attribute. A missing identity counts at the record's
    /// offset. If the policy is `fail`, a fault in a nested record may precede the attribute.
    private mutating func earliest(
        _ fault: StagingFault, at offset: Int, _ record: JSONValue, _ entity: EntityPlan, _ source: RecordSource,
        _ cells: Int
    ) throws(StagingFault) -> StagingFault {
        if let missing = missingIdentity(record, entity, source) { return missing }
        guard policy == .fail else { return fault }
        // The job fails, so the nested records may be staged for any row.
        let row = staged.tables[entity.index].pointee.findOrAdd(
            identity: nil, offset: offset, origin: .record, concreteEntity: entity.ownIndex)
        for column in entity.identity { staged.tables[entity.index].pointee.row(row)[column] = scratch[cells + column] }
        let linkSource = LinkSource(entity: entity, row: row, sourceOffset: UInt32(textOffset(of: record)))
        try stageRelationships(entity, source.slots, linkSource, before: offset)
        return fault
    }

    /// The fault of a record that has no value for a part of its identity; nil if it has all.
    private func missingIdentity(
        _ record: JSONValue, _ entity: EntityPlan, _ source: RecordSource
    ) -> StagingFault? {
        guard !entity.isIdentityOptional else { return nil }
        // The record of a target takes missing identity values from the target's key.
        let isTarget = target.map { $0.isMadeOf(recordAt: textOffset(of: record), entity) } ?? false
        return entity.identity.first { column in
            !isTarget && value(of: entity.attributes[column], column, source, entity)?.isNull ?? true
                && column != entity.contentColumn && holderCell(column, entity, source.holder) == nil
        }.map { missingIdentity($0, record, entity) }
    }

    /// Whether the record has an identity. Where the identity is optional, missing values become NULL.
    ///
    /// - Parameter isTarget: the record is of the operation's target, which retains its identity.
    private mutating func identity(
        _ record: JSONValue, _ entity: EntityPlan, _ cells: Int, isTarget: Bool
    ) throws(StagingFault) -> Bool {
        let missing = entity.identity.first { scratch[cells + $0].isNil }
        guard let missing else { return !entity.identity.isEmpty }
        // Only an object that is named by its row key lacks a part here, and it retains that part.
        if isTarget, plan.model.entities[entity.ownIndex].isNamedByRowKey { return false }
        guard entity.isIdentityOptional else { throw missingIdentity(missing, record, entity) }
        for column in entity.identity where scratch[cells + column].kind == .absent { scratch[cells + column] = .null }
        return false
    }

    private func noKnownKey(_ record: JSONValue, _ entity: EntityPlan) -> StagingFault {
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

    /// The identity of a record, also of one that is rejected; nil when it is not readable.
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
                if column == entity.contentColumn { return contentCell(entity.unwrap(mapped.value), source) }
                let value = self.value(of: entity.attributes[column], column, source, entity)
                let own = value.map { identityCell($0, entity, column) } ?? .null
                return holderCell(column, entity, mapped.holder, hasOwn: own.kind != .null) ?? own
            }
        }
        return cells.contains { $0.kind == .null } ? nil : cells
    }

    /// The hash of a record, with the key of the dictionary that holds it.
    private mutating func contentCell(_ record: JSONValue, _ source: RecordSource) -> Cell {
        .text(arena.store(ContentHash(of: record, at: source.nestedKey).text))
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

    // MARK: - Tombstones

    /// Whether the record deletes its object.
    ///
    /// - Parameters:
    ///   - cells: index of its converted attributes on the stack.
    ///   - findings: attributes that could not be converted are ignored with the others, unless the predicate needs them.
    private mutating func isMet(
        _ tombstone: RecordPredicate, _ record: JSONValue, _ entity: EntityPlan, _ cells: Int,
        _ findings: RecordFindings?
    ) throws(StagingFault) -> Bool {
        if let findings, tombstone.attributes.contains(where: { findings.failed[$0] != nil }) { return false }
        do throws(Fault) {
            return try scratch.withCells(at: cells) { row throws(Fault) in
                try tombstone.matches(budget: &arena.workBudget) { row[$0] }
            }
        } catch {
            throw .invalid(error.of(entity: entity.name), offset: textOffset(of: record))
        }
    }
}

extension EntityPlan {
    /// Whether a row has extra values, and a later record of its object may change or end them: its row alone would not say in
    /// which order.
    func isExtraContested(_ row: UnsafePointer<Cell>, _ later: Cell) -> Bool {
        guard extraColumn >= 0, row[extraColumn].kind != .absent else { return false }
        return !row[extraColumn].isSame(as: later)
    }

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

extension EntityPlan {
    /// Values that the attribute cannot hold go to `_extra`: a record can be without them.
    fileprivate func takesExtra(of column: Int) -> Bool {
        extraColumn >= 0 && !extraPaths[column].isEmpty && !attributes[column].isRequired
    }
}
