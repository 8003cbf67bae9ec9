internal import BrokerJSON
internal import BrokerModel

extension StagingContext {
    /// Stages the values of the record's relationships, in the order of the text.
    ///
    /// - Parameter limit: values that begin there or later are ignored.
    mutating func stageRelationships(
        _ entity: EntityPlan, _ slots: Int, _ linkSource: LinkSource, before limit: Int = .max
    ) throws(StagingFault) {
        var (last, isInOrder) = (-1, true)
        try entity.forEachOwnRelationship { relationship throws(StagingFault) in
            guard let value = self.value(of: relationship, slots) else { return }
            if textOffset(of: value) <= last { isInOrder = false }
            last = textOffset(of: value)
        }
        guard isInOrder else {
            for (value, relationship) in valuesInTextOrder(entity, slots) where textOffset(of: value) < limit {
                try stage(value, relationship, linkSource)
            }
            return
        }
        // Usually the model names them in the order of the text.
        try entity.forEachOwnRelationship { relationship throws(StagingFault) in
            guard let value = self.value(of: relationship, slots), textOffset(of: value) < limit else { return }
            try stage(value, relationship, linkSource)
        }
    }

    /// Returns the value at the relationship's most preferred path: the first that names an object, else one that means none.
    @inline(__always)
    func value(of plan: EntityPlan.RelationshipPlan, _ slots: Int) -> JSONValue? {
        if plan.node >= 0 { return scanner.value(plan.node, slots) }
        var none: JSONValue?
        for node in plan.nodes {
            guard let value = scanner.value(node, slots) else { continue }
            if !plan.isNone(value) { return value }
            none = none ?? value
        }
        return none
    }

    /// Stages the relationships that the record lacks and that a parameter of the job's path names, as keys of objects. The
    /// key is not in the record's text: a fault in it is reported at the offset of the record.
    mutating func stageRelationships(
        _ entity: EntityPlan, namedBy parameters: PathParameters, _ slots: Int, _ linkSource: LinkSource, at offset: Int
    ) throws(StagingFault) {
        let outerRange = rewrittenAt
        defer { rewrittenAt = outerRange }
        rewrittenAt = offset..<offset + 1
        for relationship in entity.ownRelationships where self.value(of: relationship, slots) == nil {
            guard let key = parameters.value(of: relationship.relationship.name) else { continue }
            try stage(key, relationship, linkSource)
        }
    }

    func valuesInTextOrder(
        _ entity: EntityPlan, _ slots: Int
    ) -> [(value: JSONValue, relationship: EntityPlan.RelationshipPlan)] {
        var values: [(value: JSONValue, relationship: EntityPlan.RelationshipPlan)] = []
        for relationship in entity.ownRelationships {
            if let value = self.value(of: relationship, slots) { values.append((value, relationship)) }
        }
        values.sort { ($0.value.offset, $0.relationship.index) < ($1.value.offset, $1.relationship.index) }
        return values
    }

    /// Stages a relationship's value: nested records, bare keys, or null.
    mutating func stage(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ linkSource: LinkSource
    ) throws(StagingFault) {
        if plan.isElsewhere { staged.tables[linkSource.table].pointee.noteLinksElsewhere(linkSource.row) }
        guard plan.relationship.isToMany else { return try stageToOne(value, plan, linkSource) }
        if case .linkTable = plan.form { staged.tables[linkSource.table].pointee.noteLinks(linkSource.row) }
        let isNone = plan.isNone(value)
        if isNone || plan.relationship.assignment == .replace {
            try take(MemoryLayout<StagedReplacement>.stride)
            staged.replacements.append(
                StagedReplacement(
                    entity: linkSource.table, row: linkSource.row, relationship: plan.index,
                    sourceOffset: linkSource.sourceOffset))
            if isNone { return }
        }
        var linkSource = linkSource
        guard value.kind == .array else { return try stageElements(value, plan, &linkSource) }
        for element in value.elements {
            if plan.isNone(element: element) {
                linkSource.position += 1
            } else {
                try stageElements(element, plan, &linkSource)
            }
        }
    }

    /// Stages the elements of a to-many value: one object, or those of a dictionary of records.
    private mutating func stageElements(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ linkSource: inout LinkSource
    ) throws(StagingFault) {
        guard let entity = try dictionaryPlan(value, plan) else {
            try stageElement(value, plan, linkSource)
            linkSource.position += 1
            return
        }
        for (key, record) in value.members {
            try stageElement(record, plan, linkSource, MappedRecord(value: record, entity: entity, nestedKey: key))
            linkSource.position += 1
        }
    }

