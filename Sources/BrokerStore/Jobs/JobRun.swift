internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Applies the steps of one job one after the other inside its savepoint, and counts the changes of each object.
///
/// ```
/// the first step, if it merges rows ─▶ counted row by row, as it goes
///                   (if others follow: the net changes store a digest of each row that it changes)
/// every other step                  ─▶ recorded by the net changes, which know the state before
/// ```
///
/// So a job of one step needs no bookkeeping, a large first step little, and a job of many steps counts each object
/// once, by its state before the job and after it.
///
/// Its methods throw a ``MergeFailure``, or a ``StoreError`` when the store is at fault. Used by the writer's thread.
final class JobRun {
    let merger: Merger
    let job: StoreJob
    private let savepoints: Savepoints
    private let syncParts: SyncParts
    private let steps: [StagedStep]
    private let memory: MergeMemory
    private let unique: UniqueValues
    private var number = 0
    /// The rows of the first step, if they were merged.
    private(set) var base: SetMerge?
    private(set) var history: NetChanges?
    private(set) var reported = ReportedFaults()
    private(set) var objects: PayloadObjects?

    init(
        _ merger: Merger, _ savepoints: Savepoints, _ syncParts: SyncParts, _ job: StoreJob, _ steps: [StagedStep],
        _ memory: MergeMemory
    ) {
        self.merger = merger
        self.savepoints = savepoints
        self.syncParts = syncParts
        self.job = job
        self.steps = steps
        self.memory = memory
        unique = UniqueValues(merger, memory, skips: job.terms.policy == .skip)
        objects = job.terms.wantsObjects ? PayloadObjects(merger, job.terms.form) : nil
    }

    private var isFirst: Bool { number == 0 }
    private var isLast: Bool { number == steps.count - 1 }

    /// The location of the operation that is applied; nil after the last one.
    var pointer: String? { number < steps.count ? steps[number].pointer : nil }

    func run() throws {
        while number < steps.count {
            try JobWork.counting(steps[number], on: merger.connection.work) { try apply(steps[number]) }
            number += 1
        }
        try unique.restore()
    }

    private func apply(_ step: StagedStep) throws {
        switch step.action {
        case .expect(let expectation):
            try ExpectationJudge(merger, unique).judge(expectation, of: step.rows!, at: step.pointer)
        case .merge: try applyRecords(of: step, nil)
        case .sync(let sync): try apply(sync, step)
        case .delete(let entity):
            objects?.noteDeletion()
            let rows = step.rows!
            reported.add(rows)
            var missing = 0
            try recording { missing = try Deletion(merger, at: step.pointer).delete(entity, named: rows) }
            if missing > 0 {
                reported.warnings.append(
                    Warning(.objectNotFound, entity: merger.plan.model.entities[entity].name, count: missing))
            }
        case .deleteMatching(let selection):
            objects?.noteDeletion()
            try delete(selection, step)
        }
    }

    // MARK: - Applying records

    private enum Applied {
        case merged(SetMerge)
        case interpreted(AppliedStep)

        /// No record was rejected.
        var isComplete: Bool {
            switch self {
            case .merged(let merged): merged.rows.rejected.isEmpty && merged.rows.unlistedRejections.isEmpty
            case .interpreted(let step): step.isComplete
            }
        }
    }

    /// Applies the records of a step: as sets, where that is certain to have the result of applying them one after the other.
    @discardableResult
    private func applyRecords(of step: StagedStep, _ sync: StagedSync?) throws -> Applied {
        let rows = step.rows!
        var reason = sync?.ignoresRecords ?? false ? .roles : rows.reason
        if reason == nil, !merger.interpretsAll {
            do {
                let merged = try merge(rows, isAlone: steps.count == 1 && sync == nil)
                reported.add(rows)
                try deleteOrphans(merged, at: step.pointer)
                try objects?.note(merged)
                return .merged(merged)
            } catch MergeFailure.surprise(let met) {
                reason = met
            }
        }
        if let reason { merger.interpretations[reason, default: 0] += 1 }
        let applied = try interpret(step, sync)
        objects?.note(applied)
        return .interpreted(applied)
    }

