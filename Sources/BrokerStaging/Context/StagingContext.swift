internal import BrokerJSON
internal import BrokerModel

/// Turns the records of one collection of one job into rows, on one worker; reads no database and shares no state.
///
/// ``finish()`` consumes it and hands over its contents.
///
/// ```
/// record ─scan─▶ slots ─convert─▶ scratch cells ─find or add─▶ row ─▶ assertions about links, nested records
/// ```
///
/// Invariants
/// 1. A record's attributes are all converted before its row is touched: a bad record leaves no trace.
/// 2. Records are staged in the order in which they begin in the text, a parent before its nested records, so that
///    attributes may overwrite each other. A rejected parent takes its nested records with it.
/// 3. Assertions about links have the offset of their record, and are resolved at the end.
struct StagingContext: ~Copyable {
    let plan: StagingPlan
    let collection: JobCollection
    let policy: InvalidRecordPolicy
    var arena = ByteArena()
    /// One table per entity that was met.
    let tables: TableSet
    var links: [[StagedLink]]
    var pairs: [StagedPair] = []
    var replacements: [StagedReplacement] = []
    var listPositions: [StagedListPosition] = []
    var rejections = RejectionList()
    var scanner: RecordScanner
    /// Values that their attributes do not hold as they were sent.
    var valueWarnings = ValueWarnings()
    /// The `modified` value of the record being converted with all its digits, if its attribute stores only some.
    var wholeModified: Cell?
    /// A row's worth of cells for each record being staged, innermost last.
    var scratch: ScratchStack
    var memory: StagingMemory
    /// Offset of the current operation's `json`.
    var operationOffset: UInt32 = 0
    /// The object that the operation works on, if the operation names one.
    var target: StagedTarget?
    /// Why the records have to be applied one after the other; nil when sets of their rows have the same result.
    private(set) var reason: InterpretationReason?
    /// While a rewritten record is staged, the range of the original record.
    var rewrittenAt: Range<Int>?
    /// Path parameters for the operation's own records.
    var parameters: PathParameters?
    /// Nil unless the job asks for its objects.
    var payload: StagedPayload?

    /// Room is made for so many rows or more.
    private static let reservedRows = 16
    /// Limit on the room in bytes: more rows make their own.
    private static let reservedBytes = 1 << 20

    init(
        _ plan: StagingPlan, _ collection: JobCollection, _ policy: InvalidRecordPolicy, _ memory: StagingMemory,
        _ space: StagingSpace
    ) {
        self.plan = plan
        self.collection = collection
        self.policy = policy
        self.memory = memory
        tables = TableSet(plan)
        links = Array(repeating: [], count: plan.layout.linkTables.count)
        scanner = RecordScanner(nodeCount: plan.nodeCount, space.slots)
        scratch = ScratchStack(space.cells)
        payload = collection.keepsPayload ? StagedPayload() : nil
        arena.workBudget = .staging(collection.textBytes, of: collection.document.text.count)
    }

    /// Memory in bytes of a context besides its counted rows: objects, the first chunks of tables and indexes, and an
    /// entry for each entity and each link table of the model. An estimate for steps of one row.
    static func memory(_ plan: StagingPlan) -> Int {
        let entry = MemoryLayout<UnsafeRawPointer>.stride
        return 3_072 + plan.entities.count * entry + plan.layout.linkTables.count * 2
            * MemoryLayout<[StagedLink]>.stride
    }

    mutating func stage(_ operation: StagingOperation) throws(StagingRefusal) {
        let entity = plan.entities[operation.entity]
        let json = operation.json
        beginOperation(operation)
        switch operation.action {
        case .process:
            reserveRows(entity, for: json)
            try process(json, "json must be an object or an array of objects", entity: entity) {
                context, record throws(StagingRefusal) in
                try context.processRecord(MappedRecord(value: record, entity: entity))
            }
        case .map(let mapping, let parameters): try map(json, mapping, parameters)
        case .route(let tree): try route(json, tree)
        case .name: try rejectingFaults { context throws(StagingFault) in try context.name(json, entity) }
        case .change(let key):
            try rejectingFaults { context throws(StagingFault) in try context.change(json, key, entity) }
        case .relate(let key, let relationship):
            try rejectingFaults { context throws(StagingFault) in try context.relate(json, key, entity, relationship) }
        }
    }

