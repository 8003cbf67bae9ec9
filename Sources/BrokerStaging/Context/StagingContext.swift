internal import BrokerJSON
internal import BrokerModel

/// Turns the records of one collection of one job into rows, on one worker; reads no database and shares no state.
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
    var staged: StagedContent
    var arena = ByteArena()
    var scanner: RecordScanner
    /// A row's worth of cells for each record being staged, innermost last.
    var scratch = ScratchStack()
    var memory: StagingMemory
    /// Values that their attributes do not hold as they were sent.
    var valueWarnings = ValueWarnings()
    /// The object that the operation works on, if the operation names one.
    var target: StagedTarget?
    /// While a rewritten record is staged, the range of the original record.
    var rewrittenAt: Range<Int>?

    /// Room is made for so many rows or more.
    private static let reservedRows = 16
    /// Limit on the room in bytes: more rows make their own.
    private static let reservedBytes = 1 << 20

    init(
        _ plan: StagingPlan, _ collection: JobCollection, _ policy: InvalidRecordPolicy, _ memory: StagingMemory
    ) {
        self.plan = plan
        self.collection = collection
        self.policy = policy
        self.memory = memory
        staged = StagedContent(plan, policy, keepsPayload: collection.keepsPayload)
        scanner = RecordScanner(nodeCount: plan.nodeCount)
        arena.workBudget = .staging(collection.textBytes, of: collection.document.text.count)
    }

    /// Where unknown keys are refused, none is in `_extra`.
    var warnings: [Warning] {
        scanner.warnings().filter { !collection.refusesUnknownKeys || $0.code != .extraKey }
            + valueWarnings.warnings(plan.model, in: collection.document)
    }

    /// Memory in bytes of a context besides its counted rows: objects, the first chunks of tables and indexes, and an
    /// entry for each entity and each link table of the model. An estimate for steps of one row.
    static func memory(_ plan: StagingPlan) -> Int {
        let entry = MemoryLayout<UnsafeRawPointer>.stride
        return 3_072 + plan.entities.count * entry + plan.layout.linkTables.count * 2
            * MemoryLayout<[StagedLink]>.stride
    }

    /// Accounts for memory of the job's rows.
    @inline(__always)
    mutating func take(_ bytes: Int) throws(StagingFault) {
        guard memory.take(bytes) else { throw .noRoom }
    }

    // MARK: - Operations

    mutating func stage(_ operation: StagingOperation) throws(StagingFault) {
        let entity = plan.entities[operation.entity]
        let json = operation.json
        staged.payload?.begin()
        switch operation.action {
        case .process:
            reserveRows(entity, for: json)
            try process(json, "json must be an object or an array of objects", entity: entity) {
                context, record throws(StagingFault) in
                try context.process(MappedRecord(value: record, entity: entity), nil)
            }
        case .map(let mapping, let parameters): try map(json, mapping, parameters)
        case .route(let tree):
            try tree.forEachPart(of: json) { value, target throws(StagingFault) in
                try map(value, target.mapping!, target.parameters)
            }
        case .name: try name(json, entity)
        case .identify(let isRecord):
            try rejectingFaults { context throws(StagingFault) in
                if isRecord {
                    try context.name(objectOf: json, entity)
                } else {
                    try context.name(key: json, entity)
                }
            }
        case .change(let key):
            try rejectingFaults { context throws(StagingFault) in try context.change(json, key, entity) }
        case .adjust(let key, let adjustment):
            try rejectingFaults { context throws(StagingFault) in try context.adjust(json, key, adjustment, entity) }
        case .relate(let key, let relationship):
            try rejectingFaults { context throws(StagingFault) in try context.relate(json, key, entity, relationship) }
        }
    }

    /// Stages the records that a mapping reads.
    ///
    /// - Parameter parameters: values for records that lack them.
    private mutating func map(
        _ json: JSONValue, _ mapping: Int, _ parameters: PathParameters?
    ) throws(StagingFault) {
        if case .record(let entity) = plan.mappings[mapping] { reserveRows(entity, for: json) }
        try process(json, "What a mapping reads is an object or an array of objects") {
            context, record throws(StagingFault) in
            try context.map(record: record, mapping, parameters)
        }
    }

    /// Stages the `json` of one operation: a record, or an array of records.
    @inline(__always)
    private mutating func process(
        _ json: JSONValue, _ expectation: String, entity: EntityPlan? = nil,
        _ body: (inout StagingContext, JSONValue) throws(StagingFault) -> Void
    ) throws(StagingFault) {
        switch json.kind {
        case .object: try body(&self, json)
        case .array:
            for record in json.elements { try body(&self, record) }
        default:
            let fault = Fault(.invalidValue, "\(expectation), not \(json.kind.phrase).", entity: entity?.name)
            throw .invalid(fault, offset: json.offset)
        }
    }

    /// Makes room for the rows of an array of records, as if all had as many values as the first one.
    private func reserveRows(_ entity: EntityPlan, for array: JSONValue) {
        var elements = array.elements
        guard let first = elements.next() else { return }
        let count = array.elementCount / first.elementCount
        guard count >= Self.reservedRows else { return }
        staged.tables[entity.index].pointee.reserve(min(count, Self.reservedBytes / entity.rowByteCount))
    }

    /// Stages a record of the operation's own, and notes its object.
    @inline(__always)
    private mutating func process(
        _ record: MappedRecord, _ parameters: PathParameters?
    ) throws(StagingFault) {
        let isStaged = try rejectingFaults { context throws(StagingFault) in
            let row = try context.stage(record, parameters)
            try context.notePayload((record.entity.index, row))
        }
        if !isStaged { try notePayload(nil) }
    }

    /// Stages the records of one value of a mapping; each record at fault is rejected by itself.
    private mutating func map(
        record value: JSONValue, _ mapping: Int, _ parameters: PathParameters?
    ) throws(StagingFault) {
        var chosen: EntityPlan?
        try rejectingFaults { context throws(StagingFault) in chosen = try context.plan(of: mapping, for: value) }
        guard let entity = chosen else { return try notePayload(nil) }
        guard entity.nesting?.isCollection ?? false, value.kind == .object else {
            return try process(MappedRecord(value: value, entity: entity), parameters)
        }
        for (key, record) in value.members {
            try process(MappedRecord(value: record, entity: entity, nestedKey: key), parameters)
        }
    }

    /// Notes the object of one of the operation's own records; nil when the record has none.
    @inline(__always)
    mutating func notePayload(_ object: (table: Int, row: Int)?) throws(StagingFault) {
        guard staged.payload != nil else { return }
        try take(StagedPayload.bytesPerRecord)
        staged.payload?.note(object)
    }

    // MARK: - Faults

    /// Stages a record or a value as a whole. If it is at fault, it is rejected or the job fails.
    ///
    /// - Returns: whether it was staged.
    @inline(__always)
    @discardableResult
    mutating func rejectingFaults(
        _ body: (inout StagingContext) throws(StagingFault) -> Void
    ) throws(StagingFault) -> Bool {
        do throws(StagingFault) {
            try body(&self)
            return true
        } catch {
            switch error {
            case .skipped: return false
            case .noRoom: throw error
            case .invalid(let fault, let offset):
                guard policy == .skip else { throw error }
                guard reject(fault, at: offset) else { throw .noRoom }
                return false
            }
        }
    }

    /// Adds a rejection.
    ///
    /// - Returns: false when there is no memory for it.
    mutating func reject(_ fault: Fault, at offset: Int) -> Bool {
        guard !staged.rejections.isListing || memory.take(RejectionList.listedBytes) else { return false }
        staged.rejections.add(fault, at: offset)
        return true
    }

    func fault(
        _ code: FaultCode, _ message: @autoclosure () -> String, _ value: JSONValue, _ entity: EntityPlan?
    ) -> StagingFault {
        fault(code, message(), at: textOffset(of: value), entity)
    }

    func fault(
        _ code: FaultCode, _ message: @autoclosure () -> String, at offset: Int, _ entity: EntityPlan?,
        _ attribute: String? = nil
    ) -> StagingFault {
        let message = staged.rejections.isListing ? message() : ""
        return .invalid(Fault(code, message, entity: entity?.name, attribute: attribute), offset: offset)
    }

    // MARK: - Mappings

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
                + "give the mapping an \"otherwise\" (null declines such records).", value, nil)
    }
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
