import Foundation
import TestSupport

/// A server that is not killed. It gets the jobs of a round in the order of the ledger, one after the other.
final class Replay {
    private static let store = "replay.sqlite"
    private static let socket = "replay.sock"
    private static let patience: Duration = .seconds(60)

    private let server: ChildProcess
    /// Made for the first job: a server ends a connection that is silent at first.
    private lazy var client = Result { try RawClient(Self.socket) }

    /// - Parameter program: the server's.
    init(_ program: String) throws {
        let ready = open("replay.ready", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard ready >= 0 else { throw Difference("replay.ready cannot be written.") }
        defer { close(ready) }
        let files = ["--model", Model.graph, "--model", Model.more, "--store", Self.store, "--socket", Self.socket]
        server = try ChildProcess(
            [program] + files + ["--workers", "2", "--synchronous", "off"], output: ready, complaints: "replay.log")
        let deadline = ContinuousClock.now + Self.patience
        while lseek(ready, 0, SEEK_END) == 0 {
            guard !server.hasEnded, ContinuousClock.now < deadline else {
                throw Difference("The server of the replay has not started; see replay.log.")
            }
            usleep(1_000)
        }
    }

    /// - Returns: the job's line in the replay's ledger.
    func apply(_ job: CrashJob) throws -> LedgerLine {
        _ = try client.get().ask(job.replayed)
        guard let line = try LedgerLine.newest(Self.store) else {
            throw Difference("The replay has no line of \(job.text)")
        }
        return line
    }

    /// Where the tables of the store differ from those of the replay; nil for nowhere.
    func difference(from store: String) throws -> String? {
        let tables = try SQLRows.of(
            #"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\_broker%' ESCAPE '\'"#,
            in: Self.store)
        for table in tables where table != Filling.entity {
            let (rows, expected) = try (rows(of: table, in: store), rows(of: table, in: Self.store))
            guard rows != expected else { continue }
            let (found, missing) = (Set(rows).subtracting(expected), Set(expected).subtracting(rows))
            return "\(table) has \(found.sorted()), and not \(missing.sorted())."
        }
        return nil
    }

    private func rows(of table: String, in store: String) throws -> [String] {
        try SQLRows.of("SELECT * FROM \"\(table)\"", in: store).sorted()
    }
}
