import BrokerCoordinator
import BrokerJSON
import BrokerJournal
import BrokerModel
@testable import BrokerServer
import BrokerStaging
import Foundation
import Logging
import TestSupport
import Testing

/// The replay of accepted jobs that a newer version of the protocol refuses.
@Suite(.timeLimit(.minutes(5))) struct ReplayTests {
    private let folder = TemporaryFolder()

    private func start() async throws {
        let plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(RunningServer.model.utf8))))
        let logger = Logger(label: "test") { _ in RecordedLog() }
        var options = CoordinatorOptions(storePath: folder.path("store.sqlite"), limits: CoordinatorLimits(workers: 2))
        options.keepsJournal = true
        let coordinator = try Coordinator(plan: plan, options: options, logger: logger)
        let server = try await BrokerServer.start(
            coordinator, options: ServerOptions(socketPath: folder.path("broker.sock")), logger: logger)
        try await server.stop()
    }

    @Test func `a journaled job whose path is longer than the limit stops the start, which names it`() async throws {
        try await start()
        let meta = try SQLRows.of(
            "SELECT value FROM _broker_meta WHERE key = 'log'", in: folder.path("store.sqlite"))
        let journal = try Journal(
            path: folder.path("store.sqlite.journal"), expected: JournalIdentity(meta[0]), applied: 0, idOfApplied: nil,
            mode: 0o600, system: PosixSystem())
        func job(_ id: String, pathBytes: Int) throws -> [UInt8] {
            let path = String(repeating: "p", count: pathBytes)
            let text = #"{"type": "job", "id": "\#(id)", "op": "map", "path": "\#(path)", "json": {}}"#
            return Array(try RawClient.frame(Array(text.utf8)).dropFirst(4))
        }
        try journal.append([
            JournalEntry(.job, position: 1, id: "short", time: 0, payload: try job("short", pathBytes: 8_192)),
            JournalEntry(.job, position: 2, id: "long", time: 0, payload: try job("long", pathBytes: 8_193)),
        ])
        for _ in 0..<2 {
            let error = try await #require(throws: ServerError.self) { try await start() }
            let message = "\(error)"
            #expect(message.contains("Job 2 of the log (id \"long\") cannot be applied"), "\(message)")
            #expect(message.contains("8,192 bytes"), "\(message)")
        }
        #expect(try SQLRows.of("SELECT id FROM _broker_jobs", in: folder.path("store.sqlite")) == ["short"])
    }
}
