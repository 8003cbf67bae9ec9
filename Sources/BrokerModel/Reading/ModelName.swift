/// The rules for the names of a model's parts. The store quotes names, so almost all characters are allowed.
enum ModelName {
    /// The fault of the name of an attribute or relationship; nil for a valid name.
    static func fault(ofProperty name: String) -> String? {
        if let fault = fault(of: name) { return fault }
        if name.contains(".") {
            return
                "a name with a dot cannot be distinguished from a path; take the dot out and give the path as \"key\""
        }
        if folded(name) == "_pk" { return "the column \"_pk\" is Broker's own; choose another name" }
        return nil
    }

    /// The fault of a table's name; nil for a valid name.
    static func fault(ofTable name: String) -> String? {
        if let fault = fault(of: name) { return fault }
        for (prefix, owner) in [("_broker_", "Broker's"), ("sqlite_", "SQLite's")] where folded(name).hasPrefix(prefix)
        {
            return "tables whose names begin with \"\(prefix)\" are \(owner) own; choose another name"
        }
        return nil
    }

    private static func fault(of name: String) -> String? {
        if name.isEmpty { return "the name is empty; give it one" }
        if name.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) {
            return "the name holds a control character; take it out"
        }
        return nil
    }

    /// Equal for names that SQLite treats as equal: it ignores the case of ASCII letters only.
    static func folded(_ name: String) -> String {
        String(decoding: name.utf8.map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }, as: UTF8.self)
    }
}
