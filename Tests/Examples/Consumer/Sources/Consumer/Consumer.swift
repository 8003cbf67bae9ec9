import BrokerClient

struct Employee: Codable {
    var id: Int
    var name: String
}

/// Stores two employees, one of them twice, syncs, renames and deletes them, and says what became of them.
@main struct Consumer {
    static func main() async throws {
        let path = CommandLine.arguments[1]
        let broker = try await RemoteBroker.connect(to: .unixSocket(path), configuration: .init(name: "consumer"))
        let server = try await broker.serverInformation()
        print("\(server.name) keeps \(server.entities.joined(separator: ", "))")

        let employees = [Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace")]
        let completion = try await broker.process(employees, as: "Employee", id: "load-1", reply: .keys)
        let keys = try completion.keys(of: "Employee", as: Int.self)
        print("inserted \(completion.changes["Employee"]?.inserted ?? 0): \(keys.inserted)")

        let again = try await broker.process(employees, as: "Employee", id: "load-1", reply: .keys)
        print(again.isDuplicate ? "applied once" : "applied twice")

        let ticket = try await broker.submit(Job(.process([Employee(id: 2, name: "Grace Hopper")], as: "Employee")))
        let outcome: Completion = try await ticket.completion
        print("updated \(outcome.changes["Employee"]?.updated ?? 0)")

        do {
            _ = try await broker.process(json: #"{"id": "not a number"}"#, as: "Employee")
        } catch let error as BrokerError where error.code == .invalidValue {
            print("refused at \(error.fault?.path ?? "")")
        }

        // Only what is named stays.
        let synced = try await broker.sync([Employee(id: 3, name: "Barbara")], as: "Employee", where: "id < \(10)")
        print("synced, deleted \(synced.changes["Employee"]?.deleted ?? 0)")
        let renamed = try await broker.update("Employee", key: 3, json: #"{"id": 4}"#, reply: .keys)
        print("renamed to \(try renamed.keys(of: "Employee", as: Int.self).updated)")
        let deleted = try await broker.delete("Employee", keys: [4, 5])
        print("deleted \(deleted.changes["Employee"]?.deleted ?? 0), \(deleted.warnings.first?.code.rawValue ?? "")")
        broker.close()
    }
}
