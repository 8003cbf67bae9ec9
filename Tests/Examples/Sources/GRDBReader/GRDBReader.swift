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
