/// How far the name of a key says that its values identify objects.
struct IdentityName: Comparable {
    enum Tier: Int {
        /// `id` and the like: objects with the same value are versions of one object.
        case identifier
        /// Codes and addresses, which usually identify.
        case code
        /// Names, which often identify.
        case label
        /// Ends like an identifier or a code, perhaps of another object.
        case suffix
    }

    let tier: Tier
    private let rank: Int

    private static let identifiers = [
        "id", "", "uuid", "guid", "id_str", "object_id", "gid", "oid", "pk", "sha", "isbn", "isbn13", "isbn_13", "doi",
        "issn", "serial_number", "ean", "gtin", "vin", "node_id",
    ]
    private static let codes = [
        "alpha_3", "cca3", "iso_a3", "iso3", "alpha_2", "cca2", "iso_a2", "iso2", "alpha_4", "code", "key", "slug",
        "symbol", "iata", "icao", "ident", "identifier", "handle", "login", "username", "user_name", "screen_name",
        "email", "abbreviation", "uri", "url", "href", "link", "self", "permalink",
        "domain", "hostname",
    ]
    private static let labels = [
        "name", "", "title", "full_name", "label", "path", "filename", "file", "file_name", "number", "date",
        "datetime",
        "timestamp", "time", "day", "month", "year",
    ]
    private static let suffixes = ["_id", "_uuid", "_guid", "_code", "_key", "_slug", "_sha", "_str", "_no", "_number"]

    /// - Parameter entity: the name of the objects' entity; empty when it is not known.
    init?(_ key: String, of entity: String) {
        let word = EntityName.words(key)
        let stem = EntityName.words(entity)
        let own = stem.isEmpty ? [] : [stem] + (stem.split(separator: "_").last.map { [String($0)] } ?? [])
        if let rank = Self.identifiers.firstIndex(of: word), !word.isEmpty {
            (tier, self.rank) = (.identifier, rank)
        } else if own.contains(where: { word == $0 + "_id" || word == $0 + "id" }) {
            (tier, rank) = (.identifier, 1)
        } else if let rank = Self.codes.firstIndex(of: word) {
            (tier, self.rank) = (.code, rank)
        } else if own.contains(where: { word == $0 + "_code" || word == $0 + "_key" || word == $0 }) {
            (tier, rank) = (.code, Self.codes.count)
        } else if let rank = Self.labels.firstIndex(of: word), !word.isEmpty {
            (tier, self.rank) = (.label, rank)
        } else if own.contains(where: { word == $0 + "_name" }) {
            (tier, rank) = (.label, 1)
        } else if let rank = Self.suffixes.firstIndex(where: word.hasSuffix) {
            (tier, self.rank) = (.suffix, rank)
        } else {
            return nil
        }
    }

    static func < (one: IdentityName, other: IdentityName) -> Bool {
        (one.tier.rawValue, one.rank) < (other.tier.rawValue, other.rank)
    }
}

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
