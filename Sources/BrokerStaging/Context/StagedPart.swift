internal import BrokerJSON
internal import BrokerModel

/// The rows that one worker staged for one collection of a job, and its records' assertions about links, not yet
/// resolved. ``StagedJobRows`` unites it with the job's other parts.
///
/// Each assertion has the source offset of its record, and `LinkResolution` lets the later assertion win. So a record's
/// assertions precede those of its nested records, in whichever order staging reads them.
// One thread at a time uses it.
package final class StagedPart: @unchecked Sendable {
    var facts: PartFacts
    /// The context that staged the part, for its contents: it stages no more.
    var staged: StagingContext
    var tables: TableSet { staged.tables }

    init(_ context: consuming StagingContext) {
        facts = PartFacts(&context)
        staged = context
    }
}

/// The collections of a part, and what their staging took.
struct PartFacts {
    /// Its own, and those of the parts that were added to it, in payload order.
    var collections: ShortList<JobCollection>
    /// Units of patterns and tombstones.
    var patternWork: Int
    var warnings: [Warning]
    /// The memory that cells point at, besides the document.
    var memory: ShortList<ArenaChunks>

    /// - Parameter context: it stages no more, and frees what only the staging of records needs.
    init(_ context: inout StagingContext) {
        collections = ShortList(context.collection)
        patternWork = context.arena.workBudget.spent
        warnings = context.scanner.warnings() + context.valueWarnings.warnings(context.plan.model)
        memory = context.arena.memory.map { ShortList($0) } ?? []
        if context.innerNames?.isEmpty ?? false { context.innerNames = nil }
        context.scanner = RecordScanner(nodeCount: 0, UnsafeMutableBufferPointer(start: nil, count: 0))
        context.scratch = ScratchStack(UnsafeMutableBufferPointer(start: nil, count: 0))
    }
}
