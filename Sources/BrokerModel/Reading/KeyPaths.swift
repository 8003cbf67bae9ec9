/// The key paths of an attribute or relationship.
enum KeyPaths {
    /// Returns those that `node` gives, or the one that follows from the name. Given paths are used unchanged, in any
    /// style; an empty array means that no record has the value.
    static func read(_ node: ModelNode?, name: String, style: KeyStyle) -> [[String]] {
        let implied = [[style.key(forName: name)]]
        guard let node else { return implied }
        let expected = "a key path like \"contact.email\" or an array of them"
        guard let elements = node.oneOrMore(expected: expected, mayBeEmpty: true) else { return implied }
        if elements.isEmpty { return [] }
        var paths: [[String]] = []
        for element in elements {
            guard let text = element.string() else { continue }
            let path = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
            if path.contains("") {
                element.report("the key path \"\(text)\" has an empty key; take out the dot too many")
            } else if paths.contains(path) {
                element.report("the key path \"\(text)\" occurs twice here; take one out")
            } else {
                paths.append(path)
            }
        }
        return paths.isEmpty ? implied : paths
    }
}
