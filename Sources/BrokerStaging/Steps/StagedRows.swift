internal import BrokerJSON
package import BrokerModel

/// The rows that one worker staged for one collection of a job, and its records' assertions about links, not yet
/// resolved. ``StagedJobRows`` unites it with the job's other parts.
// One thread at a time uses it.
package final class StagedPart: @unchecked Sendable {
    fileprivate var content: StagedContent
    /// Its own, and those of the parts that were added to it, in payload order.
    fileprivate var collections: ShortList<JobCollection>
    /// Units of patterns and tombstones.
    fileprivate var patternWork: Int
    fileprivate var warnings: [Warning]
    /// The memory that cells point at, besides the document.
    fileprivate var memory: ShortList<ArenaMemory>

    /// - Parameter context: it stages no more.
    init(_ context: consuming StagingContext) {
        collections = ShortList(context.collection)
        patternWork = context.arena.workBudget.spent
        warnings = context.warnings
        memory = context.arena.memory.map { ShortList($0) } ?? []
        content = context.staged
    }
}

/// The united result of a job's collections: rows, links and rejections. Immutable, so any thread may read it; it owns
/// the memory that its cells point at.
package final class StagedRows: Sendable {
    /// By entity index; nil without rows of the entity.
    package let tables: [FrozenTable?]
    /// By link table index; a link may occur twice.
    package let links: [[StagedLink]]
    /// Each relationship of an object at most once.
    package let replacements: [StagedReplacement]
    /// Positions in ordered relationships: by object and relationship, in list order.
    package let listPositions: [StagedListPosition]
    /// The listed rejections, with their paths, in payload order.
    package let rejected: [Fault]
    /// By entity name, the count of rejections that are not listed.
    package let unlistedRejections: [String: Int]
    package let warnings: [Warning]
    /// Rows of all entities.
    package var rowCount: Int { tables.reduce(0) { $0 + ($1?.rowCount ?? 0) } }
    /// Why the rows must not be merged: an ``Interpreter`` applies the records. Nil when merging has the same result, unless
    /// the merge meets something else.
    package let reason: InterpretationReason?
    /// Records are skipped whose unique values others have at their turn, so rows with such values are merged in the order
    /// of the text.
    package let skipsRecords: Bool
    /// The rows of each operation's records; nil unless the job asks for its objects.
    package let payload: StagedPayload?
    /// The rows may be merged in one batch with the rows of other jobs: their result depends only on the values of the
    /// objects that they name.
    package let isBatchable: Bool
    /// The staged collections, in payload order.
    let collections: ShortList<JobCollection>
    /// Units of patterns and tombstones.
    private let patternWork: Int
    private let memory: ShortList<ArenaMemory>

    /// - Parameter part: all parts, united; this call consumes it.
    init(_ part: StagedPart) {
        part.content.resolveLinks()
        (replacements, links, listPositions) = (
            part.content.replacements, part.content.links, part.content.listPositions
        )
        reason = part.content.reason
        skipsRecords = part.content.policy == .skip
        tables = part.content.tables.frozen()
        rejected = part.content.rejections.located(in: part.collections[0].document)
        unlistedRejections = part.content.rejections.unlisted
        warnings = part.warnings
        payload = part.content.payload
        collections = part.collections
        patternWork = part.patternWork
        memory = part.memory
        isBatchable =
            reason == nil && replacements.isEmpty && listPositions.isEmpty && payload == nil
            && tables.allSatisfy { $0?.isBatchable ?? true }
    }

    /// Returns the fault with the path, as a JSON Pointer into the message, of the value at that offset.
    package func located(_ fault: Fault, at offset: Int) -> Fault {
        ValuePaths.located(fault, at: offset, in: collections[0].document)
    }

    /// The cost of reading the records again: bytes of text, and the work of patterns and tombstones.
    package var readingWork: Int { collections.reduce(patternWork) { $0 + $1.textBytes } }
}

/// Unites the separately staged parts of one job into the rows of one job: one object per identity, later values win.
package enum StagedJobRows {
    /// - Parameter parts: the staged collections of the job, in payload order; not empty. This call consumes them.
    package static func unite(_ parts: [StagedPart], _ plan: StagingPlan) -> StagedRows {
        precondition(!parts.isEmpty, "a job has at least one collection")
        let whole = parts[0]
        for part in parts.dropFirst() { PartTranslation(of: part, into: whole, plan).add() }
        return StagedRows(whole)
    }
}

/// Adds a later part to the first one and translates its row numbers.
private struct PartTranslation {
    private let plan: StagingPlan
    private let part: StagedPart
    private let whole: StagedPart
    /// By entity index and the part's row, the row of the first part.
    private let rows: [[Int]]

