import Broker
import Testing

private struct Customer: Codable, BrokerRecord {
    static let entity = "Customer"

    var id: Int
    var name: String?
}

private struct Account: Codable, BrokerRecord {
    static let entity = "Account"
    static let names = Query.Names.model

    var number: Int
}

/// Types that know their entity.
@Suite(.timeLimit(.minutes(5))) struct RecordTests {
    private func content(_ job: Job) throws -> String {
        String(decoding: try job.content(id: nil, wantsAcceptance: false), as: UTF8.self)
    }

    @Test func `an operation of a record is that of its entity`() throws {
        let (ada, key) = (Customer(id: 1, name: "Ada"), 1)
        let pairs: [(Job.Operation, Job.Operation)] = [
            (try .process(ada), try .process(ada, as: "Customer")),
            (try .process([ada]), try .process([ada], as: "Customer")),
            (
                try .update(Customer.self, key: key, with: ["name": "Eve"]),
                try .update("Customer", key: key, with: ["name": "Eve"])
            ),
            (
                try .set("boss", of: Customer.self, key: key, to: ada),
                try .set("boss", of: "Customer", key: key, to: ada)
            ),
            (
                try .set("boss", of: Customer.self, key: key, to: nil),
                try .set("boss", of: "Customer", key: key, to: nil)
            ),
            (try .sync([ada], where: "id > \(0)"), try .sync([ada], as: "Customer", where: "id > \(0)")),
            (try .delete(Customer.self, keys: [key]), try .delete("Customer", keys: [key])),
            (.delete(Customer.self, where: .all), .delete("Customer", where: .all)),
            (
                try .increment(Customer.self, key: key, by: ["age": 1]),
                try .increment("Customer", key: key, by: ["age": 1])
            ),
            (
                try .append(Customer.self, key: key, with: ["log": "x"]),
                try .append("Customer", key: key, with: ["log": "x"])
            ),
        ]
        for (typed, named) in pairs { #expect(try content(Job(typed)) == content(Job(named))) }
    }

    @Test func `a job has the names of its records' types`() throws {
        let account = Account(number: 1)
        #expect(try content(Job(.process(account))).contains(#""names":"local""#))
        #expect(try content(Job(.update(Account.self, key: 1, with: account))).contains(#""names":"local""#))
        #expect(try !content(Job(.process(Customer(id: 1)))).contains("names"))
        #expect(try content(Job(.process(account, as: "Account"), names: .model)).contains(#""names":"local""#))
        let error = #expect(throws: BrokerError.self) {
            try content(Job([.process(account), .process(Customer(id: 1))]))
        }
        #expect(error?.code == .notEncodable && error?.message.contains("two jobs") == true)
    }

    @Test func `a completion and a commit have the numbers and the keys of a type`() throws {
        let keys = RawJSON(#"{"Customer": {"inserted": [1, 2]}}"#)
        let completion = Completion(
            id: "a", sequence: 1, changes: ["Customer": .init(inserted: 2)], keys: keys)
        #expect(completion.changes(of: Customer.self).inserted == 2)
        #expect(completion.changes(of: Account.self) == .init())
        #expect(try completion.keys(of: Customer.self, as: Int.self).inserted == [1, 2])
        let commit = Commit(sequence: 1, changes: completion.changes, keys: keys)
        #expect(commit.changes(of: Customer.self) == .init(inserted: 2) && commit.changes(of: Account.self) == .init())
        #expect(try commit.keys(of: Customer.self, as: Int.self).inserted == [1, 2])
    }

    @Test func `sort keys are one text or several`() {
        let name = "name"
        #expect(Query("E", sort: "-createdAt").sortKeys == ["-createdAt"])
        #expect(Query("E", sort: "-\(name)").sortKeys == ["-name"])
        #expect(Query("E", sort: ["a.b", "-c"]).sortKeys == ["a.b", "-c"])
        #expect(Query("E", sort: .init([name])).sortKeys == ["name"])
    }
}
