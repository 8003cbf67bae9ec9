internal import BrokerModel
internal import BrokerStaging

/// The condition that selects objects of an entity, which it refers to as `o`.
struct SelectedObjects {
    private let predicate: PredicateSQL?

    init(_ selection: StagedSelection, _ merger: Merger) {
        predicate = selection.predicate.map {
            PredicateSQL(
                $0, entity: selection.entity, plan: merger.plan, alias: "o", charging: merger.historyTables.longColumns)
        }
    }

    var condition: String { predicate.map { "(\($0.condition))" } ?? "true" }

    /// Binds the values of the condition, from the first parameter on.
    ///
    /// - Returns: the next parameter's index.
    @discardableResult
    func bind(to statement: Statement) -> Int { predicate?.bind(to: statement, from: 1) ?? 1 }

    /// Runs the statements that evaluate the condition; when a pattern in it takes too long, the job is at fault.
    ///
    /// - Parameter pointer: the location of the operation.
    func searching(at pointer: String, _ body: () throws(MergeFailure) -> Void) throws(MergeFailure) {
        do throws(MergeFailure) {
            try body()
        } catch {
            guard case .store = error, let fault = predicate?.fault else { throw error }
            throw .fault(fault.at("\(pointer)/where"))
        }
    }
}
