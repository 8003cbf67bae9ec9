import Foundation
import GRDB

/// Reads the store of a running server, and prints its employees whenever a job has changed the store.
///
///     GRDBReader STORE
///
/// It ends when there is an employee of the name "Stop".
@main struct GRDBReader {
    static func main() async throws {
        let path = CommandLine.arguments[1]
        // One connection, which cannot write.
        var configuration = Configuration()
        configuration.readonly = true
        let store = try DatabaseQueue(path: path, configuration: configuration)

        let employees = RepeatedQuery(store: store) { database in
            let request = Employee.including(optional: Employee.department).order(Column("id"))
            let employees = try EmployeeOfDepartment.fetchAll(database, request)
            return (employees, try Employee.hired(before: .now).fetchCount(database))
        }
        for try await (employees, hired) in employees {
            print("\(hired) hired: " + employees.map(\.description).joined(separator: ", "))
            if employees.contains(where: { $0.employee.name == "Stop" }) { return }
        }
    }
}

struct Department: Codable, FetchableRecord, TableRecord {
    static let databaseTableName = "Department"

    var id: Int
    var name: String
}

/// A row of the table that the server makes for the entity: a column for each attribute, and one for the to-one relationship.
struct Employee: Codable, FetchableRecord, TableRecord {
    static let databaseTableName = "Employee"
    // The column has the relationship's name, so the joined row needs a key of its own.
    static let department = belongsTo(Department.self, key: "departmentRow", using: ForeignKey(["department"]))

    var id: Int
    var name: String
    var hiredAt: Date?

    /// GRDB writes dates in another form than the server, so a date is compared as the server's text.
    static func hired(before date: Date) -> QueryInterfaceRequest<Employee> {
        let text = date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        return filter(Column("hiredAt") < text)
    }
}

struct EmployeeOfDepartment: Decodable, FetchableRecord, CustomStringConvertible {
    var employee: Employee
    var departmentRow: Department?

    var description: String {
        let year = employee.hiredAt.map { " since \($0.formatted(.iso8601.year()))" } ?? ""
        return "\(employee.name) (\(departmentRow?.name ?? "no department")\(year))"
    }
}

/// The result of a query, now and after each commit of another process.
///
/// (GRDB's `ValueObservation` sees only what its own process writes.)
struct RepeatedQuery<Value: Sendable>: AsyncSequence {
    let store: DatabaseQueue
    let fetch: @Sendable (Database) throws -> Value

    func makeAsyncIterator() -> Iterator { Iterator(store: store, fetch: fetch) }

    struct Iterator: AsyncIteratorProtocol {
        let store: DatabaseQueue
        let fetch: @Sendable (Database) throws -> Value
        private var version: Int?

        init(store: DatabaseQueue, fetch: @escaping @Sendable (Database) throws -> Value) {
            self.store = store
            self.fetch = fetch
        }

        mutating func next() async throws -> Value? {
            while true {
                let result = try await store.read { [fetch, version] database -> (Int?, Value)? in
                    // SQLite changes this number of a connection when another one has committed.
                    let newest = try Int.fetchOne(database, sql: "PRAGMA data_version")
                    return newest == version ? nil : (newest, try fetch(database))
                }
                if let (newest, value) = result {
                    version = newest
                    return value
                }
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }
}
