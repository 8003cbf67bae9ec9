import Broker
import BrokerClient
import BrokerEmbedded
import Foundation
import Testing

/// The meaning of a cancelled call: the same function with a client of a server and with an embedded broker.
@Suite(.timeLimit(.minutes(5))) struct CancellationMeaningTests {
    private func job(_ number: Int) -> Job {
        .process(json: #"{"id": \#(number)}"#, as: "Employee", id: JobID("job \(number)"))
    }

    /// Runs the test with both.
    private func withBoth(_ test: (any BrokerProtocol) async throws -> Void) async throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try await withBrokerClient(.unixSocket(programs.path("broker.sock"))) { try await test($0) }
        try await withTemporaryBroker(model: .file(programs.path("model.json"))) { try await test($0) }
    }

    private func ids(_ broker: any BrokerProtocol) async throws -> [Int] {
        struct Employee: Decodable { var id: Int }
        return try await broker.fetch(Query("Employee")).decode([Employee].self).map(\.id)
    }

    private func wait(_ broker: any BrokerProtocol, forJobsInFlight count: Int) async throws {
        while try await broker.statistics().jobs.inFlight != count { try Task.checkCancellation() }
    }

    /// Calls in a task that is cancelled before it begins.
    private func cancelledBefore(_ call: @escaping @Sendable () async throws -> Void) async -> (any Error)? {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await call()
        }
        do {
            try await task.value
            return nil
        } catch {
            return error
        }
    }

    @Test func `a call of a task that is cancelled already has no effect`() async throws {
        try await withBoth { broker in
            let folder = NSTemporaryDirectory()
            let calls: [@Sendable () async throws -> Void] = [
                { try await broker.process(self.job(1)) }, { _ = try await broker.submit(self.job(2)) },
                { _ = try await broker.await("job 1") }, { try await broker.cancel("job 1") },
                { _ = try await broker.fetch(Query("Employee")) },
                { for try await _ in broker.results(of: Query("Employee")) {} },
                { try await broker.administer(.checkpoint) },
                { _ = try await broker.backUp(to: "\(folder)/broker-\(UUID()).sqlite") },
            ]
            for (index, call) in calls.enumerated() {
                let error = await cancelledBefore(call)
                #expect(error is CancellationError, "\(type(of: broker)), \(index): \(String(describing: error))")
            }
            let found = try await ids(broker)
            #expect(found.isEmpty)
        }
    }

    @Test func `a job is cancelled with its task until its merge begins, and a submission until it is accepted`()
        async throws
    {
        try await withBoth { broker in
            try await broker.administer(.pause)
            let process = Task { try await broker.process(job(1)) }
            try await wait(broker, forJobsInFlight: 1)
            process.cancel()
            await #expect(throws: CancellationError.self) { try await process.value }
            try await wait(broker, forJobsInFlight: 0)
            // A submission that is cancelled later has its place: its task goes on.
            let submission = Task {
                let submitted = try await broker.submit(job(2))
                withUnsafeCurrentTask { $0?.cancel() }
                let wait = await #expect(throws: BrokerError.self) { _ = try await submitted.completion }
                #expect(wait?.isOutcomeUnknown == true && wait?.jobID == "job 2")
                #expect((wait?.cause as? BrokerError)?.code == .waitCancelled)
                return submitted
            }
            let submitted = try await submission.value
            let awaiting = Task { try await broker.await("job 2") }
            awaiting.cancel()
            let error = await #expect(throws: (any Error).self) { try await awaiting.value }
            #expect(error is CancellationError || (error as? BrokerError)?.isOutcomeUnknown == true)
            try await broker.administer(.resume)
            #expect(try await submitted.completion.changes["Employee"]?.inserted == 1)
            #expect(try await ids(broker) == [2])
        }
    }

    @Test func `a job that is cancelled at any time has an effect exactly if its task gets a completion`() async throws
    {
        try await withBoth { broker in
            var committed: [Int] = []
            for number in 1...100 {
                let process = number.isMultiple(of: 2)
                let call = Task {
                    if process { return try await broker.process(job(number)) }
                    return try await broker.submit(job(number)).completion
                }
                for _ in 0..<number % 15 { await Task.yield() }
                call.cancel()
                do {
                    do {
                        _ = try await call.value
                    } catch let error as BrokerError where error.isOutcomeUnknown && !process {
                        // The submission had returned, and only the waiting was cancelled.
                        _ = try await broker.await(JobID("job \(number)"))
                    }
                    committed.append(number)
                } catch let error as BrokerError where error.code == .cancelled && !process {
                    // Its acceptance and its cancellation crossed.
                } catch is CancellationError {}
            }
            #expect(try await ids(broker) == committed)
        }
    }

    @Test func `a copy whose task is cancelled is not there, or may be there if that is said`() async throws {
        try await withBoth { broker in
            try await broker.process(json: #"[{"id": 1}, {"id": 2}]"#, as: "Employee")
            for attempt in 0..<20 {
                let file = "\(NSTemporaryDirectory())/broker-\(UUID()).sqlite"
                defer { try? FileManager.default.removeItem(atPath: file) }
                let copying = Task { try await broker.backUp(to: file) }
                for _ in 0..<attempt * 3 { await Task.yield() }
                copying.cancel()
                do {
                    #expect(try await copying.value.sequence > 0)
                    #expect(FileManager.default.fileExists(atPath: file))
                } catch is CancellationError {
                    #expect(!FileManager.default.fileExists(atPath: file))
                } catch let error as BrokerError {
                    // A copy is made one at a time, and the one before may not have ended.
                    #expect(error.isOutcomeUnknown || error.code == .busy, "\(error)")
                }
            }
        }
    }

    @Test func `a fetch ends with its task`() async throws {
        try await withBoth { broker in
            // More than one answer of a stream.
            let name = String(repeating: "n", count: 200)
            let records = (1...20_000).map { #"{"id": \#($0), "name": "\#(name)"}"# }
            try await broker.process(json: "[\(records.joined(separator: ","))]", as: "Employee")
            let fetching = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                for try await _ in broker.results(of: Query("Employee")) {}
            }
            await #expect(throws: CancellationError.self) { try await fetching.value }
            let reading = Task {
                for try await _ in broker.results(of: Query("Employee")) { withUnsafeCurrentTask { $0?.cancel() } }
            }
            await #expect(throws: CancellationError.self) { try await reading.value }
            #expect(try await broker.fetch(Query("Employee")).hasMore)
        }
    }
}