    mutating func beginOperation(_ operation: StagingOperation) {
        operationOffset = UInt32(operation.json.offset)
        if let table = operation.objectTable(plan) { beginPayload(table) } else { beginMixedPayload() }
    }

    /// Stages the records that a mapping reads.
    ///
    /// - Parameter parameters: values for records that lack them.
    mutating func map(_ json: JSONValue, _ mapping: Int, _ parameters: PathParameters?) throws(StagingRefusal) {
        self.parameters = parameters
        defer { self.parameters = nil }
        if case .record(let entity) = plan.mappings[mapping] { reserveRows(entity, for: json) }
        try process(json, "What a mapping reads is an object or an array of objects") {
            context, record throws(StagingRefusal) in
            try context.mapRecord(record, mapping)
        }
    }

    /// Stages the `json` of one operation: a record, or an array of records.
    @inline(__always)
    private mutating func process(
        _ json: JSONValue, _ expectation: String, entity: EntityPlan? = nil,
        _ body: (inout StagingContext, JSONValue) throws(StagingRefusal) -> Void
    ) throws(StagingRefusal) {
        switch json.kind {
        case .object: try body(&self, json)
        case .array:
            for record in json.elements { try body(&self, record) }
        default:
            let fault = Fault(.invalidValue, "\(expectation), not \(json.kind.phrase).", entity: entity?.name)
            throw .fault(located(fault, json.offset))
        }
    }

    /// Makes room for the rows of an array of records, as if all had as many values as the first one.
    private func reserveRows(_ entity: EntityPlan, for array: JSONValue) {
        var elements = array.elements
        guard let first = elements.next() else { return }
        let count = array.elementCount / first.elementCount
        guard count >= Self.reservedRows else { return }
        tables[entity.index].pointee.reserve(min(count, Self.reservedBytes / entity.rowByteCount))
    }

    @inline(__always)
    private mutating func processRecord(_ record: MappedRecord) throws(StagingRefusal) {
        let isStaged = try rejectingFaults { context throws(StagingFault) in try context.stageOwn(record) }
        if !isStaged { _ = try rejectingFaults { context throws(StagingFault) in try context.notePayload(nil) } }
    }

    /// Stages the records of one value of a mapping; each record at fault is rejected by itself.
    private mutating func mapRecord(_ value: JSONValue, _ mapping: Int) throws(StagingRefusal) {
        var chosen: EntityPlan?
        try rejectingFaults { context throws(StagingFault) in chosen = try context.plan(of: mapping, for: value) }
        guard let entity = chosen else {
            _ = try rejectingFaults { context throws(StagingFault) in try context.notePayload(nil) }
            return
        }
        guard entity.nesting?.isCollection ?? false, value.kind == .object else {
            return try processRecord(MappedRecord(value: value, entity: entity))
        }
        for (key, record) in value.members {
            try processRecord(MappedRecord(value: record, entity: entity, nestedKey: key))
        }
    }

    /// Stages a record or a value as a whole. If it is at fault, it is rejected or the job fails.
    ///
    /// - Returns: whether it was staged.
    @inline(__always)
    @discardableResult
    private mutating func rejectingFaults(
        _ body: (inout StagingContext) throws(StagingFault) -> Void
    ) throws(StagingRefusal) -> Bool {
        do throws(StagingFault) {
            try body(&self)
            return true
        } catch {
            switch error {
            case .skipped: return false
            case .noRoom: throw .noRoom
            case .invalid(let fault, let offset):
                guard policy == .skip else { throw .fault(located(fault, offset)) }
                guard reject(fault, at: offset) else { throw .noRoom }
                return false
            }
        }
    }

    /// Notes that the records have to be applied one after the other; the first reason counts.
    mutating func note(_ other: InterpretationReason?) { reason = reason ?? other }

