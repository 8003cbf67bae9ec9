/// A model as the text of a diagram for two programs that draw: the entities with their attributes, the relationships
/// with their multiplicities, and the hierarchy.
///
/// Drawn from a document that ``ModelReader`` accepts; from any other document it draws the parts that it recognises.
package struct ModelDiagram {
    private struct Box {
        let name: String
        let isAbstract: Bool
        let parent: String?
        let lines: [String]
    }

    private struct Edge {
        let source: Int
        let destination: Int
        let label: String
        let isToMany: Bool
        /// The multiplicity of the inverse; nil without one.
        let isInverseToMany: Bool?
    }

    private var boxes: [Box] = []
    private var edges: [Edge] = []

    package init(_ document: ModelDocument) {
        let entities = document.root["entities"]?.members ?? []
        boxes = entities.map(Self.box)
        var drawn: Set<[String]> = []
        for (source, entity) in entities.enumerated() {
            for relationship in entity.value["relationships"]?.members ?? [] {
                guard let name = relationship.value["entity"]?.string,
                    let destination = entities.firstIndex(where: { $0.key.hasSameBytes(as: name) })
                else { continue }
                let inverse = Self.inverse(of: relationship, from: entity, among: entities[destination].value)
                guard !drawn.contains([entity.key, relationship.key]) else { continue }
                drawn.insert([entity.key, relationship.key])
                if let inverse { drawn.insert([name, inverse.key]) }
                let isSelfInverse = source == destination && inverse?.key == relationship.key
                let label = inverse.map { isSelfInverse ? relationship.key : "\(relationship.key) / \($0.key)" }
                edges.append(
                    Edge(
                        source: source, destination: destination, label: label ?? relationship.key,
                        isToMany: relationship.value["toMany"]?.bool ?? false,
                        isInverseToMany: inverse.map { $0.value["toMany"]?.bool ?? false }))
            }
        }
    }

    private static func box(_ entity: ModelValue.Member) -> Box {
        let identity = entity.value["identity"]?.oneOrMoreStrings ?? []
        let lines = (entity.value["attributes"]?.members ?? []).map { attribute in
            let type = attribute.value.string ?? attribute.value["type"]?.string ?? ""
            let isIdentity = identity.contains { $0.hasSameBytes(as: attribute.key) }
            return "\(attribute.key) \(type)" + (isIdentity ? " identity" : "")
        }
        return Box(
            name: entity.key, isAbstract: entity.value["abstract"]?.bool ?? false,
            parent: entity.value["parent"]?.string, lines: lines)
    }

    /// The relationship at the other end; either of the two may name the other.
    private static func inverse(
        of relationship: ModelValue.Member, from entity: ModelValue.Member, among destination: ModelValue
    ) -> ModelValue.Member? {
        let others = destination["relationships"]?.members ?? []
        if let name = relationship.value["inverse"]?.string {
            return others.first { $0.key.hasSameBytes(as: name) }
        }
        return others.first { other in
            other.value["inverse"]?.string?.hasSameBytes(as: relationship.key) ?? false
                && other.value["entity"]?.string?.hasSameBytes(as: entity.key) ?? false
        }
    }
}

// MARK: - Mermaid

extension ModelDiagram {
    /// A class diagram, because Mermaid's entity diagrams have no inheritance.
    package var mermaid: String {
        var lines = ["classDiagram"]
        for (index, box) in boxes.enumerated() {
            lines.append("    class E\(index)[\"\(Self.mermaid(box.name))\"] {")
            if box.isAbstract { lines.append("        <<abstract>>") }
            lines += box.lines.map { "        \(Self.mermaid($0))" }
            lines.append("    }")
        }
        for (index, box) in boxes.enumerated() {
            if let parent = self.index(of: box.parent) { lines.append("    E\(parent) <|-- E\(index)") }
        }
        for edge in edges {
            let near = edge.isInverseToMany.map { "\"\(Self.count($0))\" -- " } ?? "--> "
            lines.append(
                "    E\(edge.source) \(near)\"\(Self.count(edge.isToMany))\" E\(edge.destination) : "
                    + Self.mermaid(edge.label))
        }
        return lines.joined(separator: "\n")
    }

    /// Mermaid has no escapes; a character with a meaning becomes an underscore.
    private static func mermaid(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { isPlain($0) ? $0 : "_" }))
    }

    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isAlphabetic || scalar.properties.numericType != nil
            || "_-./ ".unicodeScalars.contains(scalar)
    }
}

// MARK: - Graphviz

extension ModelDiagram {
    package var graphviz: String {
        var lines = ["digraph model {", "    rankdir=LR;", "    node [shape=record];"]
        for (index, box) in boxes.enumerated() {
            let name = Self.graphviz(box.name) + (box.isAbstract ? "\\n(abstract)" : "")
            let attributes = box.lines.map { Self.graphviz($0) + "\\l" }.joined()
            lines.append("    e\(index) [label=\"{\(name)|\(attributes)}\"];")
        }
        for (index, box) in boxes.enumerated() {
            if let parent = self.index(of: box.parent) {
                lines.append("    e\(index) -> e\(parent) [arrowhead=empty];")
            }
        }
        for edge in edges {
            let tail = edge.isInverseToMany.map { ", taillabel=\"\(Self.count($0))\", arrowhead=none" } ?? ""
            lines.append(
                "    e\(edge.source) -> e\(edge.destination) [label=\"\(Self.graphviz(edge.label))\", "
                    + "headlabel=\"\(Self.count(edge.isToMany))\"\(tail)];")
        }
        return (lines + ["}"]).joined(separator: "\n")
    }

    /// A character with a meaning in quotes or in a record's label, after a backslash.
    private static func graphviz(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            if "\"\\{}|<>".unicodeScalars.contains(scalar) { escaped += "\\" }
            escaped.unicodeScalars.append(scalar.value < 0x20 ? " " : scalar)
        }
        return escaped
    }

    private static func count(_ isToMany: Bool) -> String { isToMany ? "0..*" : "0..1" }

    private func index(of name: String?) -> Int? {
        guard let name else { return nil }
        return boxes.firstIndex { $0.name.hasSameBytes(as: name) }
    }
}
