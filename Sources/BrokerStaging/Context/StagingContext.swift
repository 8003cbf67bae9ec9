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
/// It is handed over whole by ``finish()``, which consumes it.
///
/// ```
/// record ─scan─▶ slots ─convert─▶ scratch cells ─find or add─▶ row ─▶ what it says of links, nested records
/// ```
///
/// Invariants
///  1. A record's attributes are all converted before its row is touched: a bad record leaves no trace.
///  2. Records are staged in the order in which they begin in the text, a parent before what is nested in it, so that
///     attributes may simply overwrite each other; and a parent that is left out takes along what is nested in it.
///  3. What is said of links bears the offset of the record that said it, and is weighed at the end.
struct StagingContext: ~Copyable {
    let plan: StagingPlan
    let collection: JobCollection
    let policy: InvalidRecordPolicy
    let exclusions: StagedExclusions?
    var arena = ByteArena()
    /// One table per entity that was met.
    let tables: TableSet
    var links: [[StagedLink]]
    var pairs: [StagedPair] = []
    var replacements: [StagedReplacement] = []
    var spared: [RetainedLink] = []
    var places: [StagedListPosition] = []
    var nestings: [StagedNesting] = []
    /// Links from objects to themselves, by the newest word on each.
    var selfLinks: [SelfLinkEnd: SelfLink] = [:]
    /// The innermost record being staged whose object unique values may cost its place.
    var enclosing: LinkSource?
    var rejections = RejectionList()
    var scanner: RecordScanner
    /// Values that their attributes do not hold exactly.
    var inexactValues = InexactValues()
    /// A row's worth of cells for each record being staged, innermost last.
    var scratch: ScratchStack
    var memory: StagingMemory
    /// Where the operation's json begins, which is being staged.
    var operationOffset: UInt32 = 0
    /// Records around the one being staged that may turn out to be left out.
    var conditionalDepth = 0
    var conditionalFault: ConditionalFault?
    /// The object that the operation works on, where it names one.
    var subject: StagedTarget?
    /// Records were taken that only the store can tell to be newer than their objects.
    var wantsComparison = false
    /// Nil as long as no record deletes its object.
    var tombstones: StagedTombstones?
    /// Records were taken of which only the store can tell whether their objects may be of that entity.
    var hasDoubtfulKinds = false
    /// While a rewritten record is staged, the text of the one that it stands for.
    var rewrittenAt: Range<Int>?
    /// For the operation's own records.
    var parameters: PathParameters?
    /// Objects that are named inside records whose contents do not count; nil unless the operation gathers them.
    var innerNames: InnerNames?
    /// Nil unless the job asks for its objects.
    var payload: StagedPayload?
    /// A `relate` is staged.
    var isRelating = false
    /// While a `relate` is staged, where its own words stand: what its `json` names is the payload's own.
    var relatedAt: UInt32?

    init(
        _ plan: StagingPlan, _ collection: JobCollection, _ policy: InvalidRecordPolicy, _ memory: StagingMemory,
        _ exclusions: StagedExclusions?
    ) {
        self.plan = plan
        self.collection = collection
        self.policy = policy
        self.memory = memory
        self.exclusions = exclusions
        tables = TableSet(plan)
        links = Array(repeating: [], count: plan.layout.linkTables.count)
        scanner = RecordScanner(nodeCount: plan.nodeCount)
        scratch = ScratchStack()
        payload = collection.keepsPayload ? StagedPayload() : nil
        arena.workBudget = .staging(collection.textBytes, of: collection.document.text.count)
    }

    /// Bytes of memory that the rows of a context take beside what is counted for each row: objects, the first chunks of
    /// tables and indexes, and an entry for each entity and each link table of the model. An estimate for steps of one row.
    static func memory(_ plan: StagingPlan) -> Int {
        let entry = MemoryLayout<UnsafeRawPointer>.stride + MemoryLayout<FrozenTable?>.stride
        return 3_072 + plan.entities.count * entry + plan.layout.linkTables.count * 2
            * MemoryLayout<[StagedLink]>.stride
    }

    mutating func stage(_ operation: StagingOperation) throws(StagingRefusal) {
        let entity = plan.entities[operation.entity]
        let json = operation.json
        beginOperation(operation)
        switch operation.action {
        case .process:
            try process(json, "json must be an object or an array of objects", entity: entity) {
                context, record throws(StagingRefusal) in
                try context.processRecord(MappedRecord(value: record, entity: entity))
            }
        case .map(let mapping, let parameters): try map(json, mapping, parameters)
        case .route(let tree): try route(json, tree)
        case .name: try leavingOut { context throws(StagingFault) in try context.name(json, entity) }
        case .change(let key):
            try leavingOut { context throws(StagingFault) in try context.change(json, key, entity) }
            try leavingOut { context throws(StagingFault) in try context.padPayload(to: 1) }
        case .relate(let key, let relationship):
            try leavingOut { context throws(StagingFault) in try context.relate(json, key, entity, relationship) }
            let count = entity.relationships[relationship].elementCount(of: json)
            try leavingOut { context throws(StagingFault) in try context.padPayload(to: count) }
        }
    }

