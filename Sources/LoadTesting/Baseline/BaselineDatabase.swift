internal import BrokerFastJSON
package import BrokerJSON
internal import BrokerSQLite
internal import CSQLite
internal import Glibc

/// A database written in the plainest way: without a mapping, and without a ledger unless requested. Belongs to one
/// thread.
///
/// For a record it does the work of a loop in C: walk over the parsed record, bind, step. Texts are bound without a
/// copy.
final class BaselineDatabase {
    private let connection: Connection
    /// The owners of the handles below, which are bound and stepped without checks.
    private var statements: [Statement] = []
    private let layout: RecordLayout
    private let columns: [Column]
    /// The records' keys come in the order of the columns and none is missing, so that not even a key is compared.
    private let isPlain: Bool
    private var record: OpaquePointer?
    private var department: OpaquePointer?
    private var departmentStub: OpaquePointer?
    private var project: OpaquePointer?
    private var membership: OpaquePointer?
    /// The ledger's statements, if there is one.
    private var line: OpaquePointer?

    /// How a member of a record is written.
    private struct Column {
        enum Writing { case text, number, boolean, department, departmentKey, key, projects }

        let key: [UInt8]
        let writing: Writing
        /// The statement's parameter; 0 for a field without a column.
        let place: Int32
    }

    /// The settings of a new database. Foreign keys are not checked: the loop itself ensures them.
    static let pragmas = [
        "journal_mode = WAL", "synchronous = FULL", "cache_size = -65536", "temp_store = MEMORY",
        "secure_delete = FAST", "wal_autocheckpoint = 4096", "foreign_keys = OFF",
    ]

    /// Creates the database; an existing one is deleted.
    init(path: String, options: RecordOptions) throws {
        for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
        connection = try Connection(path: path)
        let layout = RecordLayout(options)
        self.layout = layout
        isPlain = options.presence >= 1 && options.keyOrder == .declared
        var place: Int32 = 0
        columns = layout.fields.map { field in
            if field.kind != .projectKeys { place += 1 }
            return Column(
                key: Array(field.key.utf8), writing: Self.writing(field.kind, layout.keys),
                place: field.kind == .projectKeys ? 0 : place)
        }
        for sql in Self.pragmas.map({ "PRAGMA " + $0 }) + layout.tables { try execute(sql) }
        try prepareStatements(isPartial: options.presence < 1)
    }

    private static func writing(_ kind: RecordField.Kind, _ keys: RecordKeys) -> Column.Writing {
        switch kind {
        case .identity, .managerKey: .key
        case .text, .email, .date, .decimal: .text
        case .double, .integer: .number
        case .boolean: .boolean
        case .department: .department
        case .departmentKey: .departmentKey
        case .projectKeys: .projects
        }
    }

    private func prepareStatements(isPartial: Bool) throws {
        let names = layout.fields.filter { $0.kind != .projectKeys }.map(\.name)
        let updates = names.dropFirst().map { name in
            isPartial ? "\(name) = coalesce(excluded.\(name), \(name))" : "\(name) = excluded.\(name)"
        }
        let places = names.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        record = try prepare(
            "INSERT INTO \(layout.entity) (\(names.joined(separator: ", "))) VALUES (\(places)) "
                + "ON CONFLICT (id) DO UPDATE SET \(updates.joined(separator: ", "))")
        for field in layout.fields {
            switch field.kind {
            case .department:
                department = try prepare(
                    "INSERT INTO Department (id, name) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET name = excluded.name"
                )
            case .departmentKey:
                departmentStub = try prepare("INSERT INTO Department (id) VALUES (?1) ON CONFLICT DO NOTHING")
            case .projectKeys:
                project = try prepare("INSERT INTO Project (id) VALUES (?1) ON CONFLICT DO NOTHING")
                membership = try prepare(
                    "INSERT INTO \(layout.entity)_projects (source, destination) VALUES (?1, ?2) ON CONFLICT DO NOTHING"
                )
            default: break
            }
        }
    }