    private func interpret(_ step: StagedStep, _ sync: StagedSync?) throws -> AppliedStep {
        let (history, rows) = (started(), step.rows!)
        merger.connection.work.budget.charge(rows.readingWork)
        unique.locate = rows.located
        let objects = StoredObjects(merger, savepoints, history, unique, at: step.pointer)
        // One by one, records take more statements.
        merger.connection.work.budget.raise(by: JobWork.units(for: rows))
        let plan = merger.plan.reading(job.terms.form.names)
        let interpreter = Interpreter(rows, plan, job.terms.policy, objects, sync: sync, memory)
        do throws(ApplyingFault) {
            try history.record { () throws(ApplyingFault) in try interpreter.apply() }
        } catch {
            switch error {
            case .invalid(let fault, _): throw MergeFailure.fault(fault)
            case .ended(let refusal as StagingRefusal): throw MergeFailure(refusal)
            case .ended(let error): throw error
            case .skipped: preconditionFailure("a step ends by its fault, or the store's")
            }
        }
        reported.add(interpreter)
        return try AppliedStep(interpreter, objects)
    }

    /// Merges the rows.
    ///
    /// - Parameter isAlone: the step is the whole job, whose savepoint is also the step's.
    /// - Throws: ``MergeFailure/surprise(_:)`` when the result may be another than the interpreter's; nothing is changed then.
    private func merge(_ rows: StagedRows, isAlone: Bool) throws -> SetMerge {
        let history = isFirst && isAlone ? nil : started()
        if !isAlone { try savepoints.record.begin() }
        history?.mark()
        do {
            let merged = try history?.record(toBase: isFirst) { try merger.merge(rows) } ?? merger.merge(rows)
            if !isAlone { try savepoints.record.end() }
            history?.accept()
            if isFirst {
                base = merged
                merger.digest = merged.digest()
            } else {
                try touch(merged, history!)
            }
            return merged
        } catch {
            history?.rollBack()
            if merger.connection.isAutocommit, error is StoreError { throw error }
            guard !merger.connection.isAutocommit else { throw StoreError.givenUp }
            if isAlone { try savepoints.job.undo() } else { try savepoints.record.undoAndEnd() }
            throw error
        }
    }

    private func deleteOrphans(_ merged: SetMerge, at pointer: String) throws {
        guard merged.orphans.contains(where: { !$0.value.isEmpty }) else { return }
        let history = started()
        history.ownedEntities = merger.plan.model.holders.owners
        defer { history.ownedEntities = [:] }
        try recording { try Deletion(merger, at: pointer).delete(rows: merged.orphans) }
    }

    /// Counts the objects that the rows named, even if nothing in them changes.
    private func touch(_ merged: SetMerge, _ history: NetChanges) throws {
        for case let table? in merged.rows.tables {
            let entity = table.entityIndex
            for row in 0..<table.rowCount {
                let key = try merged.key(of: row, table)
                // That the object was read, and its values compared, is charged here; changes are charged when they are
                // recorded.
                let long = merger.historyTables.longColumns[entity]
                guard let object = try merger.entities[entity].find(key, charging: long) else { continue }
                history.touch(
                    entity, concreteEntity: object.concreteEntity, object.number, key,
                    namesLinks: table.namings[row].namesLinks)
            }
        }
    }

    // MARK: - Sync and deletion