    /// Returns the plan for the records of a dictionary of records; nil for a value that is one record.
    mutating func dictionaryPlan(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan
    ) throws(StagingFault) -> EntityPlan? {
        guard let mapping = plan.mapping, value.kind == .object, case .record(let entity) = self.plan.mappings[mapping],
            entity.nesting?.isCollection ?? false
        else { return nil }
        return entity
    }

    private mutating func stageToOne(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ linkSource: LinkSource
    ) throws(StagingFault) {
        guard case .column(let column) = plan.form else { return }
        if plan.isNone(value) {
            try assertLink(linkSource.entity, linkSource.row, column, nil, linkSource.sourceOffset)
        } else if let destination = try destination(value, plan, linkSource) {
            // Both keys of one record may name such a link.
            if destination == linkSource.row, plan.destinationTable == linkSource.table { staged.note(.links) }
            try assertLink(linkSource.entity, linkSource.row, column, destination, linkSource.sourceOffset)
            try noteListPositions(plan, linkSource, destination)
        }
    }

    private mutating func stageElement(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ linkSource: LinkSource, _ mapped: MappedRecord? = nil
    ) throws(StagingFault) {
        guard let destination = try destination(value, plan, linkSource, mapped) else { return }
        // Both keys of one record may name such a link.
        if destination == linkSource.row, plan.destinationTable == linkSource.table { staged.note(.links) }
        try noteListPositions(plan, linkSource, destination)
        switch plan.form {
        case .column: return
        case .destinationColumn(let column):
            try assertLink(plan.destinationTable, destination, column, linkSource.row, linkSource.sourceOffset)
        case .linkTable(let table, let isReversed):
            try assertLink(
                table, source: isReversed ? destination : linkSource.row,
                destination: isReversed ? linkSource.row : destination, linkSource.sourceOffset)
        }
    }

    // MARK: - Destinations

    /// Returns the row that a relationship's value names; nil when the value was rejected or skipped.
    private mutating func destination(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ linkSource: LinkSource,
        _ mapped: MappedRecord? = nil
    ) throws(StagingFault) -> Int? {
        let unretained = self.plan.unretainedEntities[plan.relationship.destination]
        return try unretained.withoutCounting { destination throws(StagingFault) in
            var row: Int?
            var isDeclined = false
            try rejectingFaults { context throws(StagingFault) in
                guard value.kind == .object || mapped != nil else {
                    return row = try context.stageBareKey(value, plan.relationship, of: linkSource, to: destination)
                }
                var record = mapped ?? MappedRecord(value: value, entity: destination)
                if record.entity.needsHolder { record.holder = try context.holder(linkSource, plan) }
                if mapped == nil, let mapping = plan.mapping {
                    guard let chosen = try context.plan(of: mapping, for: value) else { return isDeclined = true }
                    record = MappedRecord(value: value, entity: chosen)
                    if chosen.needsHolder { record.holder = try context.holder(linkSource, plan) }
                }
                row = try context.stage(record)
            }
            // The smallest object around the fault is rejected; its parent loses only the link. A stored link stays.
            if row == nil, !isDeclined, plan.relationship.isToMany, plan.relationship.assignment == .replace {
                staged.note(.links)
            }
            return row
        }
    }

    private mutating func stageBareKey(
        _ value: JSONValue, _ relationship: Relationship, of linkSource: LinkSource, to destination: EntityPlan
    ) throws(StagingFault) -> Int {
        let cells = try readKey(value, relationship, of: linkSource.entity, to: destination)
        defer { scratch.pop(destination.attributes.count) }
        let row = try findOrAdd(
            destination, identity: cells, offset: textOffset(of: value), relationship.missing.origin)
        noteInexactKey(destination, destination.identity[0])
        return row
    }

