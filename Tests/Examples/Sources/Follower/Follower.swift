import Broker
import BrokerClient
import Foundation

/// Keeps an index of the employees' names beside a store, in a file.
///
///     Follower SOCKET FILE
///
/// The file has the index and the sequence of the newest commit in it, and is replaced as a whole. So a follower that was killed at
/// any moment goes on where its file is.
@main struct Follower {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3 else { fatalError("usage: Follower SOCKET FILE") }
        let file = URL(filePath: arguments[2])
        try await withRemoteBroker(.unixSocket(arguments[1]), configuration: .init(name: "follower")) { broker in
            while true {
                do {
                    try await follow(broker, keeping: file)
                } catch let error as BrokerError where error.code == .gone {
                    // The follower was away for too long, or the store is another one: begin again.
                    try FileManager.default.removeItem(at: file)
                } catch let error as BrokerError where [.connectionLost, .cannotConnect].contains(error.code) {
                    // The server went while objects were fetched, or is away for long: go on where the file is.
                    print(error)
                }
            }
        }
    }

    static func follow(_ broker: some BrokerService, keeping file: URL) async throws {
        var index = try NameIndex(file)
        for try await commit in broker.commits(of: ["Employee"], after: index.position) {
            if index.position == nil {
                // The first commit of a feed without a position says where it begins.
                try await index.replaceAll(by: broker)
            } else if !commit.changes.isEmpty {
                try await index.apply(commit, by: broker)
            }
            index.position = commit.sequence
            try index.write(to: file)
        }
    }
}

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

    mutating func replaceAll(by broker: some BrokerService) async throws {
        names = [:]
        for try await employee in broker.objects(Employee.self, from: "Employee") { names[employee.id] = employee.name }
    }

    mutating func apply(_ commit: Commit, by broker: some BrokerService) async throws {
        // A job that changed very many objects has no keys.
        guard commit.keys != nil else { return try await replaceAll(by: broker) }
        let keys = try commit.keys(of: "Employee", as: Int.self)
        for key in keys.deleted + keys.updated + keys.inserted { names[key] = nil }
        let changed = keys.inserted + keys.updated
        for start in stride(from: 0, to: changed.count, by: 500) {
            let part = Array(changed[start..<min(start + 500, changed.count)])
            // An object that was deleted since then is not found, and a later commit says so.
            for try await employee in broker.objects(Employee.self, from: "Employee", where: "id IN \(part)") {
                names[employee.id] = employee.name
            }
        }
    }
}
