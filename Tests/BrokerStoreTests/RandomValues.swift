/// A JSON value of a random job; members keep their order, and a key may come twice.
indirect enum Tree {
    /// A scalar, or an attribute's value of any kind, as it is written.
    case literal(String)
    case array([Tree])
    case object([Member])

    struct Member {
        var key: String
        var value: Tree
    }

    var text: String {
        var text = ""
        _ = PlacedTree(self, writing: &text)
        return text
    }
}

/// A JSON value and where it begins in its text, in bytes.
struct PlacedTree {
    enum Form {
        case literal(String)
        case array([PlacedTree])
        case object([(key: String, value: PlacedTree)])
    }

    let offset: Int
    let form: Form

    init(_ tree: Tree, writing text: inout String) {
        offset = text.utf8.count
        switch tree {
        case .literal(let literal):
            text += literal
            form = .literal(literal)
        case .array(let elements):
            form = .array(
                Self.separated(elements, "[", "]", &text) { element, text in PlacedTree(element, writing: &text) })
        case .object(let members):
            form = .object(
                Self.separated(members, "{", "}", &text) { member, text in
                    text += "\"\(member.key)\": "
                    return (member.key, PlacedTree(member.value, writing: &text))
                })
        }
    }

    private static func separated<Item, Placed>(
        _ items: [Item], _ opening: String, _ closing: String, _ text: inout String,
        _ place: (Item, inout String) -> Placed
    ) -> [Placed] {
        text += opening
        var placed: [Placed] = []
        for item in items {
            if !placed.isEmpty { text += ", " }
            placed.append(place(item, &text))
        }
        text += closing
        return placed
    }

    var isNull: Bool { if case .literal("null") = form { true } else { false } }

    /// The value of a key; the last of duplicate keys wins.
    subscript(key: String) -> PlacedTree? {
        guard case .object(let members) = form else { return nil }
        return members.last { $0.key == key }?.value
    }
}

/// The types of random attributes: a few values of each as JSON, what a table holds for them, and what is no such value.
///
/// The contents of a table, as `SQLRows` reads them. The first values are the identities that jobs share.
enum SampleType: String, CaseIterable {
    case integer16, integer64, string, boolean, double, decimal, date, calendarDate, binary, uuid, transformable

    var samples: [(json: String, stored: String)] {
        switch self {
        case .integer16, .integer64:
            [("1", "1"), ("2", "2"), ("3", "3"), ("4", "4"), ("\"2\"", "2"), ("true", "1"), ("9", "9")]
        case .string:
            [
                ("\"a\"", "a"), ("\"b\"", "b"), ("\"c\"", "c"), ("1", "1"), ("\"\\u0061\"", "a"), ("true", "true"),
                ("\"long\"", "long"), ("\"abc\"", "abc"),
            ]
        case .boolean: [("true", "1"), ("false", "0"), ("1", "1"), ("\"no\"", "0"), ("\"T\"", "1")]
        case .double: [("0.0", "0.0"), ("-0.0", "0.0"), ("1.5", "1.5"), ("\"1.5\"", "1.5"), ("2", "2.0")]
        case .decimal: [("1.5", "1.5"), ("\"1.50\"", "1.50"), ("2", "2"), ("\"+2\"", "2"), ("0.1", "0.1")]
        case .date:
            [
                ("0", "1970-01-01T00:00:00.000Z"), ("86400", "1970-01-02T00:00:00.000Z"),
                ("\"1970-01-01\"", "1970-01-01T00:00:00.000Z"),
                ("\"1970-01-02T01:00:00+01:00\"", "1970-01-02T00:00:00.000Z"),
            ]
        case .calendarDate:
            [("\"1970-01-01\"", "1970-01-01"), ("\"2000-02-29\"", "2000-02-29"), ("\"0001-01-01\"", "0001-01-01")]
        case .binary: [("\"AQ==\"", "x'01'"), ("\"Ag==\"", "x'02'"), ("\"AQ\"", "x'01'"), ("\"AwQ=\"", "x'0304'")]
        case .uuid:
            [
                ("\"00000000-0000-0000-0000-00000000000a\"", "00000000-0000-0000-0000-00000000000A"),
                ("\"00000000-0000-0000-0000-00000000000A\"", "00000000-0000-0000-0000-00000000000A"),
                ("\"00000000-0000-0000-0000-00000000000B\"", "00000000-0000-0000-0000-00000000000B"),
            ]
        case .transformable:
            [("[1, {\"a\": 2}]", "[1,{\"a\":2}]"), ("5", "5"), ("\"t\"", "\"t\""), ("{}", "{}")]
        }
    }

    /// JSON that is no value of this type.
    var wrong: [String] {
        switch self {
        case .integer16: ["3.7", "\"abc\"", "40000", "{}"]
        case .integer64: ["3.7", "\"abc\"", "[]"]
        case .string: ["{}", "[1]"]
        case .boolean: ["2", "\"maybe\"", "{}"]
        case .double, .decimal: ["\"abc\"", "[]"]
        case .date: ["\"soon\"", "{}"]
        case .calendarDate: ["0", "\"1970-01-01T00:00:00Z\"", "\"2001-02-29\""]
        case .binary: ["\"*\"", "{}"]
        case .uuid: ["\"abc\"", "{}"]
        case .transformable: []
        }
    }

    /// The stored value for that JSON; nil when it is no value of this type.
    func stored(_ json: String) -> String? { samples.first { $0.json == json }?.stored }
}

/// A limit of a random attribute's values.
enum SampleLimit {
    case range(ClosedRange<Int>)
    case maximumLength(Int)
    case pattern(Character)
    case oneOf([String])

    var json: String {
        switch self {
        case .range(let range): "\"min\": \(range.lowerBound), \"max\": \(range.upperBound)"
        case .maximumLength(let length): "\"maxLength\": \(length)"
        case .pattern(let first): "\"pattern\": \"^\(first).*$\""
        case .oneOf(let texts): "\"enum\": [\(texts.map { "\"\($0)\"" }.joined(separator: ", "))]"
        }
    }

    func allows(_ stored: String) -> Bool {
        switch self {
        case .range(let range): range.contains(Int(stored)!)
        case .maximumLength(let length): stored.count <= length
        case .pattern(let first): stored.first == first
        case .oneOf(let texts): texts.contains(stored)
        }
    }
}
