import Testing
import TestSupport

@testable import BrokerStore

/// Ordered relationships under random jobs, against lists to which one assertion after the other is applied.
@Suite(.timeLimit(.minutes(5))) struct OrderedPropertyTests {
    private static func model(_ assignment: String) -> String {
        let ordered = #""toMany": true, "ordered": true, "assignment": "\#(assignment)""#
        return """
            {"entities": {
              "A": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "songs": {"entity": "S", "inverse": "album", \(ordered)}, "tags": {"entity": "T", \(ordered)},
                "fans": {"entity": "F", "inverse": "albums", \(ordered)}}},
              "S": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"album": {"entity": "A"}}},
              "F": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "albums": {"entity": "A", \(ordered)}}},
              "T": {"identity": "id", "attributes": {"id": "integer64"}}
            }}
            """
    }

    @Test(arguments: ["union", "replace"])
    func `relationships hold what was named in the order in which it was named`(assignment: String) throws {
        let store = try TestStore(Self.model(assignment))
        var lists = OrderedLists(
            replaces: assignment == "replace", SeededGenerator(for: "ordered relationships, \(assignment)"))
        for job in 0..<300 {
            let payload = lists.job()
            try store.apply(payload)
            for (list, query) in [
                ("songs", "SELECT album, id, album_position FROM S WHERE album IS NOT NULL ORDER BY 1, 3"),
                ("tags", "SELECT source, destination, position FROM A_tags ORDER BY 1, 3"),
                ("fans", "SELECT source, destination, position FROM A_fans ORDER BY 1, 3"),
                ("albums", "SELECT destination, source, inverse_position FROM A_fans ORDER BY 1, 3"),
            ] {
                let rows = try store.rows(query).map { $0.split(separator: "|").map { Int($0)! } }
                try #require(rows.map { [$0[0], $0[1]] } == lists.pairs(list), "\(list) after job \(job): \(payload)")
                #expect(Set(rows.map { [$0[0], $0[2]] }).count == rows.count, "no position is taken twice")
            }
            guard lists.isRepeatable else { continue }
            let states = try store.outcome(payload).changes
            try #require(
                states.allSatisfy { $0.counts.updated + $0.counts.inserted == 0 },
                "job \(job) again changes \(states): \(payload)")
        }
    }
}

/// Makes jobs and knows what they do.
private struct OrderedLists {
    /// One side of a relationship.
    private struct Side: Hashable {
        let name: String
        let inverse: String?
        var isToMany = true
    }

    private struct Owner: Hashable {
        let side: Side
        let id: Int
    }

    private struct Link: Hashable {
        let owner: Owner
        let element: Int
    }

    private static let songs = Side(name: "songs", inverse: "album")
    private static let album = Side(name: "album", inverse: "songs", isToMany: false)
    private static let tags = Side(name: "tags", inverse: nil)
    private static let fans = Side(name: "fans", inverse: "albums")
    private static let albums = Side(name: "albums", inverse: "fans")
    private static let sides = [songs, album, tags, fans, albums]
    private static let sidesByEntity = ["A": [songs, tags, fans], "S": [album], "F": [albums], "T": []]
    private static let entities = ["songs": "S", "album": "A", "tags": "T", "fans": "F", "albums": "A"]

    private let replaces: Bool
    private var generator: SeededGenerator
    private var lists: [Owner: [Int]] = [:]
    /// The operation's assertions about an owner's set so far, from either side.
    private var said: [Owner: [Int]] = [:]
    /// Links that a set of the operation at the other side replaced. They keep their positions if another set of the
    /// operation, which unites with that one, names them.
    private var replaced: Set<Link> = []
    /// False when assertions ended links: then a repetition gives another order.
    private(set) var isRepeatable = true

    init(replaces: Bool, _ generator: SeededGenerator) {
        self.replaces = replaces
        self.generator = generator
    }

    func pairs(_ name: String) -> [[Int]] {
        lists.filter { $0.key.side.name == name }.sorted { $0.key.id < $1.key.id }
            .flatMap { owner, elements in
                elements.filter { !replaced.contains(Link(owner: owner, element: $0)) }.map { [owner.id, $0] }
            }
    }

    // MARK: - Jobs

