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
    private let memory: ShortList<ArenaChunks>

    /// - Parameter staged: the context of all parts, united, which stages no more.
    init(_ staged: inout StagingContext, _ facts: PartFacts, _ plan: StagingPlan) {
        let resolution = LinkResolution(plan, staged.tables)
        if !resolution.resolve(staged.pairs) { staged.note(.links) }
        replacements = staged.replacements
        resolution.name(&staged.links)
        links = staged.links
        listPositions = staged.listPositions.isEmpty ? [] : resolution.ordered(staged.listPositions)
        if staged.reason == nil, !replacements.isEmpty || !listPositions.isEmpty,
            !resolution.areCertain(replacements, links, staged.listPositions)
        {
            staged.note(.links)
        }
        reason = staged.reason
        skipsRecords = staged.policy == .skip
        tables = staged.tables.freeze()
        rejected = staged.rejections.located(in: facts.collections[0].document)
        unlistedRejections = staged.rejections.unlisted
        warnings = facts.warnings
        payload = staged.payload
        collections = facts.collections
        patternWork = facts.patternWork
        memory = facts.memory
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
