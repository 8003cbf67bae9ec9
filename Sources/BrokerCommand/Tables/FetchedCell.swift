import BrokerJSON

/// A value of a fetched object as text.
struct FetchedCell {
    /// The path of its keys, joined by points.
    let name: String
    /// The content of a string, the JSON of an array; null is empty.
    let text: String
    let kind: JSONValue.Kind

    /// Whether nothing is lost without it.
    var isNull: Bool { kind == .null }

    private init(_ name: String, _ value: JSONValue) {
        self.name = name
        kind = value.kind
        text = value.isNull ? "" : String(decoding: value.bytes, as: UTF8.self)
    }

    /// The values of an object: those of nested objects by their paths.
    static func cells(of object: JSONValue) -> [FetchedCell] { cells(of: object, "") }

    private static func cells(of object: JSONValue, _ path: String) -> [FetchedCell] {
        object.members.flatMap { key, value in
            let name = path + String(decoding: key.bytes, as: UTF8.self)
            return value.kind == .object ? cells(of: value, name + ".") : [FetchedCell(name, value)]
        }
    }

    /// The values of an object whose names were selected: an object among them is JSON.
    static func selectedCells(of object: JSONValue) -> [FetchedCell] {
        object.members.map { key, value in FetchedCell(String(decoding: key.bytes, as: UTF8.self), value) }
    }

    /// As a field of CSV (RFC 4180). The empty text is in quotes, so that it is not read as null.
    var csv: String { Self.csv(text, isQuoted: text.isEmpty && !isNull) }

    /// - Parameter isQuoted: also where nothing in the text needs it.
    static func csv(_ text: String, isQuoted: Bool = false) -> String {
        guard isQuoted || text.utf8.contains(where: { #",""#.utf8.contains($0) || $0 == 0x0A || $0 == 0x0D }) else {
            return text
        }
        var quoted = "\"".unicodeScalars
        for scalar in text.unicodeScalars {
            if scalar == "\"" { quoted.append(scalar) }
            quoted.append(scalar)
        }
        quoted.append("\"")
        return String(quoted)
    }
}
