import GRDB

struct Department: Codable, FetchableRecord, TableRecord {
    static let databaseTableName = "Department"

    var id: Int
    var name: String
}
