import BrokerJSON
import BrokerPaths

/// Reads the model's `routes`.
struct RouteReader {
    let mappings: MappingReader

    /// Only meaningful when no fault was reported.
    func read(_ nodes: [ModelNode]) -> [Route] { nodes.compactMap(read) }

    private func read(_ node: ModelNode) -> Route? {
        guard let fields = ModelFields(of: node, vocabulary: .route) else { return nil }
        var route = Route(mapping: nil, place: node.place)
        if let path = fields["path"], let text = path.string() {
            do throws(PathPatternError) {
                route.pattern = try PathPattern(text)
            } catch {
                path.report(error.description)
            }
        }
        if let keyPath = fields["keyPath"] { route.keyPath = self.keyPath(keyPath) }
        if fields["path"] == nil, fields["keyPath"] == nil {
            node.report("the route does not say which payloads it is for; add a \"path\" or a \"keyPath\"")
        }
        let isError = fields.flag("error")
        switch (fields["mapping"], isError) {
        case (let mapping?, false): route.mapping = mappings.mapping(namedBy: mapping)
        case (let mapping?, true):
            mapping.report("a route leads either to a mapping or to an error; take one out")
        case (nil, true): break
        case (nil, false):
            node.report("the route leads nowhere; add \"mapping\" with the name of one, or \"error\": true")
        }
        return route
    }

    private func keyPath(_ node: ModelNode) -> [String]? {
        guard let text = node.string() else { return nil }
        let keys = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard !keys.contains("") else {
            node.report("the key path \"\(text)\" has an empty key; take out the dot too many")
            return nil
        }
        return keys
    }
}
