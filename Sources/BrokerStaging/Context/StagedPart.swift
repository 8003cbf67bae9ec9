internal import BrokerJSON
internal import BrokerModel

/// The rows that one worker staged for one collection of a job, and its records' assertions about links, not yet
/// resolved. ``StagedJobRows`` unites it with the job's other parts.
///
/// Each assertion has the source offset of its record, and `LinkResolution` lets the later assertion win. So a record's
/// assertions precede those of its nested records, in whichever order staging reads them.
// One context fills it; `StagingContext.finish()` hands it over, and only one thread at a time uses it.
package final class StagedPart: @unchecked Sendable {
    let collection: JobCollection
    let tables: TableSet
    /// By link table index.
    var links: [[StagedLink]]
    var pairs: [StagedPair]
    var replacements: [StagedReplacement]
    var retainedLinks: [RetainedLink]
    var listPositions: [StagedListPosition]
    var nestings: [StagedNesting]
    var rejections: RejectionList
    /// The job fails with this fault if the merge accepts the enclosing records.
    var conditionalFault: ConditionalFault?
    /// A record is not newer than one of an earlier part, or deletes an object that may be newer. The records must be
    /// staged together again, with the stored facts, to decide which ones count.
    var needsComparison: Bool
    /// Units of patterns and tombstones.
    let patternWork: Int
    /// Objects named inside records whose contents do not count.
    let innerNames: InnerNames?
    /// A record was accepted whose concrete entity only the store can check.
    var hasUncertainEntities: Bool
    var warnings: [Warning]
    let target: StagedTarget?
    var tombstones: StagedTombstones?
    /// Nil unless the job asks for its objects.
    var payload: StagedPayload?
    /// The memory that cells point at, besides the document.
    var memory: [ArenaChunks]

    init(_ context: consuming StagingContext) {
        collection = context.collection
        tables = context.tables
        links = context.links
        pairs = context.pairs
        replacements = context.replacements
        retainedLinks = context.retainedLinks
        listPositions = context.listPositions
        nestings = context.nestings
        rejections = context.rejections
        conditionalFault = context.conditionalFault
        needsComparison = context.needsComparison
        patternWork = context.arena.workBudget.spent
        innerNames = context.innerNames
        hasUncertainEntities = context.hasUncertainEntities
        warnings = context.scanner.warnings() + context.inexactValues.warnings(context.plan.model)
        target = context.target
        tombstones = context.tombstones
        payload = context.payload
        memory = [context.arena.release()]
    }
}
