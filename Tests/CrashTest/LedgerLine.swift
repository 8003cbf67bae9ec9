import TestSupport

/// A line of the server's ledger.
struct LedgerLine: Equatable {
    let sequence: Int
    let isFailure: Bool
    /// The client made the id; otherwise the server.
    let hasClientID: Bool
    let id: String
    /// The content of the job's `completed` or of the `error` of its `failed`.
    let outcome: String

    static func all(_ storePath: String) throws -> [LedgerLine] { try read("ORDER BY sequence", storePath) }

    static func newest(_ storePath: String) throws -> LedgerLine? {
        try read("ORDER BY sequence DESC LIMIT 1", storePath).first
    }

    private static func read(_ order: String, _ storePath: String) throws -> [LedgerLine] {
        try SQLRows.of(
            "SELECT sequence, failed, hash IS NOT NULL, id, outcome FROM _broker_jobs \(order)", in: storePath
        ).map { row in
            let cells = row.split(separator: "|", maxSplits: 4).map(String.init)
            guard cells.count == 5, let sequence = Int(cells[0]) else {
                throw Difference("A line of the ledger is \(row)")
            }
            return LedgerLine(
                sequence: sequence, isFailure: cells[1] == "1", hasClientID: cells[2] == "1", id: cells[3],
                outcome: cells[4])
        }
    }

    /// The answer that reports it.
    func message() throws -> Message { try Message(text: isFailure ? "{\"error\": \(outcome)}" : outcome) }
}
