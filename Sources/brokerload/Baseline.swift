import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON
import BrokerSQLite
import CSQLite
import Dispatch
import Glibc
import Synchronization

/// The least that the work costs: one thread, the same parser, prepared upserts, and nothing of Broker around them.
struct Baseline {
    /// The database's path; an existing file is replaced.
    var path: String
    var records: RecordOptions
    /// Rows in a transaction at most.
    var transactionRows = 10_000

    /// Loads payloads into one new database, in one pass per payload.
    func load(_ passes: [[JSONText]]) throws -> [BaselineReport] {
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
        try database.execute("BEGIN IMMEDIATE")
        for payload in payloads {
            let document = try JSONDocument(fast: payload)
            for record in document.root.elements {
                if rows > 0, rows % transactionRows == 0 {
                    try database.execute("COMMIT")
                    try database.execute("BEGIN IMMEDIATE")
                }
                try database.upsert(record)
                rows += 1
            }
            withExtendedLifetime(document) {}
        }
        try database.execute("COMMIT")
        return rows
    }

    /// The payloads of a run's jobs, without the message around them.
    static func payloads(_ options: JobOptions, jobs: Int) -> [JSONText] {
        var source = JobSource(options)
        return (0..<jobs).map { _ in JSONText(copying: source.nextRecords()) }
    }
}

/// The least that one-record jobs cost when each is durable before its answer: a loop that reads what is there from a
/// socket, upserts, commits once for all of it, and answers. Neither LZ4 nor ids, and a ledger only if it is asked for.
///
/// A job is a 4-byte length and the JSON of a record, an answer is one byte.
struct GroupBaseline {
    var path: String
    var records: RecordOptions
    /// Jobs without an answer, which is how many one commit serves at most.
    var inFlight: Int
    var jobs: Int
    /// Each job is noted in a table in the transaction of its record, as it must be where none may be applied twice.
    var hasLedger = false

    /// More would not fit the buffers of the socket, and both sides would wait.
    static let mostInFlight = 400

    func run() throws -> BaselineReport {
        var sockets: [Int32] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &sockets) == 0 else {
            throw CommandFailure("There is no pair of sockets: \(String(cString: strerror(errno))).")
        }
        defer { for socket in sockets { close(socket) } }
        let database = try BaselineDatabase(path: path, options: records)
        if hasLedger { try database.makeLedger() }
        let (client, server) = (sockets[0], sockets[1])
        let frames = makeFrames()
        let measured = Mutex<(seconds: Double, latencies: LatencyHistogram)?>(nil)
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue(label: "brokerload.group").async { [inFlight] in
            let result = Self.ask(client, frames, inFlight)
            measured.withLock { $0 = result }
            shutdown(client, Int32(SHUT_WR))
            isDone.signal()
        }
        let commits = try serve(server, database)
        isDone.wait()
        guard let result = measured.withLock({ $0 }) else {
            throw CommandFailure("The loop ended before all of its jobs were answered.")
        }
        return BaselineReport(
            amount: jobs, unit: "jobs", seconds: result.seconds, commits: commits, latencies: result.latencies)
    }

    private func makeFrames() -> [[UInt8]] {
        var generator = GeneratedRecords(records)
        return (0..<jobs).map { number in
            var frame: [UInt8] = [0, 0, 0, 0]
            generator.write(number, to: &frame)
            withUnsafeBytes(of: UInt32(frame.count - 4).bigEndian) { frame.replaceSubrange(0..<4, with: $0) }
            return frame
        }
    }

    /// The loop.
    private func serve(_ socket: Int32, _ database: BaselineDatabase) throws -> Int {
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var filled = 0
        var (commits, noted) = (0, Int64(0))
        while true {
            let count = read(socket, &buffer[filled], buffer.count - filled)
            guard count > 0 else { return commits }
            filled += count
            var place = 0
            var answers: [UInt8] = []
            try database.execute("BEGIN IMMEDIATE")
            while filled - place >= 4 {
                let length = buffer[place..<place + 4].reduce(0) { $0 << 8 | Int($1) }
                guard filled - place - 4 >= length else { break }
                noted += 1
                try upsert(buffer[place + 4..<place + 4 + length], noted, database)
                answers.append(1)
                place += 4 + length
            }
            try database.execute("COMMIT")
            commits += 1
            buffer.withUnsafeMutableBytes {
                $0.baseAddress!.copyMemory(from: $0.baseAddress! + place, byteCount: filled - place)
            }
            filled -= place
            guard send(socket, answers, answers.count, Int32(MSG_NOSIGNAL)) == answers.count else { return commits }
        }
    }

    private func upsert(_ record: ArraySlice<UInt8>, _ sequence: Int64, _ database: BaselineDatabase) throws {
        let document = try JSONDocument(fast: record.withUnsafeBytes { JSONText(copying: $0) })
        // As it must be where one job may fail and the others not.
        try database.execute("SAVEPOINT job")
        try database.upsert(document.root)
        if hasLedger { try database.note(job: sequence) }
        try database.execute("RELEASE job")
        withExtendedLifetime(document) {}
    }

    /// The client. Nil when the loop ended before.
    private static func ask(
        _ socket: Int32, _ frames: [[UInt8]], _ inFlight: Int
    ) -> (seconds: Double, latencies: LatencyHistogram)? {
        var latencies = LatencyHistogram()
        var sentAt = [UInt64](repeating: 0, count: frames.count)
        var answers = [UInt8](repeating: 0, count: 4 << 10)
        var (sent, answered) = (0, 0)
        let start = monotonicNanoseconds()
        while answered < frames.count {
            let end = min(frames.count, answered + inFlight)
            if end > sent {
                let bytes = Array(frames[sent..<end].joined())
                let now = monotonicNanoseconds()
                for job in sent..<end { sentAt[job] = now }
                guard send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else { return nil }
                sent = end
            }
            let count = read(socket, &answers, answers.count)
            guard count > 0 else { return nil }
            let now = monotonicNanoseconds()
            for job in answered..<answered + count { latencies.record(now - sentAt[job]) }
            answered += count
        }
        return (Double(monotonicNanoseconds() - start) / 1e9, latencies)
    }
}

