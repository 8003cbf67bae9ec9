/// Names of entities from the keys that hold their objects.
enum EntityName {
    /// `screenName`, `screen-name` and `ScreenName` are `screen_name`.
    static func words(_ key: String) -> String {
        var words = ""
        var wasLower = false
        for character in key {
            guard character.isLetter || character.isNumber else {
                if !words.isEmpty, words.last != "_" { words.append("_") }
                wasLower = false
                continue
            }
            if character.isUppercase, wasLower { words.append("_") }
            words += character.lowercased()
            wasLower = character.isLowercase || character.isNumber
        }
        return words.last == "_" ? String(words.dropLast()) : words
    }

    static func singular(_ stem: String) -> String {
        if stem.hasSuffix("ies"), stem.count > 4 { return stem.dropLast(3) + "y" }
        if stem.hasSuffix("sses") || stem.hasSuffix("uses") || stem.hasSuffix("xes") || stem.hasSuffix("ches") {
            return String(stem.dropLast(2))
        }
        if stem.hasSuffix("s"), !stem.hasSuffix("ss"), !stem.hasSuffix("us"), stem.count > 2 {
            return String(stem.dropLast())
        }
        return stem
    }

    static func camel(_ stem: String) -> String {
        stem.split(separator: "_").map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    }
}

/// Names for attributes and relationships, which predicates and SQL can say without quotes.
struct PropertyNames {
    private var taken: Set<String>

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

/// Meanings of a key that its words show.
enum KeyHint {
    /// The key ends in a word for a time, or begins with one: `created_at`, `lastModified`, `dateAdded`.
    static func isOfTime(_ key: String) -> Bool {
        let words = words(of: key)
        guard let last = words.last else { return false }
        return timeWords.contains(last) || words[0] == "date" || words[0] == "time"
    }

    private static let timeWords: Set<String> = [
        "accessed", "added", "at", "changed", "closed", "created", "date", "datetime", "deleted", "dt", "ended",
        "epoch",
        "expires", "expiry", "finished", "modified", "on", "opened", "published", "pushed", "since", "started",
        "sunrise",
        "sunset", "time", "timestamp", "ts", "until", "updated", "utc",
    ]

    /// The values are codes that are written with digits, such as postal codes and telephone numbers: a leading zero is
    /// part of them.
    static func isOfCode(_ key: String) -> Bool { words(of: key).contains { codeWords.contains($0) } }

    private static let codeWords: Set<String> = [
        "account", "barcode", "cell", "code", "ean", "fax", "gtin", "iban", "isbn", "issn", "mobile", "phone", "plz",
        "postal", "postcode", "sku", "ssn", "tel", "telephone", "upc", "vat", "zip", "zipcode",
    ]

    private static func words(of key: String) -> [String] {
        EntityName.words(key).split(separator: "_").map(String.init)
    }
}