    /// Adds a rejection.
    ///
    /// - Returns: false when there is no memory for it.
    mutating func reject(_ fault: Fault, at offset: Int) -> Bool {
        guard !rejections.isListing || memory.take(RejectionList.listedBytes) else { return false }
        rejections.add(fault, at: offset)
        return true
    }

    /// Accounts for memory of the job's rows.
    @inline(__always)
    mutating func take(_ bytes: Int) throws(StagingFault) {
        guard memory.take(bytes) else { throw .noRoom }
    }

    private func located(_ fault: Fault, _ offset: Int) -> Fault {
        ValuePaths.located(fault, at: offset, in: collection.document)
    }

    /// Hands over the staged contents.
    consuming func finish() -> StagedPart { StagedPart(self) }
}

/// The reason why a record, or a bare key, is not staged.
enum StagingFault: Error {
    /// It is invalid; `offset` is the value's offset in the text.
    // Boxed, because a thrown value takes stack space in every call on the way, even when nothing is thrown.
    indirect case invalid(Fault, offset: Int)
    /// A hook or a mapping declines it, or it deletes its object. This is not a fault.
    case skipped
    /// No memory is left: the staging ends.
    case noRoom
}

extension StagingContext {
    /// Stages the values that the routes lead to.
    mutating func route(_ payload: JSONValue, _ tree: RouteTree) throws(StagingRefusal) {
        try tree.forEachPart(of: payload) { value, target throws(StagingRefusal) in
            try map(value, target.mapping!, target.parameters)
        }
    }
}

extension StagingContext {
    /// Notes the link's list positions at this side and at the other side.
    @inline(__always)
    mutating func noteListPositions(
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
        listPositions.append(position)
    }
}

extension StagingContext {
    /// Begins an operation on objects of one table.
    mutating func beginPayload(_ table: Int) { payload?.begin(table) }

    /// Begins an operation whose objects may be in any table.
    mutating func beginMixedPayload() { payload?.begin(nil) }

    /// Notes the object of one of the operation's own records; nil when the record has none.
    @inline(__always)
    mutating func notePayload(_ object: (table: Int, row: Int)?) throws(StagingFault) {
        guard payload != nil else { return }
        try take(StagedPayload.bytesPerRecord)
        payload?.note(object)
    }

}

extension StagingContext {
    /// Returns the plan that reads a value; a `select` chooses it by the value.
    ///
    /// - Returns: nil for a record that the mapping declines.
    /// - Throws: `unmappable` when no case fits and the mapping has no `otherwise`.
    mutating func plan(of mapping: Int, for value: JSONValue) throws(StagingFault) -> EntityPlan? {
        var mapping = mapping
        var choices = 0
        while true {
            // The model's mappings always end in a record; a hook may send the value around a circle.
            let chosen = choices < plan.mappings.count ? try chosen(by: mapping, for: value) : nil
            choices += 1
            switch chosen {
            case .mapping(let other)? where other != mapping:
                mapping = other
                continue
            case .decline?: return nil
            default: break
            }
            switch plan.mappings[mapping] {
            case .record(let entity): return entity
            case .select(let select):
                let selector = select.value(in: value)
                if let chosen = selector.flatMap(select.mapping) {
                    mapping = chosen
                    continue
                }
                switch select.otherwise {
                case .mapping(let other): mapping = other
                case .decline: return nil
                case .refuse: throw refusal(of: select, value, selector)
                }
            }
        }
    }

    private func refusal(of select: SelectPlan, _ value: JSONValue, _ selector: JSONValue?) -> StagingFault {
        let key = "\"\(select.key.joined(separator: "."))\""
        let saw =
            switch selector?.kind {
            case nil where value.kind != .object: "This is \(value.kind.phrase) and no record"
            case nil: "The record has no value at \(key)"
            case .object, .array: "\(key) is \(selector!.kind.phrase)"
            default: "\(key) is \(selector!.quotedBriefly)"
            }
        return fault(
            .unmappable,
            "\(saw), by which the mapping \"\(select.name)\" chooses; its cases are \(select.summary). Send one of those, or "
                + "give the mapping an \"otherwise\" (null declines such records).", at: textOffset(of: value), nil)
    }
}
