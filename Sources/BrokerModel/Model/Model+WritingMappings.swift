internal import BrokerJSON

/// Mappings and routes, in the form that ``MappingReader`` and ``RouteReader`` read.
extension Model {
    func writeMappings(to writer: inout JSONWriter) {
        if !mappings.isEmpty {
            writer.key("mappings")
            writer.object { writer in
                for mapping in mappings {
                    writer.key(mapping.name)
                    switch mapping.form {
                    case .record(let record): write(record, to: &writer)
                    case .select(let select): write(select, to: &writer)
                    }
                }
            }
        }
        if !routes.isEmpty {
            writer.key("routes")
            writer.array { writer in
                for route in routes { write(route, to: &writer) }
            }
        }
    }

    private func write(_ mapping: RecordMapping, to writer: inout JSONWriter) {
        let entity = entities[mapping.entity]
        let nesting = mapping.nesting.map { entity.attributes[$0.attribute].name }
        writer.object { writer in
            writer.member("entity", entity.name)
            if let nesting { writer.member("nestingKey", nesting) }
            if mapping.nesting?.isCollection ?? false { writer.member("collection", true) }
            if !mapping.attributes.isEmpty {
                writer.key("attributes")
                writer.object { writer in
                    for (index, paths) in mapping.attributes.sorted(by: { $0.key < $1.key }) {
                        for path in paths { writer.member(path.text(nesting), entity.attributes[index].name) }
                    }
                }
            }
            guard !mapping.relationships.isEmpty else { return }
            writer.key("relationships")
            writer.object { writer in
                for (index, mapped) in mapping.relationships.sorted(by: { $0.key < $1.key }) {
                    for path in mapped.paths {
                        write(mapped, path.text(nesting), entity.relationships[index].name, to: &writer)
                    }
                }
            }
        }
    }

    private func write(_ mapped: MappedRelationship, _ path: String, _ name: String, to writer: inout JSONWriter) {
        guard let mapping = mapped.mapping else { return writer.member(path, name) }
        writer.key(path)
        writer.object { writer in
            writer.member("relationship", name)
            writer.member("mapping", mappings[mapping].name)
        }
    }

    private func write(_ select: SelectMapping, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("select")
            writer.object { writer in
                writer.member("key", select.key.joined(separator: "."))
                writer.key("cases")
                writer.object { writer in
                    for choice in select.cases { writer.member(choice.value, mappings[choice.mapping].name) }
                }
                switch select.otherwise {
                case .mapping(let mapping): writer.member("otherwise", mappings[mapping].name)
                case .decline:
                    writer.key("otherwise")
                    writer.null()
                case .refuse: break
                }
            }
        }
    }

    private func write(_ route: Route, to writer: inout JSONWriter) {
        writer.object { writer in
            if let pattern = route.pattern { writer.member("path", pattern.text) }
            if let keyPath = route.keyPath { writer.member("keyPath", keyPath.joined(separator: ".")) }
            if let mapping = route.mapping {
                writer.member("mapping", mappings[mapping].name)
            } else {
                writer.member("error", true)
            }
        }
    }
}

extension MappedPath {
    fileprivate func text(_ nesting: String?) -> String {
        ((isBelowKey ? nesting.map { ["(\($0))"] } ?? [] : []) + keys).joined(separator: ".")
    }
}
