internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

extension ObjectShape {
    /// Objects that have the selected values alone, each by the name with which it was selected.
    init(selecting values: [FetchRequest.SelectedValue], of entity: Int, _ style: Style, _ plan: StagingPlan) {
        var builder = ShapeBuilder(plan: plan, style: style, entity: entity)
        let members = values.map { Member(key: $0.name, node: builder.node(of: $0, entity)) }
        self.init(builder, .object(members))
    }
}

extension ShapeBuilder {
    fileprivate mutating func node(of value: FetchRequest.SelectedValue, _ entity: Int) -> ObjectShape.Node {
        let end = plan.model.end(of: value.path, from: entity)
        func column(_ name: String) -> String {
            naming.value(of: name, atEnd: value.path[...], of: entity, ObjectShape.alias)
        }
        switch value.kind {
        case .attribute(let position):
            let attribute = plan.model.entities[end].attributes[position]
            return self.value(attribute, position, of: end, at: column(attribute.column))
        case .relationship(let position):
            let relationship = plan.model.entities[end].relationships[position]
            return link(relationship, at: naming.linkColumns(relationship).map(column))
        }
    }
}

extension Model {
    /// The entity at the end of a path of relationships.
    func end(of path: [Int], from entity: Int) -> Int {
        path.reduce(entity) { entities[$0].relationships[$1].destination }
    }
}

extension ColumnNaming {
    /// The SQL of a column's value at the end of to-one relationships; NULL where a link is missing.
    func value(
        of column: String, atEnd path: ArraySlice<Int>, of entity: Int, _ alias: String, depth: Int = 0
    ) -> String {
        guard let first = path.first else { return "\(alias).\(quoted(column))" }
        let destination = model.entities[entity].relationships[first].destination
        let next = "s\(depth)"
        let value = value(of: column, atEnd: path.dropFirst(), of: destination, next, depth: depth + 1)
        let condition = isLinked(entity, first, from: alias, to: next, over: "l")
        return "(SELECT \(value) FROM \(quoted(model.table(of: destination))) AS \(next) WHERE \(condition))"
    }
}
