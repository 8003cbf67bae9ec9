import BrokerEmbedded

struct Employee: Codable {
    var id: Int, name: String
}

let model = #"{"entities": {"Employee": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}}}"#
let broker = try await EmbeddedBroker.open(store: "staff.sqlite", model: .init(model))

let staff = [Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace")]
let outcome = try await broker.run(.process(staff, as: "Employee"), id: "load-1")
print(outcome.isDuplicate ? "loaded before" : "inserted \(outcome.changes["Employee"]?.inserted ?? 0)")

do {
    _ = try await broker.run(.process(json: #"{"id": "three"}"#, as: "Employee"))
} catch let error as EmbeddedBroker.Failure {
    print("refused at \(error.fault?.path ?? "?"): \(error.code!)")
}

let found = try await broker.fetch(.init("Employee", where: .init("name BEGINSWITH %@", "G")))
print(try found.decode([Employee].self).map(\.name))
await broker.stop()