    mutating func beginOperation(_ operation: StagingOperation) {
        operationOffset = UInt32(operation.json.offset)
        if operation.gathersNames { innerNames = innerNames ?? InnerNames(plan.entities[operation.entity].index, plan) }
        if let table = operation.objectTable(plan) { beginPayload(table) } else { beginMixedPayload() }
    }

    /// Stages some records of an operation that processes them.
    ///
    /// - Parameter records: each with what reads it; nil reads it as one of the operation's entity.
    mutating func stage(
        _ operation: StagingOperation, _ records: [(JSONValue, RouteTree.Target?)]
    ) throws(StagingRefusal) {
        guard operation.isMerged else { return try stage(operation) }
        beginOperation(operation)
        for (record, target) in records {
            guard let target, let mapping = target.mapping else {
                try processRecord(MappedRecord(value: record, entity: plan.entities[operation.entity]))
                continue
            }
            parameters = target.parameters
            defer { parameters = nil }
            try mapRecord(record, mapping)
        }
    }

    /// Stages what a mapping reads.
    ///
    /// - Parameter parameters: for records that bring no value of their own.
    mutating func map(_ json: JSONValue, _ mapping: Int, _ parameters: PathParameters?) throws(StagingRefusal) {
        self.parameters = parameters
        defer { self.parameters = nil }
        try process(json, "What a mapping reads is an object or an array of objects") {
            context, record throws(StagingRefusal) in
            try context.mapRecord(record, mapping)
        }
    }

    /// Stages the `json` of one operation: a record, or an array of them.
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

    @inline(__always)
    private mutating func processRecord(_ record: MappedRecord) throws(StagingRefusal) {
        let isStaged = try leavingOut { context throws(StagingFault) in try context.stageOwn(record) }
        if !isStaged { _ = try leavingOut { context throws(StagingFault) in try context.notePayload(nil) } }
    }

    /// Stages what a mapping reads: each record that is at fault is left out by itself.
    private mutating func mapRecord(_ value: JSONValue, _ mapping: Int) throws(StagingRefusal) {
        var chosen: EntityPlan?
        try leavingOut { context throws(StagingFault) in chosen = try context.plan(of: mapping, for: value) }
        guard let entity = chosen else {
            _ = try leavingOut { context throws(StagingFault) in try context.notePayload(nil) }
            return
        }
        guard entity.nesting?.isCollection ?? false, value.kind == .object else {
            return try processRecord(MappedRecord(value: value, entity: entity))
        }
        for (key, record) in value.members {
            try processRecord(MappedRecord(value: record, entity: entity, nestedKey: key))
        }
    }

    /// Stages something as a whole: when it is at fault it is left out, or the job fails.
    ///
    /// - Returns: whether it was staged.
    @inline(__always)
    @discardableResult
    private mutating func leavingOut(
        _ body: (inout StagingContext) throws(StagingFault) -> Void
    ) throws(StagingRefusal) -> Bool {
        do throws(StagingFault) {
            try body(&self)
            return true
        } catch {
            switch error {
            case .leftOut: return false
            case .noRoom: throw .noRoom
            case .invalid(let fault, let offset):
                if noteConditional(fault, at: offset) { return false }
                guard policy == .skip else { throw .fault(located(fault, offset)) }
                guard reject(fault, at: offset) else { throw .noRoom }
                return false
            }
        }
    }

    /// Notes what is left out.
    ///
    /// - Returns: false when there is no memory for it.
    mutating func reject(_ fault: Fault, at offset: Int) -> Bool {
        guard !rejections.isListing || memory.take(RejectionList.listedBytes) else { return false }
        rejections.add(fault, at: offset)
        return true
    }

    /// Takes memory that the job's rows will hold.
    @inline(__always)
    mutating func take(_ bytes: Int) throws(StagingFault) {
        guard memory.take(bytes) else { throw .noRoom }
    }

    private func located(_ fault: Fault, _ offset: Int) -> Fault {
        var fault = fault
        fault.path = ValuePaths(in: collection.document).paths(of: [offset]).first
        return fault
    }

    /// Hands over what was staged.
    consuming func finish() -> StagedPart {
        let part = StagedPart(
            collection, tables, links: links, pairs: pairs, replacements: replacements, spared: spared,
            places: places, nestings: nestings, rejections: rejections, conditionalFault: conditionalFault,
            warnings: scanner.warnings() + inexactValues.warnings(plan.model), subject: subject, tombstones: tombstones,
            payload: payload,
            memory: arena.release())
        part.hasOvertaken = wantsComparison
        part.hasDoubtfulKinds = hasDoubtfulKinds
        part.innerNames = innerNames
        return part
    }
}

/// Why a record, or a bare key, is left out.
enum StagingFault: Error {
    /// Something in it is wrong; `offset` is the value's place in the text.
    // Boxed, because what is thrown takes its room on every call on the way, also when nothing is.
    indirect case invalid(Fault, offset: Int)
    /// It belongs to what the job is staged without; that is told elsewhere.
    case leftOut
    /// No memory is to be had: the whole staging ends.
    case noRoom
}
