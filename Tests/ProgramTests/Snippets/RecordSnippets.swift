import Broker
import BrokerEmbedded
import Testing

struct Customer: Codable, BrokerRecord {
    static let entity = "Customer"

    var id: Int
    var name: String?
}

struct Order: Codable, BrokerRecord {
    static let entity = "Order"

    var id: Int
    var customer: Int?
}

/// The code of the comments about records and predicates, run.
@Suite(.timeLimit(.minutes(5))) struct RecordSnippets {
    private let model = RawJSON(
        #"""
        {"entities": {
          "Customer": {"identity": "id",
            "attributes": {"id": "integer64", "name": "string", "age": "integer64", "email": "string"}},
          "Order": {"identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"customer": {"entity": "Customer"}}}}}
        """#)

    @Test func `records know their entity`() async throws {
        try await withTemporaryBroker(model: .json(model)) { broker in
            try await broker.check(Customer.self, Order.self)

            let customers = [Customer(id: 1, name: "Ada"), Customer(id: 2, name: "Grace")]
            let number = 7
            let completion = try await broker.process(customers, id: "import-\(number)")
            print(completion.changes(of: Customer.self).inserted)
            for try await customer in broker.objects(Customer.self, where: "id > \(1)", sort: "-id", limit: 50) {
                print(customer)
            }
            #expect(completion.changes(of: Customer.self) == .init(inserted: 2))
        }
    }

    @Test func `predicates are made of others`() async throws {
        let prefix = "A"
        let adult: BrokerPredicate = "age >= \(18)"
        let wanted = adult && !("email == \(nil)" || "name BEGINSWITH \(prefix)")
        let same: BrokerPredicate = "\(adult) AND NOT (email == nil OR name BEGINSWITH \(prefix))"
        try await withTemporaryBroker(model: .json(model)) { broker in
            try await broker.process(
                json: #"""
                    [{"id": 1, "name": "Ada", "age": 20, "email": "a"}, {"id": 2, "name": "Eve", "age": 20, "email": "e"},
                     {"id": 3, "name": "Bob", "age": 20}, {"id": 4, "name": "Kim", "age": 9, "email": "k"}]
                    """#, as: "Customer")
            for predicate in [wanted, same] {
                #expect(try await broker.objects(Customer.self, where: predicate).collect().map(\.id) == [2])
            }
        }
    }
}
