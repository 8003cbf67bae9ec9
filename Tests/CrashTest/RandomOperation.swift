/// A record of JSON.
struct GraphRecord {
    let entity: GraphModel.Entity
    var identity: [String]?
    var values: [(attribute: String, value: String?)] = []
    var links: [(relationship: GraphModel.Relationship, value: GraphValue)] = []

    var json: String {
        let key = zip(entity.identity, identity ?? []).map { "\"\($0)\": \(entity.json($0, $1))" }
        let values = values.map { name, value in "\"\(name)\": \(value.map { entity.json(name, $0) } ?? "null")" }
        let links = links.map { "\"\($0.name)\": \($1.json)" }
        return "{\((key + values + links).joined(separator: ", "))}"
    }
}

indirect enum GraphValue {
    case null
    case key(GraphModel.Entity, [String])
    case record(GraphRecord)
    case list([GraphValue])

    var json: String {
        switch self {
        case .null: "null"
        case .key(let entity, let key): entity.json(key: key)
        case .record(let record): record.json
        case .list(let values): "[\(values.map(\.json).joined(separator: ", "))]"
        }
    }
}

/// `path op value`, of which the value may be nil.
struct GraphCondition {
    let path: [String]
    let comparison: String
    let value: String?
    let isText: Bool

    var json: String {
        "\"where\": \"\(path.joined(separator: ".")) \(comparison) %@\", "
            + "\"arguments\": [\(value.map { isText ? "\"\($0)\"" : $0 } ?? "null")]"
    }
}

/// One operation of a job.
struct RandomOperation {
    enum Action {
        case process(object: [String]?)
        case relate(object: [String])
        case delete([[String]])
        case deleteMatching(GraphCondition?)
        case sync(GraphCondition?, Set<String>, part: (id: String, isLast: Bool)?)
    }

    let entity: GraphModel.Entity
    let action: Action
    /// A `relate` with nothing but the relationship.
    var records: [GraphRecord] = []

    var json: String {
        func operation(_ name: String, _ fields: String) -> String {
            "{\"op\": \"\(name)\", \"entity\": \"\(entity.name)\", \(fields)}"
        }
        let list = "\"json\": [\(records.map(\.json).joined(separator: ", "))]"
        switch action {
        case .process(nil): return operation("process", list)
        case .process(let object?):
            return operation("process", "\"object\": \(entity.json(key: object)), \"json\": \(records[0].json)")
        case .relate(let object):
            let (relationship, value) = records[0].links[0]
            return operation(
                "relate",
                "\"object\": \(entity.json(key: object)), \"relationship\": \"\(relationship.name)\", "
                    + "\"json\": \(value.json)")
        case .delete(let keys):
            return operation("delete", "\"objects\": [\(keys.map { entity.json(key: $0) }.joined(separator: ", "))]")
        case .deleteMatching(let condition):
            return operation("delete", condition?.json ?? "\"where\": \"TRUEPREDICATE\"")
        case .sync(let condition, let actions, let part):
            let all = ["insert", "update", "delete"]
            let names = all.filter(actions.contains).map { "\"\($0)\"" }.joined(separator: ", ")
            return operation(
                "sync",
                list + (condition.map { ", \($0.json)" } ?? "")
                    + (actions.count == all.count ? "" : ", \"actions\": [\(names)]")
                    + (part.map { ", \"part\": {\"id\": \"\($0.id)\", \"last\": \($0.isLast)}" } ?? ""))
        }
    }
}

/// A job of random operations.
struct RandomOperationJob {
    let operations: [RandomOperation]
    let hasKeys: Bool
    /// Invalid records are rejected.
    let skips: Bool
}
