import Broker
import Foundation

/// The names of all employees.
struct NameIndex: Codable {
    struct Employee: Codable {
        var id: Int
        var name: String?
    }

    /// The sequence of the newest commit that is in it; nil before the first one.
    var position: Int64?
    private var names: [Int: String] = [:]

    /// Reads the file; an empty index when there is none.
    init(_ file: URL) throws {
        guard FileManager.default.fileExists(atPath: file.path) else { return }
        self = try JSONDecoder().decode(NameIndex.self, from: Data(contentsOf: file))
    }

    func write(to file: URL) throws { try JSONEncoder().encode(self).write(to: file, options: .atomic) }

    mutating func replaceAll(by broker: some BrokerProtocol) async throws {
        names = [:]
        for try await employee in broker.fetch(Employee.self, from: "Employee") { names[employee.id] = employee.name }
    }

    mutating func apply(_ commit: Commit, by broker: some BrokerProtocol) async throws {
        // A job that changed very many objects has no keys.
        guard commit.keys != nil else { return try await replaceAll(by: broker) }
        let keys = try commit.keys(of: "Employee", as: Int.self)
        for key in keys.deleted + keys.updated + keys.inserted { names[key] = nil }
        let changed = keys.inserted + keys.updated
        for start in stride(from: 0, to: changed.count, by: 500) {
            let part = Array(changed[start..<min(start + 500, changed.count)])
            // An object that was deleted since then is not found, and a later commit says so.
            for try await employee in broker.fetch(Employee.self, from: "Employee", where: "id IN \(part)") {
                names[employee.id] = employee.name
            }
        }
    }
}