    mutating func job() -> String {
        isRepeatable = true
        // The order of a set at the other side when several operations replace this one follows from the job's result
        // only for those that stay.
        let operations = (0..<(replaces ? 1 : Int.random(in: 1...3, using: &generator))).map { _ in
            said = [:]
            forgetReplaced()
            let entity = ["A", "S", "F"].randomElement(using: &generator)!
            let records = (0..<Int.random(in: 1...4, using: &generator)).map { _ in record(entity, depth: 0) }
            return "\"\(entity)\": [\(records.joined(separator: ", "))]"
        }
        return "{\(operations.joined(separator: ", "))}"
    }

    /// A record says all of its own words before what is nested in it says any.
    private mutating func record(_ entity: String, id: Int? = nil, depth: Int) -> String {
        let id = id ?? Int.random(in: 1...4, using: &generator)
        var values: [(side: Side, elements: [Int]?)] = []
        for side in Self.sidesByEntity[entity]! where Int.random(in: 0..<3, using: &generator) > 0 {
            let isNull = Int.random(in: 0..<8, using: &generator) == 0
            let count = side.isToMany ? Int.random(in: 0...4, using: &generator) : 1
            let elements = (0..<count).map { _ in Int.random(in: 1...5, using: &generator) }
            values.append((side, isNull ? nil : elements))
        }
        for (side, elements) in values { say(Owner(side: side, id: id), elements) }
        var members = ["\"id\": \(id)"]
        for (side, elements) in values {
            let texts = elements?.map { element in
                depth < 2 && Int.random(in: 0..<3, using: &generator) == 0
                    ? record(Self.entities[side.name]!, id: element, depth: depth + 1) : String(element)
            }
            let list = texts.map { side.isToMany ? "[\($0.joined(separator: ", "))]" : $0[0] }
            members.append("\"\(side.name)\": \(list ?? "null")")
        }
        return "{\(members.joined(separator: ", "))}"
    }

    // MARK: - What they do

    private mutating func say(_ owner: Owner, _ elements: [Int]?) {
        guard let elements else {
            isRepeatable = false
            for element in lists[owner] ?? [] { unlink(owner, element) }
            forgetReplaced { $0.element == owner.id && $0.owner.side.name == owner.side.inverse }
            said[owner] = []
            return
        }
        for element in elements {
            note(owner, element)
            if let other = other(owner, element) { note(other, owner.id) }
        }
        if replaces, owner.side.isToMany {
            for element in lists[owner] ?? [] where !said[owner, default: []].contains(element) {
                unlink(owner, element, isReplaced: true)
            }
        }
        for element in elements { link(owner, element) }
        if replaces, owner.side.isToMany {
            lists[owner] = said[owner, default: []].filter(lists[owner, default: []].contains)
        }
    }

    private mutating func note(_ owner: Owner, _ element: Int) {
        if !said[owner, default: []].contains(element) { said[owner, default: []].append(element) }
    }

    private func other(_ owner: Owner, _ element: Int) -> Owner? {
        owner.side.inverse.map { name in Owner(side: Self.sides.first { $0.name == name }!, id: element) }
    }

    private mutating func link(_ owner: Owner, _ element: Int) {
        let other = other(owner, element)
        for (one, another) in [(owner, element), (other ?? owner, owner.id)] {
            replaced.remove(Link(owner: one, element: another))
        }
        for (one, another) in [(owner, element), (other ?? owner, owner.id)] where !one.side.isToMany {
            for old in lists[one] ?? [] where old != another { unlink(one, old) }
        }
        add(owner, element)
        if let other { add(other, owner.id) }
    }

    private mutating func add(_ owner: Owner, _ element: Int) {
        if !lists[owner, default: []].contains(element) { lists[owner, default: []].append(element) }
    }

    private mutating func forgetReplaced(_ isForgotten: (Link) -> Bool = { _ in true }) {
        for link in replaced where isForgotten(link) {
            replaced.remove(link)
            lists[link.owner]?.removeAll { $0 == link.element }
        }
    }

    private mutating func unlink(_ owner: Owner, _ element: Int, isReplaced: Bool = false) {
        isRepeatable = false
        lists[owner]?.removeAll { $0 == element }
        said[owner]?.removeAll { $0 == element }
        guard let other = other(owner, element) else { return }
        if isReplaced, other.side.isToMany {
            replaced.insert(Link(owner: other, element: owner.id))
        } else {
            lists[other]?.removeAll { $0 == owner.id }
        }
        said[other]?.removeAll { $0 == owner.id }
    }
}
