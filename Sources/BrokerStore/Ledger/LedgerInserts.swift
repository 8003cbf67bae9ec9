internal import BrokerSchema

/// Writes lines of the ledger, several with one statement: each execution of one has costs of its own.
struct LedgerInserts {
    /// The most lines of a statement.
    static let most = 16

    private static let counts = [most, 4, 1]
    private static let columnCount = 7

    private let statements: [(count: Int, statement: Statement)]

    init(on connection: Connection) throws(StoreError) {
        var statements: [(count: Int, statement: Statement)] = []
        for count in Self.counts {
            let rows = (0..<count).map { row in
                "(" + (1...Self.columnCount).map { "?\(row * Self.columnCount + $0)" }.joined(separator: ", ") + ")"
            }
            // After FAIL, lines before the one at fault stay, and the caller rolls the transaction back. For ABORT SQLite would
            // copy each page before it changes it.
            let sql =
                "INSERT OR FAIL INTO _broker_jobs (sequence, id, hash, failed, ended, outcome, owner) VALUES "
                + rows.joined(separator: ", ")
            statements.append((count, try connection.prepare(sql)))
        }
        self.statements = statements
    }

    func write(_ pending: PendingLines) throws(StoreError) {
        try pending.bytes.withUnsafeBufferPointer { bytes in
            Result { () throws(StoreError) in
                var lines = pending.lines[...]
                for (count, statement) in statements {
                    while lines.count >= count {
                        for (row, line) in lines.prefix(count).enumerated() { bind(line, bytes, to: statement, row) }
                        lines = lines.dropFirst(count)
                        try statement.run()
                    }
                }
            }
        }.get()
    }

    private func bind(
        _ line: PendingLines.Line, _ bytes: UnsafeBufferPointer<UInt8>, to statement: Statement, _ row: Int
    ) {
        let first = row * Self.columnCount
        statement.bind(line.sequence, at: first + 1)
        statement.bind(borrowed: UnsafeBufferPointer(rebasing: bytes[line.id]), at: first + 2)
        statement.bind(
            borrowed: line.hash.map { UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: bytes[$0])) }, at: first + 3)
        statement.bind(line.isFailure ? 1 : 0, at: first + 4)
        statement.bind(line.ended, at: first + 5)
        statement.bind(borrowed: UnsafeBufferPointer(rebasing: bytes[line.body]), at: first + 6)
        if let owner = line.owner {
            statement.bind(owner, at: first + 7)
        } else {
            statement.bind(blob: nil, at: first + 7)
        }
    }
}
