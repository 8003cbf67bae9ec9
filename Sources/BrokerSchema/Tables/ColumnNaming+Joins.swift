internal import BrokerModel

/// The SQL that joins the rows at the two ends of a relationship.
extension ColumnNaming {
    /// The join of a relationship's link table as `links`; empty where the row of one of the objects has the link.
    package func linkJoin(_ entity: Int, _ relationship: Int, as links: String) -> String {
        guard case .linkTable(let number, _) = layout.entities[entity].forms[relationship] else { return "" }
        return "CROSS JOIN \(quoted(linkTable(layout.linkTables[number]))) AS \(links) "
    }

    /// The condition that the relationship leads from the row `near` of an entity to the row `far` of its destination.
    ///
    /// - Parameter links: the name in ``linkJoin(_:_:as:)``.
    package func isLinked(
        _ entity: Int, _ relationship: Int, from near: String, to far: String, over links: String
    ) -> String {
        let own = model.entities[entity].relationships[relationship]
        let (nearKey, farKey) = (keyColumns(entity).map(\.name), keyColumns(own.destination).map(\.name))
        func equal(_ left: String, _ leftNames: [String], _ right: String, _ rightNames: [String]) -> String {
            zip(leftNames, rightNames).map { "\(left).\(quoted($0)) = \(right).\(quoted($1))" }
                .joined(separator: " AND ")
        }
        switch layout.entities[entity].forms[relationship] {
        case .column: return equal(far, farKey, near, linkColumns(own))
        case .destinationColumn(let column):
            let link = layout.entities[own.destination].link(atColumn: column)
            let inverse = model.entities[own.destination].relationships[link.relationship]
            return equal(far, linkColumns(inverse), near, nearKey)
        case .linkTable(let number, let isReversed):
            let sides = linkSides(layout.linkTables[number])
            return equal(links, sides[isReversed ? 1 : 0], near, nearKey) + " AND "
                + equal(far, farKey, links, sides[isReversed ? 0 : 1])
        }
    }
}
