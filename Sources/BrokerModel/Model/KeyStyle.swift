/// The rule by which the JSON key of an attribute or relationship follows from its name when the model gives none.
package enum KeyStyle: String, Sendable, CaseIterable {
    case exact
    /// `hiredAt` ← `hired_at`; a run of capitals is one word: `userID` ← `user_id`, `URLString` ← `url_string`.
    case snakeCase

    package func key(forName name: String) -> String {
        switch self {
        case .exact: name
        case .snakeCase: Self.snakeCase(name)
        }
    }

    private static func snakeCase(_ name: String) -> String {
        let characters = Array(name)
        var key = ""
        for (index, character) in characters.enumerated() {
            if index > 0, beginsWord(at: index, in: characters) { key.append("_") }
            key += character.lowercased()
        }
        return key
    }

    private static func beginsWord(at index: Int, in characters: [Character]) -> Bool {
        let previous = characters[index - 1]
        guard characters[index].isUppercase, previous != "_" else { return false }
        guard previous.isUppercase else { return true }
        // Inside a run of capitals only the last one can begin a word, when small letters follow: `URL|String`.
        guard index + 1 < characters.count, characters[index + 1].isLowercase else { return false }
        return !isPlural(at: index + 1, in: characters)
    }

    /// The small `s` of `userIDs` belongs to the preceding capitals.
    private static func isPlural(at index: Int, in characters: [Character]) -> Bool {
        characters[index] == "s" && (index + 1 == characters.count || !characters[index + 1].isLowercase)
    }
}
