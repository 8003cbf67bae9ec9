import Broker
import BrokerClient
import BrokerCommandLine
import BrokerModel

/// One object, and those that it is related to, in both directions.
struct ObjectPage {
    /// Of each relationship.
    private static let related = 10
    /// Characters of a value.
    private static let longest = 10_000

    let client: RemoteBroker
    let model: ShownModel
    let entity: ShownModel.Entity
    let key: ModelValue
    let forms: Forms?

    /// Nil when there is no such object.
    func html() async throws -> HTML? {
        guard let object = try await client.object(key, of: entity) else { return nil }
        var table = Table("Attributes and links", ["attribute", "value", "type", "description"])
        for attribute in entity.attributes {
            table.add([
                "\(attribute.name)", Self.value(object[attribute.name] ?? .null), "\(attribute.type)",
                "\(attribute.description ?? "")",
            ])
        }
        for relationship in entity.relationships where !relationship.isToMany {
            table.add([
                "\(relationship.name)", EntityPage.target(object[relationship.name] ?? .null, relationship),
                "→ \(EntityPage.link(relationship.entity))", "\(relationship.description ?? "")",
            ])
        }
        var relations: HTML = ""
        for relationship in entity.relationships where relationship.isToMany { relations += await many(relationship) }
        for other in model.entities where other.parent == nil || !other.isAbstract {
            for relationship in other.relationships
            where relationship.entity == entity.name && relationship.inverse == nil {
                relations += await objects(
                    of: other, by: relationship, title: "\(other.name) with this \(relationship.name)")
            }
        }
        let delete = forms?.button(
            "Delete this object …", action: "/delete", isBad: true, ["entity": entity.name, "key": key.json])
        return """
            <h1>\(EntityPage.link(entity.name)) \(key.shown.cut(to: 120))</h1>\(table.html(none: "None."))\
            <div class=cols>\(relations)</div>\(delete)
            """
    }

    private static func value(_ value: ModelValue) -> HTML {
        let size = value.shown.utf8.count
        let isCut = size > longest
        let note: HTML =
            "<p class=m>Cut: the value has \(ShortText.bytes(size)). <code>broker fetch</code> prints all of it.</p>"
        switch value.content {
        case .string, .array, .object: return "<pre><bdi>\(value.shown.cut(to: longest))</bdi></pre>\(note, if: isCut)"
        default: return EntityPage.value(value, cut: longest)
        }
    }

    private func many(_ relationship: ShownModel.Relationship) async -> HTML {
        let title = "\(relationship.name) ⇉ \(relationship.entity)"
        guard let target = model[relationship.entity] else { return "" }
        if let inverse = relationship.inverse.flatMap(target.relationship) {
            return await objects(of: target, by: inverse, title: title)
        }
        // Without an inverse, only the object knows them.
        do {
            let all =
                try await client.object(key, of: entity, including: [relationship.name])?[relationship.name]?.elements
                ?? []
            let keys = all.prefix(100).map { object -> HTML in
                "<li>\(target.key(of: object).map { EntityPage.link(target.name, $0) } ?? "an object without a key")</li>"
            }
            return "<section><h2>\(title): \(ShortText.count(all.count))</h2><ul>\(keys)</ul></section>"
        } catch {
            return "<section><h2>\(title)</h2><p class=note>\("\(error)")</p></section>"
        }
    }

    /// The objects of another entity whose relationship leads here.
    private func objects(of other: ShownModel.Entity, by relationship: ShownModel.Relationship, title: String) async
        -> HTML
    {
        let selection = Selection(entity: other, related: (relationship, key))
        do {
            let (objects, hasMore) = try await client.page(selection, offset: 0, limit: Self.related)
            let count = hasMore ? await client.count(selection) : objects.count
            let names = other.attributes.filter { !other.identity.contains($0.name) }.prefix(3).map(\.name)
            var table = Table("\(title): \(count.map(ShortText.count) ?? "many")", ["key"] + names)
            for object in objects {
                table.add(
                    [EntityPage.link(other.name, object.key)]
                        + names.map { EntityPage.value(object.values[$0] ?? .null, cut: 60) })
            }
            let all = URLText.link(["data", other.name], ["of": relationship.name, "key": key.json])
            return
                "<section class=data>\(table.html(none: "None."))\("<p><a href=\"\(all)\">Show all</a></p>", if: hasMore)</section>"
        } catch {
            return "<section><h2>\(title)</h2><p class=note>\("\(error)")</p></section>"
        }
    }
}

/// The deletion of one object: what it would do, and that it is done.
struct DeletionPage {
    let client: RemoteBroker
    let forms: Forms
    let entity: ShownModel.Entity
    let key: ModelValue

    func html(isConfirmed: Bool) async throws -> HTML {
        var job = Job(try .delete(entity.name, keys: [RawJSON(key.json)]))
        job.isDryRun = !isConfirmed
        let completion = try await client.process(job, timeout: .seconds(30))
        var table = Table(isConfirmed ? "What was done" : "What would be done", ["entity", "#deleted", "#updated"])
        for (name, changes) in completion.changes.sorted(by: { $0.key < $1.key }) {
            table.add([
                EntityPage.link(name), "\(ShortText.count(changes.deleted))", "\(ShortText.count(changes.updated))",
            ])
        }
        let title: HTML = "\(EntityPage.link(entity.name)) \(key.shown.cut(to: 120))"
        guard !isConfirmed else {
            return "<h1>Deleted: \(title)</h1>\(table.html(none: "Nothing: there is no such object."))"
        }
        let confirm = forms.button(
            "Delete now", action: "/delete", isBad: true, ["entity": entity.name, "key": key.json, "confirmed": "yes"])
        return """
            <h1>Delete \(title)?</h1>\(table.html(none: "Nothing: there is no such object."))\
            <p>Nothing has been changed yet. What would be updated loses its link to what is deleted.</p>\(confirm)\
            <p><a href="\(URLText.link(["data", entity.name, "object"], ["key": key.json]))">Keep it</a></p>
            """
    }
}