    private func apply(_ sync: StagedSync, _ step: StagedStep) throws {
        let selection = sync.selection
        let part = try sync.part.map { try syncParts.begin($0, at: step.pointer, now: job.now) }
        let applied = try applyRecords(of: step, sync)
        var isComplete = applied.isComplete
        if let part {
            let entity = merger.plan.model.topmost(of: selection.entity)
            isComplete = try part.note(isComplete: isComplete) { note in
                switch applied {
                case .merged(let merged):
                    if try !part.note(merged, entity) { try merged.forEachName(of: entity, note) }
                case .interpreted(let step): try step.forEachName(of: entity, merger, note)
                }
            }
            guard part.isLast else { return }
        }
        if sync.deletes, isComplete {
            try delete(selection, step) {
                if let part { return part.isUnnamed(merger.entities[selection.entity]) }
                return "NOT \(try isNamed(by: applied, selection, step))"
            }
        } else if sync.deletes {
            let name = merger.plan.model.entities[selection.entity].name
            reported.warnings.append(Warning(.deletionSkipped, entity: name, count: 1))
        }
        try part?.end()
    }

    /// The condition that the step names an object `o`. It is valid until the names are cleared.
    private func isNamed(by applied: Applied, _ selection: StagedSelection, _ step: StagedStep) throws -> String {
        let entity = merger.plan.model.topmost(of: selection.entity)
        switch applied {
        case .merged(let merged):
            let bytes = merger.entities[entity].hasRowKey ? 64 * (merged.rows.tables[entity]?.rowCount ?? 0) : 0
            guard memory.take(bytes) else { throw MergeFailure.fault(Self.tooManyNames(step)) }
            return merger.named.set(
                merger.entities[entity].keyNames.map { quoted($0) }
            ) { key in merged.row(of: key, entity) != nil }
        case .interpreted(let step):
            let naming = ColumnNaming(model: merger.plan.model, layout: merger.plan.layout)
            return merger.named.set([naming.rowNumber(entity)]) { step.named.contains($0[0].integer) }
        }
    }

    private static func tooManyNames(_ step: StagedStep) -> Fault {
        .busy(
            "The objects that this operation names take more memory than one job may. Send it in parts (`part`).",
            path: step.pointer)
    }

    /// Deletes the selected objects `o` that also meet a further condition.
    private func delete(
        _ selection: StagedSelection, _ step: StagedStep, where also: () throws -> String? = { nil }
    ) throws {
        try unique.restore(askedBy: selection)
        let predicate = selection.predicate.map {
            PredicateSQL(
                $0, entity: selection.entity, plan: merger.plan, alias: "o",
                charging: merger.historyTables.longColumns)
        }
        var condition = predicate.map { "(\($0.condition))" } ?? "true"
        if let also = try also() { condition += " AND \(also)" }
        defer { merger.named.clear() }
        try recording {
            do {
                try Deletion(merger, at: step.pointer).delete(selection.entity, where: condition) {
                    _ = predicate?.bind(to: $0, from: 1)
                }
            } catch let error as StoreError {
                // A pattern takes too long.
                guard let fault = predicate?.fault else { throw error }
                throw MergeFailure.fault(fault.at("\(step.pointer)/where"))
            }
        }
    }

    // MARK: - Net changes

    /// Records the changes of a deletion. When no step follows, a count suffices for most objects.
    private func recording(_ body: () throws -> Void) throws {
        let history = started()
        if isLast, !job.terms.wantsKeys, history.needsEntry == nil {
            history.needsEntry = needsEntry
            if job.terms.isDryRun {
                history.countedKeys = CountedKeys(merger.entities, ofEach: JobTally.exampleCount)
            } else if merger.keepsFeedKeys {
                history.countedKeys = CountedKeys(merger.entities)
            }
        }
        try history.record(body)
    }

    /// Whether more than a count is needed of an object: of one that the first step touched, that step's changes count, too.
    private var needsEntry: (Int, Int64, StoredKey) -> Bool {
        guard let base else { return { _, _, _ in false } }
        return { entity, number, key in
            base.row(of: key, entity) != nil || base.changedOutside[entity]?.contains(number) ?? false
        }
    }

    private func started() -> NetChanges {
        if let history { return history }
        let history = NetChanges(
            merger.historyTables, on: merger.connection, memory, hasDigest: merger.digest != nil)
        self.history = history
        unique.history = history
        return history
    }
}

extension StoreError {
    static let givenUp = StoreError.unavailable("SQLite gave the transaction up.")
}