    init(of part: StagedPart, into whole: StagedPart, _ plan: StagingPlan) {
        self.plan = plan
        self.part = part
        self.whole = whole
        rows = (0..<part.content.tables.count).map { entity in
            guard part.content.tables.exists(entity) else { return [] }
            return (0..<part.content.tables[entity].pointee.rowCount).map { Self.add($0, of: part, to: whole, entity) }
        }
    }

    /// Adds the row without its cells, and returns its number in the first part.
    private static func add(_ row: Int, of part: StagedPart, to whole: StagedPart, _ entity: Int) -> Int {
        let table = part.content.tables[entity], target = whole.content.tables[entity]
        let identity = table.pointee.hasIdentity(row) ? UnsafePointer(table.pointee.row(row)) : nil
        let naming = table.pointee.namings[row]
        let merged = target.pointee.findOrAdd(
            identity: identity, offset: Int(naming.offset), origin: naming.origin,
            concreteEntity: whole.unitedEntity(of: row, in: table, target))
        let isKeyFirst =
            whole.content.policy == .skip && naming.origin == .record
            && target.pointee.namings[merged].offset != naming.offset
        if isKeyFirst, table.pointee.entity.hasUniqueLists { whole.content.note(.unique) }
        if target.pointee.namings[merged].isRepeated {
            if table.pointee.entity.modified != nil { whole.content.note(.modified) }
            if table.pointee.entity.hasUniqueLists { whole.content.note(.unique) }
        }
        if table.pointee.entity.modified != nil {
            let modified = table.pointee.modified[row]
            // A bare key of the part is no record of the object.
            if modified.kind != .absent { target.pointee.noteRecord(merged, modified: modified) }
            if table.pointee.linksElsewhere[row] { target.pointee.noteLinksElsewhere(merged) }
        }
        if naming.namesLinks { target.pointee.noteLinks(merged) }
        for keyEntity in table.pointee.keyEntities[row] ?? [] { target.pointee.noteKey(merged, of: keyEntity) }
        return merged
    }

    func add() {
        for entity in rows.indices where !rows[entity].isEmpty { addCells(entity) }
        for (index, table) in plan.layout.linkTables.enumerated() {
            whole.content.links[index] += part.content.links[index].map { link in
                var link = link
                link.source = UInt32(rows[table.source][Int(link.source)])
                link.destination = UInt32(rows[table.destination][Int(link.destination)])
                return link
            }
        }
        for var pair in part.content.pairs {
            let destination = plan.layout.entities[pair.entity].link(atColumn: pair.column).destination
            pair.row = rows[pair.entity][pair.row]
            pair.partner = pair.partner.map { rows[destination][$0] }
            whole.content.pairs.append(pair)
        }
        for var replacement in part.content.replacements {
            replacement.row = rows[replacement.entity][replacement.row]
            whole.content.replacements.append(replacement)
        }
        for var position in part.content.listPositions {
            position.row = rows[position.entity][position.row]
            position.element = rows[plan.destinationTable(of: position)][position.element]
            whole.content.listPositions.append(position)
        }
        whole.content.rejections.add(part.content.rejections)
        if let payload = part.content.payload { whole.content.payload?.add(payload, translating: rows) }
        whole.content.note(part.content.reason)
        addWarnings()
        whole.memory.append(contentsOf: part.memory)
        whole.collections.append(contentsOf: part.collections)
        whole.patternWork += part.patternWork
    }

    /// Adds the cells. For attributes the later part wins.
    private func addCells(_ entity: Int) {
        let layout = plan.layout.entities[entity]
        let (table, requiredColumns) = (
            whole.content.tables[entity], whole.content.tables[entity].pointee.entity.requiredColumns
        )
        for (row, target) in rows[entity].enumerated() {
            let cells = part.content.tables.cell(entity, row, 0)
            let own = whole.content.tables.cell(entity, target, 0)
            if table.pointee.namings[target].isRepeated,
                requiredColumns.contains(where: { own[$0].kind == .absent && cells[$0].kind != .absent })
            {
                whole.content.note(.required)
            }
            let extra = table.pointee.entity.extraColumn
            if extra >= 0, own[extra].kind != .absent, table.pointee.namings[target].isRepeated,
                !own[extra].isSame(as: cells[extra])
            {
                whole.content.note(.extra)
            }
            for column in 0..<layout.attributeCount where cells[column].kind != .absent { own[column] = cells[column] }
            for column in layout.attributeCount..<layout.columnCount where cells[column].kind != .absent {
                var link = cells[column]
                if link.kind == .object {
                    let destination = layout.link(atColumn: column).destination
                    link = .object(row: rows[destination][link.row], sourceOffset: link.sourceOffset)
                }
                if StagedContent.isContested(link, in: own + column) { whole.content.note(.links) }
            }
        }
    }

