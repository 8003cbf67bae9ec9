internal import BrokerModel
internal import BrokerStaging

/// The condition that tells which objects of an entity are selected, speaking of them as `o`.
struct SelectedObjects {
    private let predicate: PredicateSQL?

    init(_ selection: StagedSelection, _ merger: Merger) {
        predicate = selection.predicate.map {
            PredicateSQL($0, entity: selection.entity, plan: merger.plan, alias: "o", isCounted: true)
        }
    }

    var condition: String { predicate.map { "(\($0.condition))" } ?? "true" }

    /// Binds the values of the condition, from the first parameter on, and returns the next parameter's index.
    @discardableResult
    func bind(to statement: Statement) -> Int { predicate?.bind(to: statement, from: 1) ?? 1 }

    /// Runs what looks at the condition; when a pattern in it took too long, that is the job's fault.
    ///
    /// - Parameter pointer: of the operation.
    func searching(at pointer: String, _ body: () throws(MergeFailure) -> Void) throws(MergeFailure) {
        do throws(MergeFailure) {
            try body()
        } catch {
            guard case .store = error, var fault = predicate?.fault else { throw error }
            fault.path = "\(pointer)/where"
            throw .fault(fault)
        }
    }
}
