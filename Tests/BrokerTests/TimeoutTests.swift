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

@Suite(.timeLimit(.minutes(5))) struct AnswerTests {
    @Test func `every waiter gets the first result, whenever it came`() async throws {
        let answer = Answer<Int>()
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<20 { group.addTask { try await answer.value() } }
            answer.finish(.success(1))
            answer.finish(.failure(BrokerError.closed))
            for try await value in group { #expect(value == 1) }
        }
        #expect(try await answer.value() == 1)
    }

    @Test func `a task that is cancelled before it waits does not wait`() async {
        let answer = Answer<Int>()
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await answer.value()
        }
        await #expect(throws: CancellationError.self) { _ = try await task.value }
    }

    @Test func `a task that leaves its cancelling to another waits for what that brings`() async throws {
        let answer = Answer<Int>()
        for _ in 0..<100 {
            let answer = Answer<Int>()
            let task = Task { try await answer.value(onCancel: { answer.finish(.success(3)) }) }
            task.cancel()
            #expect(try await task.value == 3)
        }
        answer.finish(.success(4))
        #expect(try await answer.value(onCancel: {}) == 4)
    }

    @Test func `a task that is cancelled at any time stops waiting, and the others go on`() async throws {
        let answer = Answer<Int>()
        let patient = Task { try await answer.value() }
        for _ in 0..<1000 {
            let task = Task { try await answer.value() }
            task.cancel()
            await #expect(throws: CancellationError.self) { _ = try await task.value }
        }
        answer.finish(.success(2))
        #expect(try await patient.value == 2)
    }
}
