internal import BrokerModel

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

    /// The singular of the last word; where that is not certain, the word itself.
    static func singular(_ stem: String) -> String {
        guard let last = stem.split(separator: "_").last.map(String.init) else { return stem }
        return stem.dropLast(last.count) + (irregular[last] ?? regular(last))
    }

    private static func regular(_ word: String) -> String {
        guard word.count > 3, word.hasSuffix("s"), !["ss", "us", "is"].contains(where: word.hasSuffix) else {
            return word
        }
        if word.hasSuffix("ies"), word.count > 4 { return word.dropLast(3) + "y" }
        let sibilants = ["sses", "shes", "tches", "nches", "rches", "xes", "zzes", "tuses", "ruses", "nuses", "puses"]
        return String(word.dropLast(sibilants.contains(where: word.hasSuffix) ? 2 : 1))
    }

    /// Words with another singular than the rules give, and words that have none.
    private static let irregular: [String: String] = {
        let pairs = [
            "aliases": "alias", "analyses": "analysis", "appendices": "appendix", "axes": "axis", "biases": "bias",
            "bonuses": "bonus", "buses": "bus", "canvases": "canvas", "children": "child", "cookies": "cookie",
            "crises": "crisis", "criteria": "criterion", "diagnoses": "diagnosis", "feet": "foot", "focuses": "focus",
            "gases": "gas", "halves": "half", "heroes": "hero", "hypotheses": "hypothesis", "ids": "id",
            "indices": "index",
            "ips": "ip", "knives": "knife", "leaves": "leaf", "lenses": "lens", "lives": "life", "matrices": "matrix",
            "men": "man", "mice": "mouse", "movies": "movie", "people": "person", "potatoes": "potato",
            "quizzes": "quiz", "shelves": "shelf", "switches": "switch", "teeth": "tooth", "theses": "thesis",
            "ties": "tie", "tomatoes": "tomato", "vertices": "vertex", "wives": "wife", "wolves": "wolf",
            "women": "woman",
        ]
        let same = [
            "alias", "always", "atlas", "aws", "bias", "canvas", "chaos", "christmas", "cms", "cosmos", "css", "dns",
            "does", "gas", "gps", "has", "https", "ios", "js", "kansas", "lens", "macos", "ms", "news", "pos", "series",
            "sms", "species", "texas", "tls", "was",
        ]
        return pairs.merging(same.map { ($0, $0) }) { first, _ in first }
    }()

    /// The plural of the last word.
    static func plural(_ name: String) -> String {
        let word = words(name).split(separator: "_").last.map(String.init) ?? ""
        if let plural = irregular.filter({ $0.value == word && $0.key != word }).map(\.key).min() {
            let isCapital = name.dropLast(word.count - 1).last?.isUppercase ?? false
            return name.dropLast(word.count) + (isCapital ? plural.prefix(1).uppercased() + plural.dropFirst() : plural)
        }
        if irregular[word] == word { return name }
        if word.hasSuffix("y"), !["ay", "ey", "oy", "uy"].contains(where: word.hasSuffix) {
            return name.dropLast() + "ies"
        }
        return ["s", "x", "ch", "sh"].contains(where: word.hasSuffix) ? name + "es" : name + "s"
    }

    /// A table of that name needs quotes in SQL (sqlite.org/lang_keywords.html).
    static func isReserved(_ name: String) -> Bool { reserved.contains(name.uppercased()) }

    private static let reserved: Set<String> = [
        "ADD", "ALL", "ALTER", "AND", "AS", "AUTOINCREMENT", "BETWEEN", "CASE", "CHECK", "COLLATE", "COMMIT",
        "CONSTRAINT", "CREATE", "DEFAULT", "DEFERRABLE", "DELETE", "DISTINCT", "DROP", "ELSE", "ESCAPE", "EXISTS",
        "FOREIGN", "FROM", "GROUP", "HAVING", "IN", "INDEX", "INSERT", "INTO", "IS", "ISNULL", "JOIN", "LIMIT", "NOT",
        "NOTHING", "NOTNULL", "NULL", "ON", "OR", "ORDER", "PRIMARY", "REFERENCES", "RETURNING", "SELECT", "SET",
        "TABLE", "THEN", "TO", "TRANSACTION", "UNION", "UNIQUE", "UPDATE", "USING", "VALUES", "WHEN", "WHERE",
    ]

    static func camel(_ stem: String) -> String {
        stem.split(separator: "_").map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
    }
}

/// How the tables of an inferred model are named, for the eyes of SQL alone.
package enum NameStyle: String, CaseIterable, Sendable {
    /// `customer_order` of the entity `CustomerOrder`.
    case snake
    /// `customer_orders`.
    case plural

    func table(of entity: String) -> String {
        let words = EntityName.words(entity)
        return self == .snake ? words : EntityName.plural(words)
    }

    /// All tables of the model are named so.
    func isThat(of model: Model) -> Bool {
        model.entities.allSatisfy { entity in
            let table = table(of: entity.name)
            return entity.parent != nil || entity.table == table || EntityName.isReserved(table)
        }
    }
}

/// Names for attributes and relationships, which predicates and SQL can say without quotes.
struct PropertyNames {
    private var taken: Set<String>

    init(reserved: [String] = []) {
        taken = Set(reserved.map { $0.lowercased() } + ["_pk", "_rowid_", "_entity", Attribute.extraName])
    }

    /// A name for the values at a key path: its keys, joined by `_`. A key such as `$oid` says nothing.
    mutating func name(for path: [String]) -> String {
        let plain = path.filter { !$0.hasPrefix("$") }
        let first = Self.shortened(Self.plain(plain.isEmpty ? path : plain))
        var name = first
        var number = 2
        // SQLite takes names for the same that differ in the case of ASCII letters.
        while !taken.insert(name.lowercased()).inserted {
            name = "\(first)\(number)"
            number += 1
        }
        return name
    }

    /// A name that is too long for a model, as its first words. Its key has the whole text.
    private static func shortened(_ name: String) -> String {
        guard name.utf8.count > ModelLimits.longestName - 8 else { return name }
        var short = ""
        for word in name.split(separator: "_") {
            guard short.utf8.count + word.utf8.count < longestShortName else { break }
            short += (short.isEmpty ? "" : "_") + word
        }
        if !short.isEmpty { return short }
        return String(name.unicodeScalars.prefix(longestShortName / 4))
    }

    private static let longestShortName = 120

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