    /// Converts a bare key to a row's worth of cells on the stack, which the caller pops, and returns their index.
    ///
    /// - Parameter source: the entity of the record that has the key.
    mutating func readKey(
        _ value: JSONValue, _ relationship: Relationship, of source: Int, to destination: EntityPlan
    ) throws(StagingFault) -> Int {
        guard value.kind != .array, !value.isNull else {
            throw fault(
                .invalidValue,
                "\(relationship.name) of \(plan.entities[source].name) takes objects and bare keys"
                    + "\(relationship.isToMany ? ", or an array of those" : ""), not \(value.kind.phrase) here.",
                value, destination)
        }
        guard !relationship.isOwned else {
            throw fault(
                .invalidValue,
                "A bare key cannot name an object of \(destination.name), which lives in the "
                    + "\(plan.entities[source].name) whose record has it. Send an object.", value, destination)
        }
        guard destination.identity.count == 1 else {
            let why = destination.identity.isEmpty ? "has no identity" : "has an identity of several attributes"
            throw fault(
                .invalidValue,
                "A bare key cannot name an object of \(destination.name), which \(why). Send an object.",
                value, destination)
        }
        let column = destination.identity[0]
        let meant = try converted(value, column, destination) ?? value
        let key = try convertedKey(meant, value, column, destination)
        let cells = scratch.push(destination.attributes.count)
        scratch[cells + column] = key
        return cells
    }

    // MARK: - Assertions about links

    /// Asserts a to-one link, of the record's own row or of the other side's.
    ///
    /// - Parameter entity: index of the object's entity.
    @inline(__always)
    private mutating func assertLink(
        _ entity: Int, _ row: Int, _ column: Int, _ destination: Int?, _ sourceOffset: UInt32
    ) throws(StagingFault) {
        try plan.unretainedEntities[entity].withoutCounting { entity throws(StagingFault) in
            if entity.hasPairs, entity.layout.link(atColumn: column).oneToOneColumn != nil {
                try take(MemoryLayout<StagedPair>.stride)
                staged.pairs.append(
                    StagedPair(
                        entity: entity.index, row: row, column: column, partner: destination,
                        sourceOffset: sourceOffset))
            } else {
                let link =
                    destination.map { Cell.object(row: $0, sourceOffset: sourceOffset) }
                    ?? .unlinked(sourceOffset: sourceOffset)
                if StagedContent.isContested(link, in: staged.tables.cell(entity.index, row, column)) {
                    staged.note(.links)
                }
            }
        }
    }

    private mutating func assertLink(
        _ table: Int, source: Int, destination: Int, _ sourceOffset: UInt32
    ) throws(StagingFault) {
        let link = StagedLink(source: UInt32(source), destination: UInt32(destination), sourceOffset: sourceOffset)
        try take(2 * MemoryLayout<StagedLink>.stride)
        staged.links[table].append(link)
        guard plan.layout.linkTables[table].isSymmetric, source != destination else { return }
        staged.links[table].append(
            StagedLink(source: link.destination, destination: link.source, sourceOffset: sourceOffset))
    }

    /// Notes the link's list positions at this side and at the other side.
    @inline(__always)
    private mutating func noteListPositions(
        _ plan: EntityPlan.RelationshipPlan, _ linkSource: LinkSource, _ destination: Int
    ) throws(StagingFault) {
        if plan.relationship.isOrdered {
            try note(
                StagedListPosition(
                    entity: linkSource.table, relationship: plan.index, row: linkSource.row, element: destination,
                    isNamedByList: true, sourceOffset: linkSource.sourceOffset))
        }
        if let inverse = plan.orderedInverse {
            try note(
                StagedListPosition(
                    entity: plan.destinationTable, relationship: inverse, row: destination, element: linkSource.row,
                    isNamedByList: false, sourceOffset: linkSource.sourceOffset))
        }
    }

    private mutating func note(_ position: StagedListPosition) throws(StagingFault) {
        try take(2 * MemoryLayout<StagedListPosition>.stride)
        staged.listPositions.append(position)
    }
}

extension MissingDestination {
    fileprivate var origin: RowOrigin {
        switch self {
        case .stub: .stub
        case .ignore: .mayBeMissing
        case .fail: .mustExist
        }
    }
}

/// The record that asserts a link: its row, and its offset in the text.
struct LinkSource {
    /// Index of the record's entity.
    let entity: Int
    /// Index of the entity whose table has the row.
    let table: Int
    let row: Int
    let sourceOffset: UInt32
    /// The position, from 0, of the relationship's value that is read.
    var position: UInt32 = 0

    init(entity: EntityPlan, row: Int, sourceOffset: UInt32) {
        self.entity = entity.ownIndex
        table = entity.index
        self.row = row
        self.sourceOffset = sourceOffset
    }
}
