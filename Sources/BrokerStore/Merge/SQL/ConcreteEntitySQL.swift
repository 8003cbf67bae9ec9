internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging

/// SQL about the concrete entities of a hierarchy table's rows, from the view of one of its entities.
///
/// A row of an ancestor becomes a row of the entity, and takes the defaults of its new attributes; a row of a subentity
/// remains one. For any other row the entity would become NULL, which the table rejects: the merge then reads the
/// stored entity.
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

    /// Rows of other entities may become rows of this one.
    var mayBecome: Bool { !ancestors.isEmpty }

    private func column(_ row: String) -> String { "\(row).\(quoted(entityColumnName))" }

    private var own: String { naming.names(plan.model.subentities(of: index)) }

    /// The condition that a row is not of this entity; empty where all rows are.
    func isAnother(_ row: String) -> [String] { mayBecome ? ["\(column(row)) NOT IN (\(own))"] : [] }

    /// The assignment of the concrete entity.
    func becoming(of row: String) -> [String] {
        guard mayBecome else { return [] }
        return [
            "\(quoted(entityColumnName)) = CASE WHEN \(column(row)) IN (\(own)) THEN \(column(row)) "
                + "WHEN \(column(row)) IN (\(naming.names(ancestors))) THEN \(name) END"
        ]
    }

    /// The assignment of a default to rows that did not have the attribute before; nil where all rows had it.
    ///
    /// - Parameters:
    ///   - value: the SQL of the default.
    ///   - otherwise: the SQL of the value for all other rows.
    func takingDefault(_ attribute: Int, _ value: String, of row: String, otherwise: String) -> String? {
        let lacking = ancestors.filter { !plan.model.entities[$0].attributeIndices.contains(attribute) }
        guard !lacking.isEmpty else { return nil }
        let name = quoted(plan.model.entities[index].attributes[attribute].column)
        return "\(name) = CASE WHEN \(column(row)) IN (\(naming.names(lacking))) THEN \(value) ELSE \(otherwise) END"
    }
}