/// The work budget of a job: all work that the job causes in the writer is charged, and a job that exceeds the budget
/// is rolled back.
///
/// The charges are SQLite's instructions (with triggers, foreign-key actions and rows that follow a renaming), the
/// bytes that Broker's own SQL functions read, and a constant for each operation. The rows of the job itself pay for
/// part of it, so that a job may be as large as its memory allows.
///
/// Instructions count, not time: a replayed job must end as it did before. The instructions are the same for the same
/// version of SQLite, statement and data.
enum JobWork {
    /// A unit takes 10 to 25 ns, so this is about a second at most.
    static let maximum = 50_000_000
    /// The units that a staged row or link pays for: the cost of merging it, with some indexes.
    private static let unitsPerRow = 200
    /// An operation takes 20 us.
    private static let unitsPerStep = 1_000
    /// SQLite compiles a statement for each predicate, which takes 300 us.
    static let unitsPerSelection = 15_000

    static func units(for rows: StagedRows) -> Int {
        rows.links.reduce(rows.rowCount) { $0 + $1.count } * unitsPerRow
    }

    /// Runs a step, and charges its constant parts. A job that has exceeded its budget ends with `busy`.
    static func counting(_ step: StagedStep, on meter: WorkMeter, _ body: () throws -> Void) throws {
        if let rows = step.rows { meter.budget.raise(by: units(for: rows)) }
        switch step.action {
        case .merge, .delete: meter.budget.charge(unitsPerStep)
        case .expect(let expectation):
            meter.budget.charge(unitsPerStep)
            if case .matching(let selection) = expectation.condition { meter.budget.charge(units(for: selection)) }
        case .sync(let sync): meter.budget.charge(units(for: sync.selection))
        case .deleteMatching(let selection): meter.budget.charge(units(for: selection))
        }
        do {
            try meter.judging(body)
        } catch let failure as StoreError {
            // SQLite reports an error of Broker's function, and an interrupt, as plain errors.
            guard [.defect, .overworked].contains(failure.code), meter.mustEnd else { throw failure }
        }
        try judge(meter, at: step.pointer)
    }

    static func judge(_ meter: WorkMeter, at pointer: String) throws {
        if var refusal = meter.refusal {
            refusal.path = refusal.path ?? pointer
            throw MergeFailure.fault(refusal)
        }
        if meter.budget.isSpent { throw MergeFailure.fault(tooMuch(at: pointer)) }
    }

    private static func units(for selection: StagedSelection) -> Int {
        unitsPerSelection + (selection.predicate?.instructions ?? 0) * WorkBudget.unitsPerCompiledInstruction
    }

    private static func tooMuch(at pointer: String) -> Fault {
        .busy(
            "The operations of this job make the server do more work than one job may, and no other job can be stored "
                + "meanwhile. Send the operations in several jobs. Of a single operation with `where`, compare fewer or "
                + "shorter values, follow fewer links, or select part of the objects at a time.", path: pointer)
    }
}

/// Savepoints inside a transaction: one for each job, and one for each step or record of it that may be undone. That of a
/// nested record is inside the outer one, and has the same name.
struct Savepoints {
    struct Savepoint {
        private let beginning: Statement
        private let release: Statement
        private let rollback: Statement

        fileprivate init(_ name: String, on connection: Connection) throws(StoreError) {
            beginning = try connection.prepare("SAVEPOINT \(name)")
            release = try connection.prepare("RELEASE \(name)")
            rollback = try connection.prepare("ROLLBACK TO \(name)")
        }

        func begin() throws(StoreError) { try beginning.run() }
        func end() throws(StoreError) { try release.run() }

        /// The savepoint stays.
        func undo() throws(StoreError) { try rollback.run() }

        func undoAndEnd() throws(StoreError) {
            try undo()
            try end()
        }
    }

    let job: Savepoint
    let record: Savepoint

    init(on connection: Connection) throws(StoreError) {
        job = try Savepoint("job", on: connection)
        record = try Savepoint("record", on: connection)
    }
}
