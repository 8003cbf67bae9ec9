import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import CSQLite
import Glibc

/// The least that the work costs: one thread, the same parser, prepared upserts, and nothing of Broker around them.
struct FloorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "floor",
        abstract: "Loads the same records without Broker: parse, then step prepared upserts, on one thread.")

    @Option(help: "The SQLite database; made anew.", completion: .file())
    var store: String

    @OptionGroup var size: LoadSize

    func run() async throws {
        let database = try FloorDatabase(path: store)
        let payloads = (0..<size.jobs).map { JSONText(copying: size.payload($0)) }
        let start = Stopwatch()
        for payload in payloads { try database.load(payload) }
        try LoadReport(records: size.jobs * size.records, seconds: start.seconds).say(as: "floor", json: size.json)
    }
}

/// A database with the workload's tables, written the plain way.
private final class FloorDatabase {

    private let handle: OpaquePointer
    private var department: OpaquePointer?
    private var employee: OpaquePointer?

    init(path: String) throws {
        for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
        var handle: OpaquePointer?
        guard sqlite3_open(path, &handle) == SQLITE_OK, let handle else {
            throw CommandFailure(.failed, "The database \(path) cannot be opened.")
        }
        self.handle = handle
        let settings = [
            "journal_mode = WAL", "synchronous = FULL", "cache_size = -65536", "temp_store = MEMORY",
            "secure_delete = FAST", "wal_autocheckpoint = 4096", "foreign_keys = ON",
        ]
        for sql in settings.map({ "PRAGMA " + $0 }) + Workload.tables { try execute(sql) }
        department = try prepare(
            "INSERT INTO Department (id, name) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET name = excluded.name")
        let columns = ["id", "name", "email", "salary", "score", "active", "hiredAt", "level", "department"]
        let updates = columns.dropFirst().map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
        employee = try prepare(
            "INSERT INTO Employee (\(columns.joined(separator: ", "))) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) "
                + "ON CONFLICT (id) DO UPDATE SET \(updates)")
    }

    deinit {
        sqlite3_finalize(department)
        sqlite3_finalize(employee)
        sqlite3_close(handle)
    }

    /// One payload in one transaction. The workload's keys come in the order of the columns, so that not even a key is
    /// compared: nothing can be faster with these statements.
    func load(_ payload: JSONText) throws {
        let document = try JSONDocument(parsing: payload)
        try execute("BEGIN IMMEDIATE")
        for record in document.root.elements {
            var column: Int32 = 1
            for (_, value) in record.members {
                if value.kind == .object {
                    try upsertDepartment(value)
                } else if column == Self.salaryColumn {
                    bindText(value, employee, column)
                } else {
                    bind(value, employee, column)
                }
                column += 1
            }
            try step(employee)
        }
        try execute("COMMIT")
        withExtendedLifetime(document) {}
    }

    private static let salaryColumn: Int32 = 4
    private static let departmentColumn: Int32 = 9

    private func upsertDepartment(_ record: JSONValue) throws {
        var column: Int32 = 1
        for (_, value) in record.members {
            bind(value, department, column)
            if column == 1 { bind(value, employee, Self.departmentColumn) }
            column += 1
        }
        try step(department)
    }

    private func bind(_ value: JSONValue, _ statement: OpaquePointer?, _ index: Int32) {
        switch value.kind {
        case .number:
            if let integer = value.int64 {
                sqlite3_bind_int64(statement, index, integer)
            } else {
                sqlite3_bind_double(statement, index, value.double ?? 0)
            }
        case .true, .false: sqlite3_bind_int64(statement, index, value.bool == true ? 1 : 0)
        case .string: bindText(value, statement, index)
        default: sqlite3_bind_null(statement, index)
        }
    }

    /// Without a copy: the document outlives the step.
    private func bindText(_ value: JSONValue, _ statement: OpaquePointer?, _ index: Int32) {
        let bytes = value.bytes
        guard let start = bytes.baseAddress else { return }
        let text = UnsafeRawPointer(start).assumingMemoryBound(to: CChar.self)
        broker_sqlite_bind_static_text(statement, index, text, UInt64(bytes.count))
    }

    private func step(_ statement: OpaquePointer?) throws {
        guard sqlite3_step(statement) == SQLITE_DONE else { throw failure() }
        sqlite3_reset(statement)
    }

    private func execute(_ sql: String) throws {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw failure() }
    }

    private func prepare(_ sql: String) throws -> OpaquePointer? {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK else { throw failure() }
        return statement
    }

    private func failure() -> CommandFailure {
        CommandFailure(.failed, "SQLite: \(String(cString: sqlite3_errmsg(handle)))")
    }
}
