internal import BrokerJSON
internal import BrokerModel

/// The rows that one worker staged for one collection of a job, and its records' assertions about links, not yet
/// resolved. ``StagedJobRows`` unites it with the job's other parts.
///
/// Each assertion has the source offset of its record, and `LinkResolution` lets the later assertion win. So a record's
/// assertions precede those of its nested records, in whichever order staging reads them.
// One thread at a time uses it.
package final class StagedPart: @unchecked Sendable {
    /// Its own, and those of the parts that were added to it, in payload order.
    var collections: ShortList<JobCollection>
    /// The context that staged the part, for its contents: it stages no more.
    var staged: StagingContext
    var tables: TableSet { staged.tables }
    /// Units of patterns and tombstones.
    var patternWork: Int
    var warnings: [Warning]
    /// The memory that cells point at, besides the document.
    var memory: ShortList<ArenaChunks>

    init(_ context: consuming StagingContext) {
        collections = ShortList(context.collection)
        patternWork = context.arena.workBudget.spent
        warnings = context.scanner.warnings() + context.inexactValues.warnings(context.plan.model)
        memory = context.arena.memory.map { ShortList($0) } ?? []
        if context.innerNames?.isEmpty ?? false { context.innerNames = nil }
        // Frees what only the staging of records needs.
        context.scanner = RecordScanner(nodeCount: 0, UnsafeMutableBufferPointer(start: nil, count: 0))
        context.scratch = ScratchStack(UnsafeMutableBufferPointer(start: nil, count: 0))
        staged = context
    }
}