    // MARK: - Records

    func begin() throws { try execute("BEGIN IMMEDIATE") }
    func commit() throws { try execute("COMMIT") }
    func savepoint() throws { try execute("SAVEPOINT job") }
    func release() throws { try execute("RELEASE job") }

    func upsert(_ value: JSONValue) throws {
        var next = 0
        var links: (identity: JSONValue?, projects: JSONValue?) = (nil, nil)
        for (key, value) in value.members {
            if !isPlain, !key.hasSameBytes(as: columns[next].key) { next = try column(of: key) }
            let column = columns[next]
            switch column.writing {
            case .text: bindText(value, column.place)
            case .number: bindNumber(value, column.place)
            case .boolean: bindBoolean(value, column.place)
            case .key:
                if next == 0 { links.identity = value }
                bindKey(value, record, column.place)
            case .department: try upsertDepartment(value, column.place)
            case .departmentKey:
                bindKey(value, departmentStub, 1)
                try step(departmentStub)
                bindKey(value, record, column.place)
            case .projects: links.projects = value
            }
            next = next + 1 == columns.count ? 0 : next + 1
        }
        try step(record)
        if !isPlain { sqlite3_clear_bindings(record) }
        if let identity = links.identity, let projects = links.projects { try link(identity, projects) }
    }

    private func column(of key: JSONValue) throws -> Int {
        guard let place = columns.firstIndex(where: { key.hasSameBytes(as: $0.key) }) else {
            throw LoadError(
                .failed, "The baseline does not know the key \(String(decoding: key.bytes, as: UTF8.self)).")
        }
        return place
    }

    private func upsertDepartment(_ value: JSONValue, _ place: Int32) throws {
        var isFirst = true
        for (_, value) in value.members {
            if isFirst {
                bindKey(value, department, 1)
                bindKey(value, record, place)
            } else {
                bindText(value, 2, department)
            }
            isFirst = false
        }
        try step(department)
    }

    private func link(_ identity: JSONValue, _ projects: JSONValue) throws {
        bindKey(identity, membership, 1)
        for key in projects.elements {
            bindKey(key, project, 1)
            try step(project)
            bindKey(key, membership, 2)
            try step(membership)
        }
    }

    // MARK: - The ledger

    /// From now on jobs can be noted, each in a line such as Broker's ledger has.
    func makeLedger() throws {
        try execute(
            """
            CREATE TABLE ledger (sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, hash BLOB, failed INTEGER NOT NULL, \
            ended INTEGER NOT NULL, outcome TEXT NOT NULL, owner INTEGER)
            """)
        line = try prepare("INSERT INTO ledger VALUES (?1, ?2, zeroblob(16), 0, 1321956000000, ?3, 0)")
    }

    /// The row of Broker's ledger for a job with a record and its department.
    private static let outcome: StaticString = """
        "changes":{"Department":{"inserted":0,"updated":0,"unchanged":1,"deleted":0,"rejected":0},\
        "Employee":{"inserted":1,"updated":0,"unchanged":0,"deleted":0,"rejected":0}},"rejected":[],"warnings":[]
        """

    func note(job sequence: Int64) throws {
        sqlite3_bind_int64(line, 1, sequence)
        // A number of twelve digits: the text of an id.
        sqlite3_bind_int64(line, 2, 100_000_000_000 + sequence)
        let outcome = UnsafeRawPointer(Self.outcome.utf8Start).assumingMemoryBound(to: CChar.self)
        broker_sqlite_bind_static_text(line, 3, outcome, UInt64(Self.outcome.utf8CodeUnitCount))
        try step(line)
    }

    // MARK: - SQLite

    private func bindKey(_ value: JSONValue, _ statement: OpaquePointer?, _ place: Int32) {
        if let integer = value.int64 {
            sqlite3_bind_int64(statement, place, integer)
        } else {
            bindText(value, place, statement)
        }
    }

