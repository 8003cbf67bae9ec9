import BrokerClient
import BrokerCommandLine
import BrokerModel

/// The model: a picture, and a table of the entities.
struct ModelPage {
    let client: RemoteBroker
    let model: ShownModel

    /// More tables are counted only on their own pages.
    private static let counted = 100

    func html() async -> HTML {
        var table = Table("Entities", ["entity", "#objects", "identity", "description"])
        for (index, entity) in model.entities.enumerated() {
            let count = index < Self.counted ? await client.count(Selection(entity: entity)) : nil
            let guess: HTML? = entity.isIdentityGuessed ? " <span class=m>(a guess)</span>" : nil
            table.add([
                EntityPage.link(entity.name), "\(count.map(ShortText.count) ?? "–")",
                "\(entity.identity.joined(separator: ", "))\(guess)", "\(entity.description ?? "")",
            ])
        }
        let isSmall = model.entities.count <= Diagram.mostEntities
        let picture: HTML = isSmall ? Diagram(model).html : "<p>The model has too many entities for a picture.</p>"
        let description = model.description.map { text -> HTML in "<p>\(text)</p>" }
        return
            "<h1>Data</h1>\(description)\(table.html(none: "The model has no entities."))<h2>Model</h2>\(picture)"
    }
}

/// The objects of an entity, a part at a time.
struct EntityPage {
    static let rows = 50
    /// Characters of a value.
    private static let cell = 120

    let client: RemoteBroker
    let selection: Selection
    let offset: Int

    private var entity: ShownModel.Entity { selection.entity }

    static func link(_ entity: String) -> HTML { "<a href=\"\(URLText.link(["data", entity]))\">\(entity)</a>" }

    static func link(_ entity: String, _ key: ModelValue) -> HTML {
        "<a href=\"\(URLText.link(["data", entity, "object"], ["key": key.json]))\">\(key.shown.cut(to: cell))</a>"
    }

    /// A page of this selection.
    private func link(offset: Int = 0, sort: String?? = .none, export: Export? = nil) -> String {
        URLText.link(
            ["data", entity.name] + (export == nil ? [] : ["export"]),
            [
                "where": selection.filter, "sort": sort ?? selection.sort, "of": selection.related?.relationship.name,
                "key": selection.related?.key.json, "offset": offset > 0 ? "\(offset)" : nil,
                "format": export?.rawValue,
            ])
    }

    func html() async throws -> HTML {
        let shown: HTML
        do {
            shown = try await objects()
        } catch {
            shown = "<p class=alert role=alert>\("\(error)")</p>"
        }
        return """
            <h1>\(entity.name)</h1>\(entity.description.map { text -> HTML in "<p>\(text)</p>" })\(Self.guess(entity))\(filter)\(shown)\
            \(Self.parts(of: entity))<p><a href="/data">All entities, and the model</a></p>
            """
    }

    private static func guess(_ entity: ShownModel.Entity) -> HTML? {
        guard entity.isIdentityGuessed else { return nil }
        let reasons = entity.attributes.filter { entity.identity.contains($0.name) }.compactMap(\.description)
        return """
            <p class=note>The identity \(entity.identity.joined(separator: ", ")) is a guess, which nobody has confirmed. \
            \(reasons.joined(separator: " ")) <code>broker model set-key</code> confirms or changes it.</p>
            """
    }

    private var filter: HTML {
        let related = selection.related.map { related -> HTML in
            """
            <p class=note>Only objects with \(related.relationship.name) \
            \(Self.link(related.relationship.entity, related.key)). <a href="\(URLText.link(["data", entity.name]))">Show all</a></p>\
            <input type=hidden name=of value="\(related.relationship.name)"><input type=hidden name=key value="\(related.key.json)">
            """
        }
        let sort = selection.sort.map { name -> HTML in "<input type=hidden name=sort value=\"\(name)\">" }
        return """
            <form action="\(URLText.link(["data", entity.name]))">\(related)\(sort)<label>Filter, a predicate such as \
            name BEGINSWITH "A" AND department.name == "R&amp;D"<input name=where value="\(selection.filter ?? "")" spellcheck=false \
            autocomplete=off></label><button>Show</button></form>
            """
    }

