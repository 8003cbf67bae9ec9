import Foundation
import GRDB

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
