import Testing

@testable import Broker

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
