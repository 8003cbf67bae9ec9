internal import BrokerModel
internal import BrokerStaging

/// What statements on a hierarchy's table say of the kinds of its rows, as one of its entities sees them.
///
/// A row of an ancestor becomes one of the entity, and takes the defaults of what is new to it; one of a subentity stays what
/// it is. Of any other row the kind would become NULL, which the table refuses: who merges then looks what is there.
struct ConcreteEntitySQL {
    /// The entity's name as a literal.
    let name: String
    private let plan: StagingPlan
    private let naming: ColumnNaming
    private let index: Int
    private let ancestors: [Int]

    init(_ index: Int, _ plan: StagingPlan, _ naming: ColumnNaming) {
        self.index = index
        self.plan = plan
        self.naming = naming
        name = naming.names([index])
        ancestors = plan.model.ancestors(of: index)
    }

    /// A row may become one of the entity.
    var mayBecome: Bool { !ancestors.isEmpty }

    private func column(_ row: String) -> String { "\(row).\(quoted(entityColumnName))" }

    private var own: String { naming.names(plan.model.subentities(of: index)) }

    /// The condition that a row is none of the entity's; none where all are.
    func isAnother(_ row: String) -> [String] { mayBecome ? ["\(column(row)) NOT IN (\(own))"] : [] }

    /// The assignment of the kind.
    func becoming(of row: String) -> [String] {
        guard mayBecome else { return [] }
        return [
            "\(quoted(entityColumnName)) = CASE WHEN \(column(row)) IN (\(own)) THEN \(column(row)) "
                + "WHEN \(column(row)) IN (\(naming.names(ancestors))) THEN \(name) END"
        ]
    }

    /// The assignment of a default to rows that had no such attribute before; nil where all rows had it.
    ///
    /// - Parameters:
    ///   - value: what the default is called in the statement.
    ///   - otherwise: what the others get.
    func takingDefault(_ attribute: Int, _ value: String, of row: String, otherwise: String) -> String? {
        let lacking = ancestors.filter { !plan.model.entities[$0].attributeIndices.contains(attribute) }
        guard !lacking.isEmpty else { return nil }
        let name = quoted(plan.model.entities[index].attributes[attribute].column)
        return "\(name) = CASE WHEN \(column(row)) IN (\(naming.names(lacking))) THEN \(value) ELSE \(otherwise) END"
    }
}
