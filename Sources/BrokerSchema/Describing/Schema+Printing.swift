package import BrokerModel

extension Schema {
    /// The statements that create the whole schema of a model, one after the other, as `broker model schema` prints
    /// them.
    package static func sql(of model: Model) -> String {
        let (schema, comments) = (Schema(model), SchemaComments(model))
        let tables = schema.tables.flatMap { [$0.sql(comments.comments(on: $0))] + $0.indexDefinitions.map(\.sql) }
        let views = schema.views.map(\.sql) + ReadableViews(model).views.map(\.sql)
        return (tables + views).map { $0 + ";\n" }.joined()
    }
}
