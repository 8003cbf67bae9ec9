/// The key paths of an attribute or relationship.
enum KeyPaths {
    /// Returns those that `node` gives, or the one that follows from the name. Given paths are used unchanged, in any
    /// style; an empty array means that no record has the value.
    ///
    /// - Parameters:
    ///   - name: the name, or the one before: what is renamed keeps its key.
    ///   - mayNameHolder: the paths are an attribute's, which may take its value from the record around its own.
    static func read(
        _ node: ModelNode?, name: String, style: KeyStyle, mayNameHolder: Bool = false
    ) -> [[String]] {
        let implied = [[style.key(forName: name)]]
        guard let node else { return implied }
        return paths(node, mayNameHolder: mayNameHolder) ?? implied
    }

    /// Nil when there is none because of faults.
    ///
    /// - Parameter isList: a text in an array is a path, also where it is the only one.
    static func paths(_ node: ModelNode, mayNameHolder: Bool, isList: Bool = false) -> [[String]]? {
        let expected = "a key path like \"contact.email\" or an array of them"
        guard let elements = node.oneOrMore(expected: expected, mayBeEmpty: true) else { return nil }
        if elements.isEmpty { return [] }
        // One text in an array is a key as it is.
        if !isList, node.value.kind == .array, elements.count == 1, let key = elements[0].value.string,
            !HolderValue.isHolderPath(key.split(separator: ".").map(String.init))
        {
            return [[key]]
        }
        var paths: [[String]] = []
        for element in elements {
            guard let path = path(element) else { continue }
            if paths.contains(where: { $0.elementsEqual(path) { $0.hasSameBytes(as: $1) } }) {
                element.report("the key path \"\(path.joined(separator: "."))\" occurs twice here; take one out")
            } else if let fault = holderFault(path, mayNameHolder: mayNameHolder) {
                element.report(fault)
            } else {
                paths.append(path)
            }
        }
        return paths.isEmpty ? nil : paths
    }

    private static func path(_ node: ModelNode) -> [String]? {
        guard node.value.kind == .array else { return node.string().flatMap(node.keyPath) }
        let expected = "an array of the keys of one path"
        guard let keys = node.elements(expected: expected) else { return nil }
        let texts = keys.compactMap(\.value.string)
        return texts.count == keys.count ? texts : node.refuse("expected \(expected), all of them texts")
    }

    /// The fault of a path that begins with `@parent` or `@record`; nil for any other path and for a valid one.
    static func holderFault(_ path: [String], mayNameHolder: Bool) -> String? {
        guard HolderValue.isHolderPath(path) else { return nil }
        let text = path.joined(separator: ".")
        guard mayNameHolder else {
            return "\"\(text)\" can be the key of an attribute of an entity only; take it out"
        }
        return HolderValue(path) == nil
            ? "\"\(text)\" leads to no attribute of the record around this one; write \"@parent.<attribute>\", "
                + "\"@parent.@index\", or \"@record.@content\"" : nil
    }
}
