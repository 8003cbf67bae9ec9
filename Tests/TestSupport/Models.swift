/// Models for tests.
public enum Models {
    /// Objects with a number, and what a test wants in them.
    public static let rows = of(["Row": "id integer64, value integer64, text string"])

    /// Entities of plain attributes, the first of which identifies: `["Row": "id integer64, text string"]`.
    public static func of(_ entities: KeyValuePairs<String, String>) -> String {
        let entities = entities.map { name, attributes in
            let pairs = attributes.split(separator: ", ").map { $0.split(separator: " ") }
            let list = pairs.map { "\"\($0[0])\": \"\($0[1])\"" }.joined(separator: ", ")
            return "\"\(name)\": {\"identity\": \"\(pairs[0][0])\", \"attributes\": {\(list)}}"
        }
        return "{\"entities\": {\(entities.joined(separator: ", "))}}"
    }
}

/// A model with a relationship of every form.
public let company = """
    {"entities": {
      "Employee": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
        "department": {"entity": "Department", "inverse": "employees"},
        "manager": {"entity": "Employee", "inverse": "reports"},
        "reports": {"entity": "Employee", "toMany": true, "inverse": "manager"},
        "projects": {"entity": "Project", "toMany": true, "inverse": "members"},
        "friends": {"entity": "Employee", "toMany": true, "inverse": "friends"},
        "desk": {"entity": "Desk", "inverse": "owner"}, "spouse": {"entity": "Employee", "inverse": "spouse"},
        "skills": {"entity": "Skill", "toMany": true, "assignment": "replace"},
        "badge": {"entity": "Item", "missing": "fail"}, "locker": {"entity": "Item", "missing": "ignore"},
        "tool": {"entity": "Item"}, "seat": {"entity": "Seat"}, "notes": {"entity": "Note", "toMany": true}}},
      "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
        "employees": {"entity": "Employee", "toMany": true, "inverse": "department"}}},
      "Project": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
        "members": {"entity": "Employee", "toMany": true, "inverse": "projects"}}},
      "Desk": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
        "owner": {"entity": "Employee", "inverse": "desk"}}},
      "Skill": {"identity": "name", "attributes": {"name": "string"}},
      "Item": {"identity": "code", "attributes": {"code": "string", "label": "string"}},
      "Seat": {"identity": ["row", "number"], "attributes": {"row": "string", "number": "integer16"}},
      "Note": {"attributes": {"text": "string"}, "relationships": {"about": {"entity": "Note"}}}}}
    """

/// Random collections of the company: few objects, met often, at any depth, now and then wrong.
public struct CompanyPayload {
    public var generator: SeededGenerator
    private let hasLinkTables: Bool

    /// - Parameter hasLinkTables: relationships whose links lie in tables of their own may come.
    public init(generator: SeededGenerator, hasLinkTables: Bool = true) {
        self.generator = generator
        self.hasLinkTables = hasLinkTables
    }

    /// An object of entity names and records, in payload order; names come again.
    public mutating func collections(count: Int) -> String {
        let members = (0..<count).map { _ -> String in
            let entity = ["Employee", "Employee", "Department", "Desk", "Project"].randomElement(using: &generator)!
            let records = (0..<Int.random(in: 0...3, using: &generator)).map { _ in record(entity, depth: 3) }
            return "\"\(entity)\": [\(records.joined(separator: ", "))]"
        }
        return "{\(members.joined(separator: ", "))}"
    }

    private mutating func record(_ entity: String, depth: Int) -> String {
        var members = [chance(20) ? "\"id\": \"wrong\"" : "\"id\": \(key())"]
        if chance(2), entity == "Employee" || entity == "Department" { members.append("\"name\": \"n\(key())\"") }
        if chance(15) { members.append("\"unknown\": 1") }
        for (name, destination, isToMany) in Self.relationships[entity]! where chance(3) {
            guard hasLinkTables || !["projects", "friends", "skills", "members"].contains(name) else { continue }
            members.append("\"\(name)\": \(value(destination, isToMany, depth: depth))")
        }
        return "{\(members.joined(separator: ", "))}"
    }

    private mutating func value(_ destination: String, _ isToMany: Bool, depth: Int) -> String {
        if chance(8) { return "null" }
        guard isToMany else { return element(destination, depth: depth) }
        let elements = (0..<Int.random(in: 0...3, using: &generator)).map { _ in element(destination, depth: depth) }
        return "[\(elements.joined(separator: ", "))]"
    }

    private mutating func element(_ destination: String, depth: Int) -> String {
        if destination == "Skill" { return "\"s\(key())\"" }
        return depth == 0 || chance(2) ? "\(key())" : record(destination, depth: depth - 1)
    }

    private mutating func key() -> Int { Int.random(in: 1...4, using: &generator) }

    private mutating func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &generator) == 0 }

    private static let relationships: [String: [(name: String, destination: String, isToMany: Bool)]] = [
        "Employee": [
            ("department", "Department", false), ("manager", "Employee", false), ("reports", "Employee", true),
            ("projects", "Project", true), ("friends", "Employee", true), ("desk", "Desk", false),
            ("spouse", "Employee", false), ("skills", "Skill", true),
        ],
        "Department": [("employees", "Employee", true)],
        "Project": [("members", "Employee", true)],
        "Desk": [("owner", "Employee", false)],
    ]
}
