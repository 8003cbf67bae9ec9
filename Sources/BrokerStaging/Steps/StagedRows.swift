internal import BrokerJSON
package import BrokerModel

/// The united result of a job's collections: rows, links and rejections. Immutable, so any thread may read it; it owns
/// the memory that its cells point at.
package final class StagedRows: Sendable {
    /// By entity index; nil without rows of the entity.
    package let tables: FrozenTables
    /// By link table index; a link may occur twice.
    package let links: [[StagedLink]]
    /// Each relationship of an object at most once.
    package let replacements: [StagedReplacement]
    package let retainedLinks: [RetainedLink]
    /// Positions in ordered relationships: by object and relationship, in list order.
    package let listPositions: [StagedListPosition]
    /// For entities with unique values only.
    package let nestings: [StagedNesting]
    /// The listed rejections, with their paths, in payload order.
    package let rejected: [Fault]
    /// By entity name, the count of rejections that are not listed.
    package let unlistedRejections: [String: Int]
    package let warnings: [Warning]
    /// Rows of all entities.
    package var rowCount: Int { tables.reduce(0) { $0 + ($1?.rowCount ?? 0) } }
    private let conditionalFault: ConditionalFault?
    /// Only the store can check the concrete entities of all objects: the job must be staged again with the stored
    /// facts.
    package let hasUncertainEntities: Bool
    /// A record was accepted that is not newer than an earlier one in the job, or that deletes an object that may be
    /// newer: the job must be staged again.
    package let needsComparison: Bool
    /// The job was staged with the stored values: records that are not newer were skipped.
    package let isCompared: Bool
    /// The object that the operation names, which must exist; nil for a `process` without one.
    package let target: StagedTarget?
    /// Nil when no record deletes its object.
    package let tombstoneDeletions: TombstoneDeletions?
    /// Objects of one table that records name inside others whose contents do not count: tombstones, and records that
    /// are not newer than their objects. Nil unless an operation gathers them.
    package let innerNames: FrozenTable?
    /// The rows of each operation's records; nil unless the job asks for its objects.
    package let payload: StagedPayload?
    /// The rows may be merged in one batch with the rows of other jobs: their result depends only on the values of the
    /// objects that they name.
    package let isBatchable: Bool
    /// The staged collections, in payload order.
    let collections: ShortList<JobCollection>
    /// Units of patterns and tombstones.
    private let patternWork: Int
    private let exclusions: StagedExclusions?
    private let memory: ShortList<ArenaChunks>

    /// - Parameters:
    ///   - staged: the context of all parts, united, which stages no more.
    ///   - resolution: resolves the links of `staged`.
    ///   - exclusions: the exclusions with which the parts were staged.
    init(
        _ staged: inout StagingContext, _ facts: PartFacts, _ resolution: LinkResolution,
        _ exclusions: StagedExclusions?
    ) {
        resolution.resolve(staged.pairs)
        (replacements, retainedLinks) = resolution.resolve(
            staged.replacements, staged.retainedLinks, &staged.links, &staged.listPositions)
        tables = staged.tables.freeze()
        links = staged.links
        listPositions = staged.listPositions
        nestings = staged.nestings
        rejected = staged.rejections.located(in: facts.collections[0].document)
        unlistedRejections = staged.rejections.unlisted
        conditionalFault = staged.conditionalFault
        hasUncertainEntities = staged.hasUncertainEntities
        let modified = exclusions?.modified
        let isKnown = modified?.isComplete ?? false, hasUnknownObjects = modified?.hasUnknownObjects ?? false
        needsComparison = staged.needsComparison || isKnown && hasUnknownObjects
        isCompared = isKnown && !hasUnknownObjects
        warnings = facts.warnings
        target = staged.target
        tombstoneDeletions = staged.tombstones?.deletions()
        innerNames = staged.innerNames?.freeze()
        payload = staged.payload
        collections = facts.collections
        patternWork = facts.patternWork
        self.exclusions = exclusions
        memory = facts.memory
        let isPlain =
            replacements.isEmpty && retainedLinks.isEmpty && listPositions.isEmpty && target == nil
            && tombstoneDeletions == nil
        isBatchable =
            isPlain && payload == nil && conditionalFault == nil && !hasUncertainEntities && !needsComparison
            && tables.allSatisfy { $0?.isBatchable ?? true }
    }

    /// Returns the offset of the record or bare key that first named the row, for `located(_:at:)`.
    package func offset(entity: Int, row: Int) -> Int { Int(tables[entity]!.namings[row].offset) }

    /// Returns the fault with the path, as a JSON Pointer into the message, of the value at that offset.
    package func located(_ fault: Fault, at offset: Int) -> Fault {
        ValuePaths.located(fault, at: offset, in: collections[0].document)
    }

    /// The fault with which the job fails, unless the merge skips a record because the stored object is as new.
    package var openFault: Fault? { conditionalFault.map { located($0.fault, at: $0.offset) } }

    /// The cost of staging the rows again: bytes of text, the work of patterns and tombstones, and an equivalent of 64 bytes
    /// for each row and link.
    package var stagingWork: Int {
        let bytes = collections.reduce(0) { $0 + $1.textBytes }
        return bytes + patternWork + 64 * (rowCount + listPositions.count + links.reduce(0) { $0 + $1.count })
    }

    /// Stages the job again without the objects and records of the exclusions, as if the job did not have them.
    ///
    /// - Parameter allowance: asked for the memory of the rows, which the caller gives back when it releases the rows;
    ///   nil grants all.
    package func staged(
        without exclusions: StagedExclusions, _ plan: StagingPlan, _ allowance: (any StagingAllowance)? = nil
    ) throws(StagingRefusal) -> StagedRows {
        var parts: [StagedPart] = []
        exclusions.begin()
        for collection in collections {
            parts.append(try collection.stage(plan, exclusions.policy, allowance, without: exclusions))
        }
        return StagedJobRows.unite(parts, plan, adding: exclusions.rejections, without: exclusions)
    }

    /// Whether the job was staged with the stored concrete entity of the object that a row of ``tombstoneDeletions`` has.
    package func isEntityKnown(_ row: Int, of table: FrozenTable) -> Bool {
        exclusions?.knownEntities?.knows(row, of: table) ?? false
    }

    /// Returns the identities of a table's objects that the job names but that have no row: bare keys with `missing`
    /// `ignore` of objects that do not exist, and objects that a sync may not insert. For rows of the latest staging
    /// only.
    package func namedWithoutRow(_ table: Int) -> [[Cell]] {
        let inner = innerNames.map { names in (0..<names.rowCount).map(names.identity) } ?? []
        return (exclusions?.namedWithoutRow(table) ?? []) + inner
    }
}

extension RecordBatch {
    /// Stages these records alone, on the calling thread.
    ///
    /// - Parameter allowance: asked for the memory of the rows, which the caller gives back when it releases the rows.
    package func staged(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: any StagingAllowance
    ) throws(StagingRefusal) -> StagedRows {
        var collection = JobCollection(
            [], in: document, keepsPayload: keepsPayload, refusesUnknownKeys: refusesUnknownKeys)
        collection.batch = self
        return try collection.rows(plan, policy, allowance)
    }
}

extension StagedRows {
    /// The records that were staged, to be staged again in smaller batches.
    package var batch: RecordBatch { RecordBatch(collections) }
}