    // MARK: - Objects

    private func objects() async throws -> HTML {
        let (objects, hasMore) = try await client.page(selection, offset: offset, limit: Self.rows)
        let count = hasMore || offset > 0 ? await client.count(selection) : objects.count
        let last = offset + objects.count
        let of = count.map { " of \(ShortText.count($0))" } ?? ""
        let caption =
            objects.isEmpty ? "No objects" : "Objects \(ShortText.count(offset + 1)) to \(ShortText.count(last))\(of)"
        let links = entity.relationships.filter { !$0.isToMany }
        // One attribute that names an object stands for its key.
        let key = entity.hasRowKey || entity.identity.count > 1 ? nil : entity.identity.first
        let attributes = entity.attributes.filter { $0.name != key }
        var columns: [(name: HTML, isNumber: Bool)] = [(key.map(header) ?? "key", false)]
        columns += attributes.map { (header($0.name), Self.isNumber($0.type)) }
        columns += links.map { ("\($0.name) → \($0.entity)", false) }
        var table = Table(caption, columns)
        for object in objects {
            let values = attributes.map { Self.value(object.values[$0.name] ?? .null, cut: Self.cell) }
            let targets = links.map { Self.target(object.values[$0.name] ?? .null, $0) }
            table.add([Self.link(entity.name, object.key)] + values + targets)
        }
        let pages: HTML = """
            \("<a rel=prev href=\"\(link(offset: max(0, offset - Self.rows)))\">Previous</a>", if: offset > 0)\
            \("<a rel=next href=\"\(link(offset: last))\">Next</a>", if: hasMore && !objects.isEmpty)\
            <a href="\(link(export: .csv))">Export as CSV</a><a href="\(link(export: .ndjson))">Export as NDJSON</a>
            """
        return "<div class=data>\(table.html(none: "There is no such object."))</div><div class=pages>\(pages)</div>"
    }

    /// A click sorts by it, and another one backwards.
    private func header(_ name: String) -> HTML {
        let isSorted = selection.sort == name
        let mark = isSorted ? " ▲" : selection.sort == "-" + name ? " ▼" : ""
        return "<a href=\"\(link(sort: isSorted ? "-" + name : name))\">\(name)\(mark)</a>"
    }

    private static func isNumber(_ type: String) -> Bool {
        type.hasPrefix("integer") || ["decimal", "double", "float"].contains(type)
    }

    static func value(_ value: ModelValue, cut count: Int) -> HTML {
        value.isNull ? "<span class=null>null</span>" : "<bdi>\(value.shown.cut(to: count))</bdi>"
    }

    static func target(_ value: ModelValue, _ relationship: ShownModel.Relationship) -> HTML {
        value.isNull ? "<span class=null>null</span>" : link(relationship.entity, value)
    }

    /// The attributes and relationships as the model has them.
    static func parts(of entity: ShownModel.Entity) -> HTML {
        var table = Table("Attributes and relationships", ["name", "type", "", "description"])
        for attribute in entity.attributes {
            let isKey = entity.identity.contains(attribute.name)
            table.add([
                "\(attribute.name)", "\(attribute.type)",
                "\(isKey ? "identity" : attribute.isOptional ? "optional" : "required")",
                "\(attribute.description ?? "")",
            ])
        }
        for relationship in entity.relationships {
            let inverse = relationship.inverse.map { ", inverse \($0)" } ?? ""
            table.add([
                "\(relationship.name)", link(relationship.entity),
                "\((relationship.isToMany ? "to many" : "to one") + inverse)", "\(relationship.description ?? "")",
            ])
        }
        return "<details><summary>Attributes and relationships</summary>\(table.html(none: "None."))</details>"
    }
}
