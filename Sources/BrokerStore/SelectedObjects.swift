internal import BrokerModel
internal import BrokerStaging

/// The condition that tells which objects of an entity are selected, speaking of them as `o`.
struct SelectedObjects {
    let sql: String

    init(_ selection: StagedSelection, _ merger: Merger) { sql = "true" }

    func bind(to statement: Statement) {}
}
