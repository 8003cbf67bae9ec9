import BrokerJSON
import CSQLite
import Testing
import TestSupport

@testable import BrokerLoad

/// The statements that peers load the same records with.
@Suite(.timeLimit(.minutes(5))) struct PeerTablesTests {
    private let folder = TemporaryFolder()

    private func execute(_ script: [String], in path: String) throws {
        var handle: OpaquePointer?
        defer { sqlite3_close(handle) }
        try #require(sqlite3_open(path, &handle) == SQLITE_OK)
        for sql in script {
            let result = sqlite3_exec(handle, sql, nil, nil, nil)
            #expect(result == SQLITE_OK, "\(String(cString: sqlite3_errmsg(handle))): \(sql)")
        }
    }

    @Test(arguments: RecordShape.allCases, RecordKeys.allCases)
    func `SQLite's statements make the rows and links that the baseline makes, also a second time`(
        shape: RecordShape, keys: RecordKeys
    ) throws {
        let options = RecordOptions(shape: shape, nulls: 0.2, keys: keys)
        let layout = RecordLayout(options)
        var generator = GeneratedRecords(options)
        var array: [UInt8] = []
        for number in 0..<200 {
            array.append(UInt8(ascii: number == 0 ? "[" : ","))
            generator.write(number, to: &array)
        }
        array.append(UInt8(ascii: "]"))
        _ = try Baseline(path: folder.path("floor"), records: options).load([[JSONText(copying: array)]])
        let tables = PeerTables(layout: layout, dialect: .sqlite)
        let upserts = tables.upserts(from: "json_each('\(String(decoding: array, as: UTF8.self))')")
        try execute(["PRAGMA foreign_keys = ON"] + tables.create + upserts + upserts, in: folder.path("peer"))
        // Decimals are numbers for a peer, and have no zeros at their ends.
        let columns = layout.fields.filter { $0.kind != .projectKeys && $0.kind != .decimal }.map(\.name)
        var queries = ["SELECT \(columns.joined(separator: ", ")) FROM \(layout.entity) ORDER BY id"]
        if layout.entity == "Employee" { queries.append("SELECT * FROM Department ORDER BY id") }
        if shape == .links {
            queries += ["SELECT * FROM Project ORDER BY id", "SELECT * FROM Employee_projects ORDER BY 1, 2"]
        }
        for query in queries {
            let rows = try SQLRows.of(query, in: folder.path("peer"))
            #expect(rows.count >= 200)
            #expect(try rows == SQLRows.of(query, in: folder.path("floor")))
        }
    }
}
