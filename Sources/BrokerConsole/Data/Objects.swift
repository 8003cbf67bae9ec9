import Broker
import BrokerClient
import BrokerCommandLine
import BrokerModel

/// Objects of one entity as a table shows them: a filter, an order, and the objects that another one is related to.
struct Selection: Sendable {
    let entity: ShownModel.Entity
    /// The text of a predicate; nil for all.
    var filter: String?
    /// An attribute, with `-` before it for the last first.
    var sort: String?
    /// Only objects with this relationship to the object of that key.
    var related: (relationship: ShownModel.Relationship, key: ModelValue)?

    func query() -> Query {
        var query = Query(entity.name)
        query.names = .model
        query.sortKeys = sort.map { [$0] } ?? []
        var formats: [String] = []
        var arguments: [RawJSON] = []
        if let related {
            formats.append("\(related.relationship.isToMany ? "ANY " : "")%K == %@")
            arguments = [RawJSON(ModelValue.text(related.relationship.name).json), RawJSON(related.key.json)]
        }
        if let filter { formats.append(formats.isEmpty ? filter : "(\(filter))") }
        if !formats.isEmpty {
            query.predicate = BrokerPredicate(formats.joined(separator: " AND "), arguments: arguments)
        }
        return query
    }
}

extension RemoteBroker {
    /// A part of the objects, each with the key that names it.
    func page(_ selection: Selection, offset: Int, limit: Int) async throws
        -> (objects: [(key: ModelValue, values: ModelValue)], hasMore: Bool)
    {
        var query = selection.query()
        query.offset = offset
        query.limit = limit
        // An object without an identity does not contain its key.
        if selection.entity.hasRowKey { query.resultForm = .dictionary }
        let result = try await fetch(query)
        let answer = try ModelValue(result.objects)
        let objects =
            selection.entity.hasRowKey
            ? answer.members.map { (key: ModelValue(.number($0.key), at: .unknown), values: $0.value) }
            : answer.elements.map { (key: selection.entity.key(of: $0) ?? .null, values: $0) }
        return (objects, result.hasMore)
    }

    /// Nil where that takes long.
    func count(_ selection: Selection) async -> Int? {
        var query = selection.query()
        query.sortKeys = []
        query.resultForm = .count
        return try? ModelValue(try await fetch(query, timeout: .seconds(2)).objects).int
    }

    func object(_ key: ModelValue, of entity: ShownModel.Entity, including relationships: [String] = []) async throws
        -> ModelValue?
    {
        var query = Query(entity.name)
        query.names = .model
        query.key = RawJSON(key.json)
        query.includedPaths = relationships
        return try ModelValue(try await fetch(query).objects).elements.first
    }
}

/// The selected objects as a file, in parts that are read as they are sent.
enum Export: String {
    case csv, ndjson

    var contentType: String { self == .csv ? "text/csv; charset=utf-8" : "application/x-ndjson" }

    func parts(_ selection: Selection, from client: RemoteBroker) -> AsyncThrowingStream<[UInt8], any Error> {
        let columns =
            selection.entity.attributes.map(\.name) + selection.entity.relationships.filter { !$0.isToMany }.map(\.name)
        var query = selection.query()
        if self == .csv { query.selectedPaths = columns }
        // The stream asks for one part after the other.
        nonisolated(unsafe) var results = client.results(of: query).makeAsyncIterator()
        // For the same reason.
        nonisolated(unsafe) var isFirst = true
        return AsyncThrowingStream(unfolding: {
            defer { isFirst = false }
            guard let result = try await results.next() else { return nil }
            let objects = try ModelValue(result.objects).elements
            let lines = objects.map { object in
                self == .csv ? Self.line(columns.map { object[$0] ?? .null }) : object.json + "\n"
            }
            let header = isFirst && self == .csv ? Self.line(columns.map(ModelValue.text)) : ""
            // No part is empty: that would end the body.
            return Array((header + lines.joined() + (header.isEmpty && lines.isEmpty ? "\n" : "")).utf8)
        })
    }

    /// Null is an empty field, an empty text a quoted one.
    private static func line(_ values: [ModelValue]) -> String {
        values.map { $0.isNull ? "" : $0.shown.csvField(isQuoted: $0.shown.isEmpty) }.joined(separator: ",") + "\r\n"
    }
}
