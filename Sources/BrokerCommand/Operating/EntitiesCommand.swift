import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON
import BrokerModel
import Glibc

struct EntitiesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "entities",
        abstract: "Prints the entities of the model: objects, identity, attributes and relationships.",
        discussion: """
            A line for each entity, or all about those that are named: broker entities Employee
            The objects of subentities count for their parents, too. --no-count is for a large store.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Print JSON: an object for each entity, with its objects, and the rest as in the model.")
    var json = false

    @Flag(inversion: .prefixedNo, help: "Count the objects.")
    var count = true

    @Argument(help: .value("entity", "The entities. Default: all of the model, briefly."), completion: .entity)
    var entities: [String] = []

    func run() async throws {
        let (model, listed) = try await connection.connected("broker entities", isReading: true) { broker in
            let model = try JSONDocument(fast: JSONText(copying: try await broker.model().json.bytes))
            let all = ListedEntity.all(model.root)
            var listed = try entities.isEmpty ? all : entities.map { try find($0, all) }
            for index in listed.indices where count {
                listed[index].count = try await broker.fetchCount(of: listed[index].name)
            }
            return (model, listed)
        }
        try withExtendedLifetime(model) {
            if json { return try ListedEntity.write(listed) }
            let columns = Terminal.columns(of: STDOUT_FILENO)
            let lines =
                entities.isEmpty ? ListedEntity.table(listed, columns) : listed.flatMap { $0.lines(columns ?? 80) }
            for line in lines { try Program.say(line) }
        }
    }

    private func find(_ name: String, _ all: [ListedEntity]) throws -> ListedEntity {
        guard let entity = all.first(where: { $0.name.utf8.elementsEqual(name.utf8) }) else {
            let ending = NearMiss.ending(name, among: all.map(\.name))
            throw CommandFailure(
                .failed, "The model has no entity \"\(name)\"\(ending) `broker entities` lists them.")
        }
        return entity
    }
}

/// An entity of the model, with the number of its objects.
struct ListedEntity {
    let name: String
    /// Nil when they are not counted.
    var count: Int?
    private let entity: JSONValue

    /// - Parameter model: of the form of `protocol/model.schema.json`.
    static func all(_ model: JSONValue) -> [ListedEntity] {
        model["entities"]?.members.map { ListedEntity(name: $0.string ?? "", entity: $1) } ?? []
    }

    private init(name: String, entity: JSONValue) { (self.name, self.entity) = (name, entity) }

    private var identity: [String] { entity["identity"]?.elements.compactMap(\.string) ?? [] }
    private var parent: String? { entity["parent"]?.string }
    private var shownCount: String { count.map(ShortText.count) ?? "-" }

    private func members(_ key: String) -> [(name: String, value: JSONValue)] {
        entity[key]?.members.map { ($0.string ?? "", $1) } ?? []
    }

    /// Each as `name type`, with `?` where it may be null.
    private var attributes: [String] {
        members("attributes").map {
            "\($0.name) \($0.value["type"]?.string ?? "")\($0.value["optional"]?.bool == false ? "" : "?")"
        }
    }

    private var relationships: [String] {
        members("relationships").map {
            let arrow = Self.isToMany($0.value) ? "⇉" : "→"
            return "\($0.name) \(arrow) \($0.value["entity"]?.string ?? "")"
        }
    }

    private static func isToMany(_ relationship: JSONValue) -> Bool { relationship["toMany"]?.bool == true }

    /// Each with its entity in parentheses.
    private func relationships(toMany: Bool) -> [String] {
        members("relationships").filter { Self.isToMany($0.value) == toMany }
            .map { "\($0.name) (\($0.value["entity"]?.string ?? ""))" }
    }

    static func table(_ entities: [ListedEntity], _ columns: Int?) -> [String] {
        var table = TextTable(["entity", "objects", "identity", "attributes and relationships"], right: [1])
        for entity in entities {
            let own = entity.members("attributes").map(\.name) + entity.relationships
            table.add([
                entity.name + (entity.parent.map { " (\($0))" } ?? ""), entity.shownCount,
                entity.identity.joined(separator: ","), own.joined(separator: ", "),
            ])
        }
        return table.isEmpty ? ["The model has no entities."] : table.lines(columns: columns)
    }

    /// All about it.
    func lines(_ columns: Int) -> [String] {
        var lines = [name + (count == nil ? "" : ": \(shownCount) object\(count == 1 ? "" : "s")")]
        let parts: [(String, [String])] = [
            ("parent", parent.map { [$0] } ?? []), ("identity", identity), ("attributes", attributes),
            ("to one", relationships(toMany: false)), ("to many", relationships(toMany: true)),
        ]
        for (title, items) in parts where !items.isEmpty {
            let name = "  " + title + String(repeating: " ", count: 12 - title.count)
            let words = items.enumerated().map { $1 + ($0 + 1 < items.count ? "," : "") }
            lines += TextTable.wrapped(words, after: name.count, columns: columns).enumerated().map {
                $0 == 0 ? name + $1 : $1
            }
        }
        return lines
    }

    static func write(_ entities: [ListedEntity]) throws(CommandFailure) {
        try Program.writeJSON { writer in
            writer.array { writer in
                for entity in entities {
                    writer.object { writer in
                        writer.member("name", entity.name)
                        writer.key("objects")
                        if let count = entity.count { writer.integer(count) } else { writer.null() }
                        for (key, value) in entity.entity.members {
                            writer.key(key.string ?? "")
                            writer.value(value)
                        }
                    }
                }
            }
        }
    }
}
