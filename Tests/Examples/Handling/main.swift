import BrokerEmbedded

struct Child: Codable {
    var name: String, toy: String?, months: Int?
}

struct TooOld: Error, CustomStringConvertible {
    let description: String
}

let model = """
    {"entities": {
       "Child": {"abstract": true, "identity": "name",
                 "attributes": {"name": "string", "toy": "string", "age": {"type": "integer16", "key": "months"}}},
       "Boy": {"parent": "Child"}, "Girl": {"parent": "Child"}},
     "mappings": {"boy": {"entity": "Boy"}, "girl": {"entity": "Girl"},
                  "child": {"select": {"key": "kind", "cases": {"boy": "boy", "girl": "girl"}}}}}
    """

var handlers = EmbeddedBroker.Handlers()
handlers.addChooser(forMapping: "child") { record in  // a record that does not say what it is
    try record.decode(Child.self).toy == "doll" ? .mapping("girl") : .asModelled
}
handlers.addRewriter(for: "Child") { record in  // a name written in two ways
    let child = try record.decode(Child.self)
    guard !child.name.isEmpty else { return nil }
    return try .init(encoding: Child(name: child.name.lowercased(), toy: child.toy, months: child.months))
}
handlers.addConverter(for: "age", of: "Child") { months in .init("\(try months.decode(Int.self) / 12)") }
handlers.addValidator(for: "Child") { child in
    struct Age: Decodable { var age: Int? }
    if let age = try child.decode(Age.self).age, age > 12 { throw TooOld(description: "\(age) is no child's age.") }
}

let broker = try await EmbeddedBroker.open(
    store: .file("children.sqlite"), model: .json(model), handlers: handlers)
let children = """
    [{"name": "Ann", "toy": "doll", "months": 50}, {"kind": "boy", "name": "BO", "months": 36}, {"kind": "boy", "name": ""},
     {"kind": "girl", "name": "cy", "months": 400}]
    """
let outcome = try await broker.processPayload(json: children, by: .mapping("child"), onInvalid: .skip)
print(outcome.rejections.map { "\($0.path ?? "?"): \($0.message)" })
let everyone = Query("Child", sort: ["name"], names: .model)
print(try await broker.fetch(everyone).objects)
await broker.close()
