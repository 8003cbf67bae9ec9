/// The key paths of an attribute or relationship.
enum KeyPaths {
    /// Returns those that `node` gives, or the one that follows from the name. Given paths are used unchanged, in any
    /// style; an empty array means that no record has the value.
    ///
    /// - Parameter mayNameHolder: the paths are an attribute's, which may take its value from the record around its own.
    static func read(
        _ node: ModelNode?, name: String, style: KeyStyle, mayNameHolder: Bool = false
    ) -> [[String]] {
        let implied = [[style.key(forName: name)]]
        guard let node else { return implied }
        return paths(node, mayNameHolder: mayNameHolder) ?? implied
    }

    /// The paths of a field that has nothing but paths.
    static func read(_ node: ModelNode) -> [[String]] { paths(node, mayNameHolder: false) ?? [] }

    /// Nil when there is none because of faults.
    private static func paths(_ node: ModelNode, mayNameHolder: Bool) -> [[String]]? {
        let expected = "a key path like \"contact.email\" or an array of them"
        guard let elements = node.oneOrMore(expected: expected, mayBeEmpty: true) else { return nil }
        if elements.isEmpty { return [] }
        var paths: [[String]] = []
        for element in elements {
            guard let text = element.string() else { continue }
            let path = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
            if path.contains("") {
                element.report("the key path \"\(text)\" has an empty key; take out the dot too many")
            } else if paths.contains(path) {
                element.report("the key path \"\(text)\" occurs twice here; take one out")
            } else if let fault = holderFault(path, mayNameHolder: mayNameHolder) {
                element.report(fault)
            } else {
                paths.append(path)
            }
        }
        return paths.isEmpty ? nil : paths
    }

    /// The fault of a path that begins with `@parent`; nil for any other path and for a valid one.
    static func holderFault(_ path: [String], mayNameHolder: Bool) -> String? {
        guard HolderValue.isHolderPath(path) else { return nil }
        let text = path.joined(separator: ".")
        guard mayNameHolder else {
            return "\"\(text)\" can be the key of an attribute of an entity only; take it out"
        }
        return HolderValue(path) == nil
            ? "\"\(text)\" leads to no attribute of the record around this one; write \"@parent.<attribute>\" or "
                + "\"@parent.@index\"" : nil
    }
}
