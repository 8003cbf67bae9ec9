import BrokerJSON
import Testing

@testable import BrokerModel

/// The example of the model's public form, mappings and routes and all.
let staffModel = """
    {
      "keyStyle": "exact",
      "entities": {
        "Department": {
          "identity": "departmentId",
          "attributes": {"departmentId": {"type": "integer64", "key": "id"}, "name": "string"},
          "relationships": {"employees": {"entity": "Employee", "toMany": true, "inverse": "department"}}
        },
        "Employee": {
          "table": "employee", "root": "employee", "ignore": ["trace", "contact.raw"], "identity": ["employeeId"],
          "attributes": {
            "employeeId": "integer64",
            "name": {"type": "string", "optional": false, "transform": ["trim"], "maxLength": 200},
            "email": {"type": "string", "key": ["email", "contact.email"], "pattern": ".+@.+"},
            "salary": {"type": "decimal", "min": 0},
            "hiredAt": {"type": "date", "key": "hired_at", "format": "yyyy/MM/dd HH:mm:ss Z"}
          },
          "relationships": {
            "department": {"entity": "Department", "inverse": "employees", "deleteRule": "nullify"}
          }
        },
        "User": {"identity": "username", "attributes": {"username": "string", "email": "string"}},
        "Child": {"abstract": true, "identity": "name", "attributes": {"name": "string"}},
        "Boy": {"parent": "Child"}, "Girl": {"parent": "Child"},
        "Article": {"identity": "articleID", "attributes": {"articleID": "integer64", "title": "string"}}
      },
      "mappings": {
        "people": {"select": {"key": "type", "cases": {"Boy": "boy", "Girl": "girl"}, "otherwise": null}},
        "boy": {"entity": "Boy"}, "girl": {"entity": "Girl"},
        "users": {"entity": "User", "nestingKey": "username"},
        "article": {"entity": "Article", "attributes": {"headline.text": "title"}}
      },
      "routes": [
        {"keyPath": "articles", "mapping": "article"},
        {"path": "/articles/:articleID", "mapping": "article"},
        {"keyPath": "error", "error": true}, {"keyPath": "errors", "error": true}
      ]
    }
    """

func read(_ json: String) throws -> Model { try ModelReader.read(JSONText(copying: Array(json.utf8))) }

/// The faults of a model; empty for a valid one.
func faults(of json: String) -> [ModelFault] {
    do {
        _ = try ModelReader.read(JSONText(copying: Array(json.utf8)))
        return []
    } catch {
        return error.faults
    }
}

/// A model of the entity `A` with these fields.
func entity(_ fields: String) -> String { #"{"entities": {"A": {"# + fields + "}}}" }

/// A model of the entity `A` with the attribute `a` of these fields.
func attribute(_ fields: String) -> String { entity(#""attributes": {"a": {"# + fields + "}}") }

/// A model of the entities `A` and `B`, `A` with the relationship `b` of these fields.
func relationship(_ fields: String) -> String {
    #"{"entities": {"A": {"relationships": {"b": {"# + fields + #"}}}, "B": {"attributes": {"name": "string"}}}}"#
}

func written(_ model: Model) -> String {
    var writer = JSONWriter()
    model.write(to: &writer)
    return String(decoding: writer.bytes, as: UTF8.self)
}

/// Everything of a model but the places, for comparison.
func content(of model: Model) -> String {
    let entities = model.entities.map { entity in
        var entity = entity
        entity.place = .unknown
        for index in entity.attributes.indices { entity.attributes[index].place = .unknown }
        for index in entity.relationships.indices { entity.relationships[index].place = .unknown }
        return entity
    }
    let mappings = model.mappings.map { mapping in
        var mapping = mapping
        mapping.place = .unknown
        // Dictionaries have no order.
        guard case .record(let record) = mapping.form else { return String(reflecting: mapping) }
        return "\(mapping.name) \(record.entity) \(String(reflecting: record.nesting)) "
            + String(reflecting: record.attributes.sorted { $0.key < $1.key })
            + String(reflecting: record.relationships.sorted { $0.key < $1.key })
    }
    let routes = model.routes.map { "\($0.summary) \(String(reflecting: $0.mapping))" }
    return String(reflecting: entities) + mappings.joined() + routes.joined()
}
