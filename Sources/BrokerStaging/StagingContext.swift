internal import BrokerJSON
internal import BrokerModel

/// What becomes of a record that cannot be staged.
public enum InvalidRecordPolicy: String, Sendable {
    /// The job fails.
    case fail
    /// The smallest object that holds the fault is left out and listed.
    case skip
}

/// Where records become rows: one collection of one job, on one worker, reading no database and sharing nothing.
///
/// It is handed over whole by ``finish()``, which consumes it: what it became is immutable.
///
/// ```
/// record ─scan─▶ slots ─convert─▶ scratch cells ─find or add─▶ row ─▶ nested records, links
/// ```
///
/// Invariants
///  1. A record's attributes are all converted before its row is touched: a bad record leaves no trace.
///  2. Nested records are staged after their parent's row, so a parent that is left out takes them along.
struct StagingContext: ~Copyable {
    let plan: StagingPlan
    let document: JSONDocument
    let policy: InvalidRecordPolicy
    var arena = ByteArena()
    /// One table per entity that was met, in the order of meeting; ``tableIndex(of:)`` finds it.
    var tables: TableSet
    var links: [[StagedLink]]
    var replacements: [StagedReplacement] = []
    var rejections: [Rejection] = []
    var scanner: RecordScanner
    /// A row's worth of cells for each record being staged, innermost last.
    var scratch: ScratchStack
    var memory: StagingMemory

    init(
        _ plan: StagingPlan, _ document: JSONDocument, _ policy: InvalidRecordPolicy,
        _ allowance: (any StagingAllowance)?
    ) {
        memory = StagingMemory(allowance)
        self.plan = plan
        self.document = document
        self.policy = policy
        tables = TableSet(plan)
        links = Array(repeating: [], count: plan.layout.linkTables.count)
        scanner = RecordScanner(nodeCount: plan.nodeCount)
        scratch = ScratchStack()
    }

    /// Stages the `json` of one `process` operation: a record, or an array of them.
    mutating func process(_ json: JSONValue, entity: Int) throws(StagingRefusal) {
        let entity = plan.entities[entity]
        switch json.kind {
        case .object: try processRecord(json, entity)
        case .array:
            for record in json.elements { try processRecord(record, entity) }
        default:
            throw .fault(
                located(
                    Fault(
                        .invalidValue, "json must be an object or an array of objects, not \(json.kind.phrase).",
                        entity: entity.name), json.offset))
        }
    }

    private mutating func processRecord(_ record: JSONValue, _ entity: EntityPlan) throws(StagingRefusal) {
        // A row at least, whatever becomes of the record.
        guard memory.take(entity.layout.columnCount * MemoryLayout<Cell>.stride + 64) else { throw .noRoom }
        do throws(StagingFault) {
            _ = try stage(record, entity)
        } catch {
            try reject(error)
        }
    }

    /// Notes that an object is left out, or fails the job, as the job asked.
    mutating func reject(_ error: StagingFault) throws(StagingRefusal) {
        guard policy == .skip else { throw .fault(located(error.fault, error.offset)) }
        rejections.append(Rejection(error.fault, at: error.offset))
    }

    private func located(_ fault: Fault, _ offset: Int) -> Fault {
        var fault = fault
        fault.path = ValuePaths(in: document).paths(of: [offset]).first
        return fault
    }

    /// Hands the rows over: from here on they never change.
    consuming func finish() -> StagedRows {
        let warnings = scanner.warnings(plan)
        let document = document, links = links, replacements = replacements, rejections = rejections
        let memory = arena.release()
        return StagedRows(
            tables: tables.freeze(), links: links, replacements: replacements, rejections: rejections,
            warnings: warnings, document: document, memory: memory)
    }
}

/// Something in a record is wrong; `offset` is the value's place in the text.
struct StagingFault: Error {
    let fault: Fault
    let offset: Int

    init(_ fault: Fault, at offset: Int) {
        self.fault = fault
        self.offset = offset
    }
}

/// The tables of a context, by entity index.
struct TableSet: ~Copyable {
    private var tables: UnsafeMutableBufferPointer<StagedTable?>
    private let plan: StagingPlan

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = .allocate(capacity: plan.entities.count)
        for index in 0..<tables.count { tables.initializeElement(at: index, to: nil) }
    }

    deinit {
        tables.deinitialize()
        tables.deallocate()
    }

    /// The table of that entity, made when it is new.
    subscript(entity: Int) -> UnsafeMutablePointer<StagedTable?> {
        let place = tables.baseAddress! + entity
        if place.pointee == nil { place.pointee = StagedTable(plan.entities[entity]) }
        return place
    }

    func freeze() -> [FrozenTable?] {
        (0..<tables.count).map { index in
            let place = tables.baseAddress! + index
            return place.pointee.take()?.freeze()
        }
    }
}
