import TestSupport

/// Objects with to-many relationships of every form, and conditions on them that are evaluated without a store.
struct RandomPeople {
    static let model = """
        {"entities": {
            "Person": {"identity": "id", "indexes": [["age"]],
                "attributes": {"id": "integer64", "age": "integer16", "name": "string"},
                "relationships": {"boss": {"entity": "Person", "inverse": "reports"},
                    "reports": {"entity": "Person", "toMany": true, "inverse": "boss", "ordered": true},
                    "friends": {"entity": "Person", "toMany": true},
                    "teams": {"entity": "Team", "toMany": true, "inverse": "members"},
                    "notes": {"entity": "Note", "toMany": true},
                    "seats": {"entity": "Seat", "toMany": true, "inverse": "people"},
                    "pets": {"entity": "Animal", "toMany": true, "inverse": "owner"},
                    "dogs": {"entity": "Dog", "toMany": true},
                    "phones": {"entity": "Phone", "toMany": true, "owned": true}}},
            "Team": {"identity": "id", "indexes": [["name"]],
                "attributes": {"id": "integer64", "age": "integer16", "name": "string"},
                "relationships": {"lead": {"entity": "Person"},
                    "members": {"entity": "Person", "toMany": true, "inverse": "teams", "ordered": true}}},
            "Note": {"attributes": {"id": "integer64", "age": "integer16", "name": "string"},
                "relationships": {"teams": {"entity": "Team", "toMany": true}}},
            "Phone": {"identity": "name", "attributes": {"id": "integer64", "age": "integer16", "name": "string"}},
            "Seat": {"identity": ["floor", "number"], "attributes": {"floor": "integer16", "number": "string",
                    "id": "integer64", "age": "integer16", "name": "string"},
                "relationships": {"people": {"entity": "Person", "toMany": true, "inverse": "seats"}}},
            "Animal": {"identity": "id", "attributes": {"id": "integer64", "age": "integer16", "name": "string"},
                "relationships": {"owner": {"entity": "Person", "inverse": "pets"}}},
            "Dog": {"parent": "Animal", "relationships": {"guards": {"entity": "Seat", "toMany": true}}}}}
        """

    /// Relationships by entity, with their destinations.
    private static let toOne = [
        "Person": [("boss", "Person")], "Team": [("lead", "Person")], "Animal": [("owner", "Person")],
        "Dog": [("owner", "Person")],
    ]
    private static let toMany = [
        "Person": [
            ("reports", "Person"), ("friends", "Person"), ("teams", "Team"), ("notes", "Note"), ("seats", "Seat"),
            ("pets", "Animal"), ("dogs", "Dog"), ("phones", "Phone"),
        ],
        "Team": [("members", "Person")], "Note": [("teams", "Team")], "Seat": [("people", "Person")],
        "Dog": [("guards", "Seat")],
    ]

    final class Object {
        let entity: String
        let id: Int
        let age: Int?
        let name: String?
        var one: [String: Object] = [:]
        var many: [String: [Object]] = [:]

        init(_ entity: String, _ id: Int, age: Int?, name: String?) {
            self.entity = entity
            self.id = id
            self.age = age
            self.name = name
        }

        /// As JSON, with names without spaces.
        var key: String { entity == "Seat" ? #"{"floor":\#(id % 3),"number":"\#(id)"}"# : String(id) }
    }

    var generator: SeededGenerator
    private var all: [Object] = []
    private var arguments: [String] = []

    init(generator: SeededGenerator) { self.generator = generator }

