import Broker
import TestSupport
import Testing

@testable import BrokerEmbedded

/// The disk fails under a store that is embedded.
@Suite(.timeLimit(.minutes(5))) struct DiskFailureTests {
    private let store = TestStore()

    private func job(_ id: Int) -> Job {
        Job(.process(json: "{\"id\": \(id)}", as: "Employee"), id: JobID("\(id)"))
    }

    @Test func `calls end with an outcome that is not known, later ones are refused, and stopping does not hang`()
        async throws
    {
        try await FaultyDisk.with { disk in
            let broker = try await store.open {
                $0.store.vfs = disk.name
                $0.store.synchronous = .full
            }
            _ = try await broker.process(job(1))
            disk.fail(.sync, number: 1, with: .ioError)
            let failures = await withTaskGroup(of: (any Error)?.self) { group in
                for id in 2...9 {
                    group.addTask {
                        do {
                            _ = try await broker.process(job(id))
                            return nil
                        } catch {
                            return error
                        }
                    }
                }
                var failures: [BrokerError] = []
                for await failure in group { failures.append(failure as? BrokerError ?? .closed) }
                return failures
            }
            #expect(failures.count == 8)
            for failure in failures {
                // Those that came when it was known are refused.
                #expect(failure.isOutcomeUnknown && failure != .closed || failure.code == .storeUnavailable)
            }
            #expect(failures.contains { $0.description.contains("the store has failed") })
            let refused = await #expect(throws: BrokerError.self) { _ = try await broker.process(job(10)) }
            #expect(refused?.code == .storeUnavailable)
            await #expect(throws: BrokerError.self) {
                _ = try await broker.fetch(.init("Employee"))
            }
            await broker.stop()
        }
        let broker = try await store.open()
        for id in 1...10 { _ = try await broker.process(job(id)) }
        #expect(try store.rows("SELECT count(*) FROM Employee") == ["10"])
        #expect(try await broker.process(job(1)).isDuplicate)
        await broker.stop()
    }

    @Test func `a feed that waits ends with an error`() async throws {
        try await FaultyDisk.with { disk in
            let broker = try await store.open {
                $0.store.vfs = disk.name
                $0.store.synchronous = .full
            }
            let (began, begin) = AsyncStream<Void>.makeStream()
            let reading = Task { for try await _ in broker.commits() { begin.yield() } }
            for await _ in began { break }
            disk.fail(.sync, number: 1, with: .ioError)
            await #expect(throws: BrokerError.self) { try await broker.process(job(1)) }
            let error = await #expect(throws: BrokerError.self) { try await reading.value }
            #expect(error?.code == .storeUnavailable)
            await broker.stop()
        }
    }
}
