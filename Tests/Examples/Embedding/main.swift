import BrokerEmbedded

struct Employee: Codable {
    var id: Int, name: String
}

let model = #"{"entities": {"Employee": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}}}"#
let broker = try await EmbeddedBroker.open(store: .file("staff.sqlite"), model: .json(model))

let staff = [Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace")]
let outcome = try await broker.process(staff, as: "Employee", id: "load-1")
print(outcome.isDuplicate ? "loaded before" : "inserted \(outcome.changes["Employee"]?.inserted ?? 0)")

do {
    _ = try await broker.process(json: #"{"id": "three"}"#, as: "Employee")
} catch let error as BrokerError {
    print("refused at \(error.fault?.path ?? "?"): \(error.code)")
}

let initial = "G"
let found = broker.objects(Employee.self, from: "Employee", where: "name BEGINSWITH \(initial)")
print(try await found.collect().map(\.name))
await broker.close()
