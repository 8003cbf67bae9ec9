/// Names for attributes and relationships, which predicates and SQL can say without quotes.
struct PropertyNames {
    private var taken: Set<String>

    /// - Parameter reserved: names that the entity has already.
    init(reserved: [String] = []) { taken = Set(reserved.map { $0.lowercased() } + ["_pk", "_rowid_", "_entity"]) }

    /// A name for the values at a key path: its keys, joined by `_`. A key such as `$oid` says nothing.
    mutating func name(for path: [String]) -> String {
        let plain = path.filter { !$0.hasPrefix("$") }
        let first = Self.plain(plain.isEmpty ? path : plain)
        var name = first
        var number = 2
        // SQLite takes names for the same that differ in the case of ASCII letters.
        while !taken.insert(name.lowercased()).inserted {
            name = "\(first)\(number)"
            number += 1
        }
        return name
    }

    /// Letters, digits and underscores; other characters become one underscore.
    private static func plain(_ path: [String]) -> String {
        let parts = path.map { key in
            var name = ""
            for scalar in key.unicodeScalars {
                let isPlain =
                    scalar.value >= 0x80 || scalar == "_" || scalar.properties.isAlphabetic
                    || ("0"..."9").contains(scalar)
                if isPlain {
                    name.unicodeScalars.append(scalar)
                } else if name.last != "_", !name.isEmpty {
                    name += "_"
                }
            }
            while name.last == "_", key.last != "_" { name.removeLast() }
            return name
        }
        let name = parts.filter { !$0.isEmpty }.joined(separator: "_")
        if name.isEmpty { return "column" }
        return name.first!.isNumber ? "_" + name : name
    }

    /// A key path can name the key.
    static func isNameable(_ key: String) -> Bool {
        !key.isEmpty && !key.contains(".") && key.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
    }
}
