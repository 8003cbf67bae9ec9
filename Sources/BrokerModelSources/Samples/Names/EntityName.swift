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
