import BrokerJSON

/// The records that the load is made of: eight attributes and a nested object, about 200 bytes each. The same number
/// always gives the same record, so that runs can be compared.
struct Workload {
    static let departments = 500

    static let model = """
        {"entities": {
          "Employee": {
            "identity": "id",
            "attributes": {
              "id": "integer64", "name": "string", "email": "string", "salary": "decimal", "score": "double",
              "active": "boolean", "hiredAt": {"type": "date", "key": "hired_at"}, "level": "integer32"},
            "relationships": {"department": {"entity": "Department"}}},
          "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}
        }}
        """

    /// The tables of that model, as `broker model schema` prints them, for those who write without Broker.
    static let tables = [
        "CREATE TABLE Department (id INTEGER PRIMARY KEY, name TEXT)",
        """
        CREATE TABLE Employee (id INTEGER PRIMARY KEY, name TEXT, email TEXT, salary TEXT, score REAL, active INTEGER,
            hiredAt TEXT, level INTEGER, department INTEGER REFERENCES Department (id)
            ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED)
        """,
        "CREATE INDEX \"Employee.department\" ON Employee (department)",
    ]

    /// A JSON array of the records with these numbers.
    static func records(_ numbers: Range<Int>) -> [UInt8] {
        var writer = JSONWriter(capacity: numbers.count * 240)
        writer.array { writer in
            for number in numbers { write(number, to: &writer) }
        }
        return writer.bytes
    }

    static func write(_ number: Int, to writer: inout JSONWriter) {
        let day = 1 + number % 28
        let hour = number % 24
        writer.object { writer in
            writer.key("id")
            writer.integer(number)
            writer.key("name")
            writer.string("Employee \(number)")
            writer.key("email")
            writer.string("employee\(number)@example.com")
            writer.key("salary")
            writer.raw("\(3_000 + number % 977).\(10 + number % 90)".utf8)
            writer.key("score")
            writer.double(Double(number % 1_000) / 8)
            writer.key("active")
            writer.bool(number % 3 == 0)
            writer.key("hired_at")
            writer.string("2015-03-\(day < 10 ? "0" : "")\(day)T\(hour < 10 ? "0" : "")\(hour):30:00Z")
            writer.key("level")
            writer.integer(number % 12)
            writer.key("department")
            writer.object { writer in
                writer.key("id")
                writer.integer(number % departments)
                writer.key("name")
                writer.string("Department \(number % departments)")
            }
        }
    }
}
