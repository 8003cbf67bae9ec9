internal import BrokerJSON
public import BrokerModel

/// What the collections of a job became: rows, links, and what was left out. Immutable, so any thread may read it; it
/// keeps everything alive that its cells point at.
public final class StagedRows: Sendable {
    /// By entity index; nil where the job touches none.
    public let tables: [FrozenTable?]
    /// By link table index; a link may stand there twice.
    public let links: [[StagedLink]]
    /// Each relationship of an object once.
    public let replacements: [StagedReplacement]
    public let spared: [RetainedLink]
    /// What stands in ordered relationships: by object and relationship, in the order in which they come.
    public let places: [StagedListPosition]
    /// Of entities with unique values alone.
    public let nestings: [StagedNesting]
    /// What was left out, with its paths, in payload order: as many as are listed.
    public let rejected: [Fault]
    /// By the name of the entity, what was left out beside those.
    public let unlistedRejections: [String: Int]
    public let warnings: [Warning]
    /// Rows of all entities.
    public var rowCount: Int { tables.reduce(0) { $0 + ($1?.rowCount ?? 0) } }
    private let conditionalFault: ConditionalFault?
    /// Only the store can tell whether all objects may be of the entities that their records are of: it must be staged
    /// again, knowing what they are.
    public let hasDoubtfulKinds: Bool
    /// A record was taken that is not newer than one before it in the job, or that deletes an object that may be newer: it
    /// must be staged again.
    public let hasOvertaken: Bool
    /// It was staged knowing what the store has: records that are not newer were left out.
    public let isCompared: Bool
    /// The object that these rows are about, which must exist; nil of a `process` without one.
    public let subject: StagedTarget?
    /// Nil when no record deletes its object.
    public let buried: TombstoneDeletions?
    /// Objects of one table that the records name inside others whose contents do not count: tombstones, and records that are
    /// not newer than their objects. Nil when nothing asked for them.
    public let innerNames: FrozenTable?
    /// Which rows the records of each operation are; nil unless the job asks for its objects.
    public let payload: StagedPayload?
    /// May be merged at once with the rows of other jobs: what becomes of it depends on nothing in the store but the
    /// objects that it names, and there on their values alone.
    public let isJoinable: Bool
    /// What was staged, in payload order.
    let collections: [JobCollection]
    private let exclusions: StagedExclusions?
    private let memory: [ArenaChunks]

    init(
        tables: [FrozenTable?], links: [[StagedLink]], replacements: [StagedReplacement], spared: [RetainedLink],
        places: [StagedListPosition], nestings: [StagedNesting], rejections: RejectionList,
        conditionalFault: ConditionalFault?, hasDoubtfulKinds: Bool, hasOvertaken: Bool, isCompared: Bool,
        warnings: [Warning], subject: StagedTarget?, buried: TombstoneDeletions?, innerNames: FrozenTable?,
        payload: StagedPayload?, collections: [JobCollection], exclusions: StagedExclusions?, memory: [ArenaChunks]
    ) {
        self.tables = tables
        self.links = links
        self.replacements = replacements
        self.spared = spared
        self.places = places
        self.nestings = nestings
        rejected = rejections.located(in: collections[0].document)
        unlistedRejections = rejections.unlisted
        self.conditionalFault = conditionalFault
        self.hasDoubtfulKinds = hasDoubtfulKinds
        self.hasOvertaken = hasOvertaken
        self.isCompared = isCompared
        self.warnings = warnings
        self.subject = subject
        self.buried = buried
        self.innerNames = innerNames
        self.payload = payload
        self.collections = collections
        self.exclusions = exclusions
        self.memory = memory
        let isPlain = replacements.isEmpty && spared.isEmpty && places.isEmpty && subject == nil && buried == nil
        isJoinable =
            isPlain && payload == nil && conditionalFault == nil && !hasDoubtfulKinds && !hasOvertaken
            && tables.allSatisfy { $0?.isJoinable ?? true }
    }

    private var document: JSONDocument { collections[0].document }

    /// Where the record or bare key stands that first named the row: the offset to hand to ``located(_:at:)``.
    public func offset(entity: Int, row: Int) -> Int { Int(tables[entity]!.offsets[row]) }

    /// The fault with the path, as a JSON Pointer into the message, of what stands at that offset.
    public func located(_ fault: Fault, at offset: Int) -> Fault {
        var fault = fault
        fault.path = ValuePaths(in: document).paths(of: [offset]).first
        return fault
    }

    /// For what the job fails if no record turns out to be left out because the store's row is as new.
    public var openFault: Fault? { conditionalFault.map { located($0.fault, at: $0.offset) } }

    /// What staging the same again costs: bytes of text, and for each row and link as much as some dozens of bytes.
    public var stagingWork: Int {
        let bytes = collections.reduce(0) { $0 + $1.textBytes }
        return bytes + 64 * (rowCount + places.count + links.reduce(0) { $0 + $1.count })
    }

    /// Stages the same again without what the exclusions name, as if it had never been said.
    ///
    /// - Parameter allowance: asked for the memory of the rows, which the caller gives back when they are gone; nil takes what
    ///   it needs.
    public func staged(
        without exclusions: StagedExclusions, _ plan: StagingPlan, _ allowance: (any StagingAllowance)? = nil
    ) throws(StagingRefusal) -> StagedRows {
        var parts: [StagedPart] = []
        exclusions.begin()
        for collection in collections {
            parts.append(try collection.stage(plan, exclusions.policy, allowance, without: exclusions))
        }
        return StagedJobRows.unite(parts, plan, adding: exclusions.rejections, without: exclusions)
    }

    /// A table's objects that were named, and yet have no row, because they are not there and need not be: bare keys with
    /// `missing` `ignore`, and whatever a sync may not insert. Of rows that are the newest staging of theirs.
    ///
    /// - Returns: their identities.
    public func namedAlone(_ table: Int) -> [[Cell]] {
        let inner = innerNames.map { names in (0..<names.rowCount).map(names.identity) } ?? []
        return (exclusions?.namedAlone(table) ?? []) + inner
    }
}
