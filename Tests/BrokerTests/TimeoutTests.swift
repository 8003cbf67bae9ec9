import Testing

@testable import Broker

@Suite(.timeLimit(.minutes(5))) struct TimeoutTests {
    /// Ends only when its task is cancelled.
    private func endless() async throws {
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        for await _ in stream {}
        withExtendedLifetime(continuation) {}
        try Task.checkCancellation()
    }

    @Test func `a call that ends in time gives its value or its error`() async throws {
        #expect(try await withTimeout(.seconds(50)) { 7 } == 7)
        #expect(try await withTimeout(nil) { 8 } == 8)
        await #expect(throws: BrokerError.closed) { try await withTimeout(.seconds(50)) { throw BrokerError.closed } }
    }

    @Test func `a call that does not end in time is cancelled, and says so`() async {
        let error = await #expect(throws: BrokerError.self) {
            try await withTimeout(.milliseconds(5)) { try await endless() }
        }
        #expect(error?.code == .timedOut)
    }

    @Test func `what a call that was cancelled by its time says of its outcome counts`() async {
        let unknown = BrokerError.connectionLost("m").doubting("a")
        let error = await #expect(throws: BrokerError.self) {
            try await withTimeout(.milliseconds(5)) {
                do { try await endless() } catch { throw unknown }
            }
        }
        #expect(error == unknown)
    }

    @Test func `a call that only waits leaves the outcome unknown when its time is over, and says why`() async {
        for wait in [BrokerError.waitCancelled("a"), .actionWaitCancelled] {
            let error = await #expect(throws: BrokerError.self) {
                try await withTimeout(.milliseconds(5)) {
                    do { try await endless() } catch { throw wait }
                }
            }
            #expect(error?.isOutcomeUnknown == true && error?.jobID == wait.jobID)
            #expect((error?.cause as? BrokerError)?.code == .timedOut)
            #expect(error?.message.contains("timeout of 0.005 seconds") == true, "\(String(describing: error))")
        }
    }

    @Test func `a task that is cancelled gets CancellationError`() async {
        let task = Task { try await withTimeout(.seconds(50)) { try await endless() } }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    /// As a job whose server is stopped: its cancellation is never answered.
    @Test func `a call that its cancellation does not end is not waited for, and its outcome is unknown`() async {
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        let error = await #expect(throws: BrokerError.self) {
            try await withTimeout(.milliseconds(5), grace: .milliseconds(5), job: "a") {
                // A task of its own is not cancelled.
                await Task { for await _ in stream {} }.value
            }
        }
        #expect(error?.code == .outcomeUnknown && error?.jobID == "a")
        continuation.finish()
    }
}