    private func bindNumber(_ value: JSONValue, _ place: Int32) {
        if let integer = value.int64 {
            sqlite3_bind_int64(record, place, integer)
        } else if let double = value.double {
            sqlite3_bind_double(record, place, double)
        } else {
            sqlite3_bind_null(record, place)
        }
    }

    private func bindBoolean(_ value: JSONValue, _ place: Int32) {
        if value.isNull {
            sqlite3_bind_null(record, place)
        } else {
            sqlite3_bind_int64(record, place, value.kind == .true ? 1 : 0)
        }
    }

    private func bindText(_ value: JSONValue, _ place: Int32) {
        if value.isNull { sqlite3_bind_null(record, place) } else { bindText(value, place, record) }
    }

    /// Without a copy: the document outlives the step.
    private func bindText(_ value: JSONValue, _ place: Int32, _ statement: OpaquePointer?) {
        let bytes = value.bytes
        let text = UnsafeRawPointer(bytes.baseAddress!).assumingMemoryBound(to: CChar.self)
        broker_sqlite_bind_static_text(statement, place, text, UInt64(bytes.count))
    }

    private func step(_ statement: OpaquePointer?) throws {
        guard sqlite3_step(statement) == SQLITE_DONE else {
            throw LoadError(.failed, "SQLite: \(connection.lastMessage)")
        }
        sqlite3_reset(statement)
    }

    private func execute(_ sql: String) throws { try connection.execute(sql) }

    private func prepare(_ sql: String) throws -> OpaquePointer? {
        let statement = try connection.prepare(sql)
        statements.append(statement)
        return statement.handle
    }
}

extension JSONValue {
    @inline(__always)
    fileprivate func hasSameBytes(as other: [UInt8]) -> Bool {
        let own = bytes
        guard own.count == other.count else { return false }
        return other.withUnsafeBytes { memcmp(own.baseAddress!, $0.baseAddress!, own.count) == 0 }
    }
}

/// The least that the work costs: one thread, the same parser, prepared upserts, and nothing of Broker around them.
package struct Baseline {
    /// The database's path; an existing file is replaced.
    package var path: String
    package var records: RecordOptions
    /// Rows in a transaction at most.
    package var transactionRows = 10_000

    package init(path: String, records: RecordOptions) {
        self.path = path
        self.records = records
    }

    /// Loads payloads into one new database, in one pass per payload.
    ///
    /// - Parameter passes: each an array of JSON arrays of records.
    /// - Returns: a report for each pass.
    package func load(_ passes: [[JSONText]]) throws -> [BaselineReport] {
        let database = try BaselineDatabase(path: path, options: records)
        return try passes.map { payloads in
            let start = monotonicNanoseconds()
            let processor = ProcessUsage.ofThisThread
            let rows = try load(payloads, into: database)
            return BaselineReport(
                amount: rows, unit: "records", seconds: Double(monotonicNanoseconds() - start) / 1e9,
                processorSeconds: ProcessUsage.ofThisThread - processor)
        }
    }

    private func load(_ payloads: [JSONText], into database: BaselineDatabase) throws -> Int {
        var rows = 0
        try database.begin()
        for payload in payloads {
            let document = try JSONDocument(fast: payload)
            for record in document.root.elements {
                if rows > 0, rows % transactionRows == 0 {
                    try database.commit()
                    try database.begin()
                }
                try database.upsert(record)
                rows += 1
            }
            withExtendedLifetime(document) {}
        }
        try database.commit()
        return rows
    }

    /// The payloads of a run's jobs, without the message around them.
    package static func payloads(_ options: JobOptions, jobs: Int) -> [JSONText] {
        var source = JobSource(options)
        return (0..<jobs).map { _ in JSONText(copying: source.nextRecords()) }
    }
}
