internal import BrokerStaging

/// The statements that merge rows with values for some columns, each over the scan: new rows take the defaults, changed
/// rows are updated, equal rows are not written.
///
/// ```
/// last time, most rows were equal ─▶ comparison ─▶ rows that are new or differ ─┐
/// otherwise ─▶ all rows ────────────────────────────────────────────────────────┴─▶ first ─▶ second
/// ```
///
/// The first and the second are an `INSERT … SELECT`, which gets all values of a row before it looks for the stored one.
/// The comparison gets the key alone, and one call of a function compares the rest in place.
///
/// An UPDATE that names an indexed column costs several times one that does not, even if the value does not change. So
/// the first statement names none, and records which rows need the second.
final class Upsert {
    private let sql: UpsertSQL
    private let connection: Connection
    private let first: Statement
    /// Nil when no column that is set has an index.
    private let second: Statement?
    /// By column of the virtual table, the inserted value where a row has none; nil when all rows have the same columns.
    private let absentValues: UnsafePointer<Cell>?
    /// Nil until it is needed.
    private var comparison: Statement?
    private var wereMostlyEqual = false

    /// - Parameters:
    ///   - indexed: staged columns that the first statement does not set.
    ///   - absentValues: see ``absentValues``; used as long as this object.
    init(
        _ sql: UpsertSQL, without indexed: Set<Int>, absentValues: UnsafePointer<Cell>?, on connection: Connection
    ) throws(StoreError) {
        self.sql = sql
        self.connection = connection
        self.absentValues = absentValues
        first = try sql.prepare(without: indexed, on: connection)
        second = indexed.isEmpty ? nil : try sql.prepare(without: [], on: connection)
    }

    /// Rows may have fewer columns than the statements.
    var isRagged: Bool { absentValues != nil }

    /// Merges a part of the scan's order, which the caller then clears.
    ///
    /// - Parameter comparedRows: so many rows are worth a comparison; nil for none, because the instructions of SQLite
    ///   must not depend on the rows that were merged before.
    func run(
        _ range: Range<Int>, _ scan: UnsafeMutablePointer<StagedScan>, _ tally: UnsafeMutablePointer<MergeTally>,
        comparedRows: Int?
    ) throws(StoreError) {
        scan.pointee.absentValues = absentValues
        guard let comparedRows, range.count >= comparedRows else { return _ = try write(range, scan, tally) }
        var different = 0
        if wereMostlyEqual {
            let places = try postponed(by: try preparedComparison(), range, scan, tally)
            different = places.count
            try reorder(places, scan) { range throws(StoreError) in _ = try write(range, scan, tally) }
        } else {
            different = try write(range, scan, tally)
        }
        wereMostlyEqual = 2 * different < range.count
    }

    private func preparedComparison() throws(StoreError) -> Statement {
        if let comparison { return comparison }
        let prepared = try sql.prepareComparison(on: connection)
        comparison = prepared
        return prepared
    }

    /// - Returns: the number of rows that were inserted or updated.
    private func write(
        _ range: Range<Int>, _ scan: UnsafeMutablePointer<StagedScan>, _ tally: UnsafeMutablePointer<MergeTally>
    ) throws(StoreError) -> Int {
        let places = try postponed(by: first, range, scan, tally)
        var written = connection.changes
        guard let second else { return written }
        try reorder(places, scan) { range throws(StoreError) in
            scan.pointee.read(range)
            try MergeTally.counting(tally, to: scan, of: .entityRows) { () throws(StoreError) in try second.run() }
            written += connection.changes
        }
        return written
    }

    /// Runs a statement over a part of the scan's order.
    ///
    /// - Returns: the positions of the rows that it recorded.
    private func postponed(
        by statement: Statement, _ range: Range<Int>, _ scan: UnsafeMutablePointer<StagedScan>,
        _ tally: UnsafeMutablePointer<MergeTally>
    ) throws(StoreError) -> [UInt32] {
        var postponed = PostponedRows()
        try withUnsafeMutablePointer(to: &postponed) { postponed throws(StoreError) in
            scan.pointee.postponed = postponed
            scan.pointee.read(range)
            defer { scan.pointee.postponed = nil }
            try MergeTally.counting(tally, to: scan, of: .entityRows) { () throws(StoreError) in try statement.run() }
        }
        return postponed.places
    }

    /// Makes the rows at some positions, if any, the scan's order while `body` runs.
    private func reorder(
        _ places: [UInt32], _ scan: UnsafeMutablePointer<StagedScan>, _ body: (Range<Int>) throws(StoreError) -> Void
    ) throws(StoreError) {
        guard !places.isEmpty else { return }
        let order = places.map { scan.pointee.order![Int($0)] }
        let jobs = scan.pointee.jobs.map { jobs in places.map { jobs[Int($0)] } }
        try order.withUnsafeBufferPointer { order throws(StoreError) in
            scan.pointee.order = order.baseAddress
            guard let jobs else { return try body(0..<order.count) }
            try jobs.withUnsafeBufferPointer { jobs throws(StoreError) in
                scan.pointee.jobs = jobs.baseAddress
                try body(0..<order.count)
            }
        }
    }
}