    private mutating func pick<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &generator)! }
    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }
    private mutating func some(_ objects: [Object]) -> [Object] { objects.filter { _ in chance(20) } }

    mutating func entity() -> String { pick(["Person", "Person", "Team", "Note", "Seat", "Animal", "Dog", "Phone"]) }

    func objects(of entity: String) -> [Object] {
        all.filter { $0.entity == entity || entity == "Animal" && $0.entity == "Dog" }
    }

    // MARK: - Objects

    private mutating func make(_ entity: String, _ ids: Range<Int>) -> [Object] {
        let made = ids.map {
            Object(
                entity, $0, age: chance(70) ? Int.random(in: 0..<4, using: &generator) : nil,
                name: entity == "Phone" ? "n\($0)" : chance(70) ? pick(["a", "A", "ab", "b"]) : nil)
        }
        all += made
        return made
    }

    /// Other objects; a job that inserts them.
    mutating func payload() -> String {
        all = []
        let people = make("Person", 0..<12)
        let (teams, seats) = (make("Team", 0..<4), make("Seat", 0..<5))
        let (animals, dogs) = (make("Animal", 0..<5), make("Dog", 5..<9))
        var (notes, phones) = (0, 0)
        for person in people {
            person.one["boss"] = chance(70) ? pick(people) : nil
            person.many["friends"] = some(people)
            person.many["teams"] = some(teams)
            person.many["seats"] = some(seats)
            person.many["dogs"] = some(dogs)
            let count = Int.random(in: 0..<3, using: &generator)
            person.many["notes"] = make("Note", notes..<notes + count)
            notes += count
            for note in person.many["notes"]! { note.many["teams"] = some(teams) }
            person.many["phones"] = make("Phone", phones..<phones + count)
            phones += count
        }
        for team in teams { team.one["lead"] = chance(70) ? pick(people) : nil }
        for dog in dogs { dog.many["guards"] = some(seats) }
        for animal in animals + dogs { animal.one["owner"] = chance(70) ? pick(people) : nil }
        for person in people {
            person.many["reports"] = people.filter { $0.one["boss"] === person }
            person.many["pets"] = (animals + dogs).filter { $0.one["owner"] === person }
        }
        for team in teams { team.many["members"] = people.filter { $0.many["teams"]!.contains { $0 === team } } }
        for seat in seats { seat.many["people"] = people.filter { $0.many["seats"]!.contains { $0 === seat } } }
        let lists = ["Seat", "Team", "Person", "Animal", "Dog"].map { entity in
            "\"\(entity)\": [\(all.filter { $0.entity == entity }.map(Self.record).joined(separator: ","))]"
        }
        return "{\(lists.joined(separator: ", "))}"
    }

    private static func record(_ object: Object) -> String {
        var members = ["\"id\": \(object.id)"]
        if let age = object.age { members.append("\"age\": \(age)") }
        if let name = object.name { members.append("\"name\": \"\(name)\"") }
        if object.entity == "Seat" { members.append("\"floor\": \(object.id % 3), \"number\": \"\(object.id)\"") }
        for (name, other) in object.one.sorted(by: { $0.key < $1.key }) { members.append("\"\(name)\": \(other.key)") }
        for (name, others) in object.many.sorted(by: { $0.key < $1.key })
        where !["reports", "pets", "members", "people"].contains(name) {
            let isNested = name == "notes" || name == "phones"
            members.append("\"\(name)\": [\(others.map { isNested ? record($0) : $0.key }.joined(separator: ","))]")
        }
        return "{\(members.joined(separator: ", "))}"
    }

    // MARK: - Conditions

    typealias Condition = (Object) -> Bool

    mutating func condition(of entity: String, depth: Int) -> (text: String, arguments: [String], isMet: Condition) {
        arguments = []
        let (text, isMet) = logic(entity, depth)
        return (text, arguments, isMet)
    }

    private mutating func logic(_ entity: String, _ depth: Int) -> (String, Condition) {
        guard depth > 0, chance(50) else { return comparison(entity) }
        let (left, isLeftMet) = logic(entity, depth - 1)
        if chance(30) { return ("NOT (\(left))", { !isLeftMet($0) }) }
        let (right, isRightMet) = logic(entity, depth - 1)
        return chance(50)
            ? ("(\(left) AND \(right))", { isLeftMet($0) && isRightMet($0) })
            : ("(\(left) OR \(right))", { isLeftMet($0) || isRightMet($0) })
    }

    /// To-one relationships: the beginning of a path, the entity at its end, and the object there.
    private mutating func links(_ entity: String, atMost count: Int) -> (String, String, (Object) -> Object?) {
        guard count > 0, chance(50), let relationships = Self.toOne[entity] else { return ("", entity, { $0 }) }
        let (name, destination) = pick(relationships)
        let (rest, end, object) = links(destination, atMost: count - 1)
        return ("\(name).\(rest)", end, { $0.one[name].flatMap(object) })
    }

    private mutating func comparison(_ entity: String) -> (String, Condition) {
        let (path, owner, object) = links(entity, atMost: 2)
        guard let (name, destination) = Self.toMany[owner].map({ pick($0) }) else {
            let (test, isMet) = value(of: owner, String(path.dropLast()))
            return (test, { isMet(object($0)) })
        }
        let collection: (Object) -> [Object] = { object($0)?.many[name] ?? [] }
        if chance(30) {
            let number = Int.random(in: 0..<4, using: &generator)
            let (sign, isMet) = pick(Self.orders)
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: return ("\(number) \(sign) \(path)\(name).@count", { isMet(number, collection($0).count) })
            case 1: return ("\(path)\(name).@count IN {1, \(number)}", { [1, number].contains(collection($0).count) })
            default: return ("\(path)\(name).@count \(sign) \(number)", { isMet(collection($0).count, number) })
            }
        }
        let (rest, end, inner) = links(destination, atMost: 2)
        let (text, isMet) = value(of: end, "\(path)\(name)" + (rest.isEmpty ? "" : ".\(rest.dropLast())"))
        let condition: Condition = { isMet(inner($0)) }
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: return ("ANY \(text)", { collection($0).contains(where: condition) })
        case 1: return ("ALL \(text)", { collection($0).allSatisfy(condition) })
        default: return ("none \(text)", { !collection($0).contains(where: condition) })
        }
    }

    private static let orders: [(String, @Sendable (Int, Int) -> Bool)] = [
        ("==", { $0 == $1 }), ("!=", { $0 != $1 }), ("<", { $0 < $1 }), ("<=", { $0 <= $1 }), (">", { $0 > $1 }),
        (">=", { $0 >= $1 }),
    ]

    /// A test of the object at the end of a path, or of one of its values.
    private mutating func value(of entity: String, _ path: String) -> (String, (Object?) -> Bool) {
        let lead = path.isEmpty ? "" : path + "."
        let number = Int.random(in: 0..<4, using: &generator)
        switch Int.random(in: 0..<7, using: &generator) {
        case 0: return ("\(lead)age == nil", { $0?.age == nil })
        case 1: return ("\(lead)age IN {\(number), nil}", { $0?.age == nil || $0?.age == number })
        case 2: return ("\(lead)age BETWEEN {1, \(number)}", { $0?.age.map { $0 >= 1 && $0 <= number } ?? false })
        case 3:
            let text = pick(["a", "b", ""])
            return ("\(lead)name BEGINSWITH \"\(text)\"", { $0?.name?.hasPrefix(text) ?? false })
        case 4: return ("\(lead)name !=[c] \"a\"", { $0?.name?.lowercased() != "a" })
        case 5 where !path.isEmpty && ["Person", "Team", "Seat"].contains(entity): return key(entity, path)
        default:
            let (sign, isMet) = pick(Self.orders)
            return ("\(lead)age \(sign) \(number)", { $0?.age.map { isMet($0, number) } ?? (sign == "!=") })
        }
    }

    private mutating func key(_ entity: String, _ path: String) -> (String, (Object?) -> Bool) {
        let key = pick(objects(of: entity)).key
        arguments.append(key)
        return chance(50) ? ("\(path) == %@", { $0?.key == key }) : ("\(path) != %@", { $0?.key != key })
    }
}
