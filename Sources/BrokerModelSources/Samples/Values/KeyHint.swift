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

    /// In small letters: `createdAt`, `created_at` and `Created at` have the words `created` and `at`.
    private static func words(of key: String) -> [String] {
        var words: [String] = []
        var word = ""
        var wasSmall = false
        for character in key {
            let isPart = character.isLetter || character.isNumber
            if !isPart || (character.isUppercase && wasSmall), !word.isEmpty {
                words.append(word)
                word = ""
            }
            if isPart { word += character.lowercased() }
            wasSmall = character.isLowercase || character.isNumber
        }
        return word.isEmpty ? words : words + [word]
    }
}