/// The result of a loop without Broker.
struct BaselineReport: Sendable {
    let amount: Int
    /// The counted unit: `records` or `jobs`.
    let unit: String
    let seconds: Double
    var processorSeconds: Double?
    var commits: Int?
    var latencies: LatencyHistogram?

    var json: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member(unit, amount)
            writer.member("seconds", seconds)
            writer.member("\(unit)PerSecond", Double(amount) / seconds)
            if let processorSeconds { writer.member("processorSeconds", processorSeconds) }
            if let commits { writer.member("commits", commits) }
            if let latencies { writer.member("latencyMicroseconds", latencies) }
        }
        return writer.bytes
    }
}

/// A database written in the plainest way: without a mapping, and without a ledger unless requested. Belongs to one
/// thread.
///
/// For a record it does the work of a loop in C: walk over the parsed record, bind, step. Texts are bound without a
/// copy.
private final class BaselineDatabase {
    private let connection: Connection
    /// The owners of the handles below, which are bound and stepped without checks.
    private var statements: [Statement] = []
    /// In the order of the statement's parameters.
    private let columns: [(key: [UInt8], kind: RecordField.Kind)]
    /// The records' keys come in the order of the columns and none is missing, so that not even a key is compared.
    private let isPlain: Bool
    private var record: OpaquePointer?
    private var department: OpaquePointer?
    /// The ledger's statement, if there is one.
    private var line: OpaquePointer?

    /// The settings of a new database. Foreign keys are not checked: the loop itself ensures them.
    private static let pragmas = [
        "journal_mode = WAL", "synchronous = FULL", "cache_size = -65536", "temp_store = MEMORY",
        "secure_delete = FAST", "wal_autocheckpoint = 4096", "foreign_keys = OFF",
    ]

    /// Creates the database; an existing one is deleted.
    init(path: String, options: RecordOptions) throws {
        for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
        connection = try Connection(path: path)
        let layout = RecordLayout(options)
        isPlain = options.probability >= 1 && options.keyOrder == .declared
        columns = layout.fields.map { (Array($0.key.utf8), $0.kind) }
        for sql in Self.pragmas.map({ "PRAGMA " + $0 }) + layout.tables { try execute(sql) }
        let names = layout.fields.map(\.name)
        let updates = names.dropFirst().map { name in
            options.probability < 1 ? "\(name) = coalesce(excluded.\(name), \(name))" : "\(name) = excluded.\(name)"
        }
        let places = names.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        record = try prepare(
            "INSERT INTO \(layout.entity) (\(names.joined(separator: ", "))) VALUES (\(places)) "
                + "ON CONFLICT (id) DO UPDATE SET \(updates.joined(separator: ", "))")
        if options.shape == .nested {
            department = try prepare(
                "INSERT INTO Department (id, name) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET name = excluded.name"
            )
        }
    }

    func upsert(_ value: JSONValue) throws {
        var next = 0
        for (key, value) in value.members {
            if !isPlain, !key.hasSameBytes(as: columns[next].key) { next = try column(of: key) }
            let place = Int32(next + 1)
            switch columns[next].kind {
            case .identity: bindKey(value, record, place)
            case .text, .email, .date, .decimal: bindText(value, record, place)
            case .double, .integer: bindNumber(value, place)
            case .boolean:
                if value.isNull {
                    sqlite3_bind_null(record, place)
                } else {
                    sqlite3_bind_int64(record, place, value.kind == .true ? 1 : 0)
                }
            case .department: try upsertDepartment(value, place)
            }
            next = next + 1 == columns.count ? 0 : next + 1
        }
        try step(record)
        if !isPlain { sqlite3_clear_bindings(record) }
    }

    private func column(of key: JSONValue) throws -> Int {
        guard let place = columns.firstIndex(where: { key.hasSameBytes(as: $0.key) }) else {
            throw CommandFailure("The baseline does not know the key \(String(decoding: key.bytes, as: UTF8.self)).")
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
                bindText(value, department, 2)
            }
            isFirst = false
        }
        try step(department)
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
            bindText(value, statement, place)
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

    /// Without a copy: the document outlives the step.
    private func bindText(_ value: JSONValue, _ statement: OpaquePointer?, _ place: Int32) {
        if value.isNull {
            sqlite3_bind_null(statement, place)
            return
        }
        let bytes = value.bytes
        let text = UnsafeRawPointer(bytes.baseAddress!).assumingMemoryBound(to: CChar.self)
        broker_sqlite_bind_static_text(statement, place, text, UInt64(bytes.count))
    }

    private func step(_ statement: OpaquePointer?) throws {
        guard sqlite3_step(statement) == SQLITE_DONE else {
            throw CommandFailure("SQLite: \(connection.lastMessage)")
        }
        sqlite3_reset(statement)
    }

    func execute(_ sql: String) throws { try connection.execute(sql) }

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
