import Foundation
import GRDB

struct EmployeeOfDepartment: Decodable, FetchableRecord, CustomStringConvertible {
    var employee: Employee
    var departmentRow: Department?

    var description: String {
        let year = employee.hiredAt.map { " since \($0.formatted(.iso8601.year()))" } ?? ""
        return "\(employee.name) (\(departmentRow?.name ?? "no department")\(year))"
    }
}