    /// Adds the counts of unknown keys; each key has one warning, in the order of first occurrence.
    private func addWarnings() {
        struct WarningKey: Hashable {
            let code: Warning.Code
            let entity: String
            let key: [UInt8]?
        }
        func key(of warning: Warning) -> WarningKey {
            WarningKey(code: warning.code, entity: warning.entity, key: warning.key.map { Array($0.utf8) })
        }
        guard !part.warnings.isEmpty else { return }
        var indices = Dictionary(
            whole.warnings.enumerated().map { (key(of: $1), $0) }, uniquingKeysWith: { first, _ in first })
        for warning in part.warnings {
            if let index = indices[key(of: warning)] {
                whole.warnings[index].add(warning)
            } else {
                indices[key(of: warning)] = whole.warnings.count
                whole.warnings.append(warning)
            }
        }
    }
}

extension StagedPart {
    /// Returns the concrete entity of an object that several parts name.
    fileprivate func unitedEntity(
        of row: Int, in table: UnsafeMutablePointer<StagedTable>, _ target: UnsafeMutablePointer<StagedTable>
    ) -> Int {
        let concreteEntity = table.pointee.concreteEntity(of: row)
        guard content.plan.entities[concreteEntity].hierarchy != nil, table.pointee.hasIdentity(row),
            let known = target.pointee.find(identity: table.pointee.row(row), concreteEntity: concreteEntity)
        else { return concreteEntity }
        if table.pointee.namings[row].origin.makesNothing { return target.pointee.concreteEntity(of: known) }
        let isMade = !target.pointee.namings[known].origin.makesNothing
        if isMade, target.pointee.concreteEntity(of: known) != concreteEntity { content.note(.entity) }
        return concreteEntity
    }
}

extension JobCollection {
    /// Stages the collection in a context of its own. Pure: reads no database and shares no state, so it runs on any
    /// thread.
    ///
    /// - Parameters:
    ///   - allowance: asked for the memory of the rows; nil grants all.
    /// - Throws: the first fault in the text, with its path, when the policy is `fail`; `noRoom` when the allowance
    ///   refuses the memory.
    package func stage(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: (any StagingAllowance)? = nil
    ) throws(StagingRefusal) -> StagedPart {
        var memory = StagingMemory(allowance)
        guard memory.take(StagingContext.memory(plan)) else { throw .noRoom }
        var context = StagingContext(plan, self, policy, memory)
        do throws(StagingFault) {
            for operation in operations { try context.stage(operation) }
        } catch {
            guard case .invalid(let fault, let offset) = error else { throw .noRoom }
            throw .fault(ValuePaths.located(fault, at: offset, in: document))
        }
        return StagedPart(context)
    }

    /// Stages the collection as the only one of its job.
    package func rows(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: (any StagingAllowance)? = nil
    ) throws(StagingRefusal) -> StagedRows {
        StagedRows(try stage(plan, policy, allowance))
    }
}

/// The operations of a job without their parsed content, so that they may go from thread to thread.
package struct StepActions: Sendable {
    private let actions: [(action: StepAction, pointer: String)]

    package init(_ plans: some Sequence<StepPlan>) { actions = plans.map { ($0.action, $0.pointer) } }

    /// The steps with their rows.
    ///
    /// - Parameters:
    ///   - parts: those of all steps, one after the other.
    ///   - counts: the number of parts of each step.
    package func united(
        _ parts: [Result<StagedPart, StagingRefusal>], _ counts: [Int], _ plan: StagingPlan
    ) throws(StagingRefusal) -> [StagedStep] {
        var steps: [StagedStep] = []
        var rest = parts[...]
        for (step, count) in zip(actions, counts) {
            var own: [StagedPart] = []
            for part in rest.prefix(count) { own.append(try part.get()) }
            rest = rest.dropFirst(count)
            let rows = own.isEmpty ? nil : StagedJobRows.unite(own, plan)
            steps.append(StagedStep(action: step.action, rows: rows, pointer: step.pointer))
        }
        return steps
    }
}

/// One step of a job, staged. Steps are applied in order. A value, so that any store can apply it.
package struct StagedStep: Sendable {
    package let action: StepAction
    /// Nil when the step has no rows.
    package let rows: StagedRows?
    /// Position of the step in the message: a JSON Pointer.
    package let pointer: String

    package init(action: StepAction, rows: StagedRows?, pointer: String = "") {
        self.action = action
        self.rows = rows
        self.pointer = pointer
    }
}

extension StepPlan {
    package func staged(_ rows: StagedRows?) -> StagedStep { StagedStep(action: action, rows: rows, pointer: pointer) }
}
