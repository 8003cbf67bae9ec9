import Synchronization
import TestSupport
import Testing

@testable import BrokerServer

@Suite(.timeLimit(.minutes(5))) struct SharedBudgetTests {
    /// Adds steps of one byte for the process until it has no room.
    private func fill(_ budget: SharedBudget, _ process: Int32) {
        while budget.hasRoom(process) { budget.add(1, process) }
    }

    @Test func `a process gets no more than is left for others, and each gets something`() {
        let budget = SharedBudget(byteLimit: 1_000)
        fill(budget, 1)
        #expect(budget.share(of: 1) == 501)
        fill(budget, 2)
        #expect(budget.share(of: 2) == 250)
        fill(budget, 3)
        #expect(budget.share(of: 3) == 125)
        #expect(!budget.hasRoom(1) && !budget.hasRoom(2) && budget.hasRoom(4))
        // Bytes that one gives back are shared by the others.
        budget.remove(501, 1)
        fill(budget, 3)
        fill(budget, 2)
        #expect(budget.share(of: 3) == 376)
        #expect(budget.share(of: 2) == 313)
    }

    @Test func `random processes never fill the budget, and a process that holds nothing has room`() {
        var generator = SeededGenerator(seed: 25)
        let budget = SharedBudget(byteLimit: 10_000)
        var shares: [Int32: Int] = [:]
        for step in 0..<20_000 {
            let process = Int32.random(in: 1...40, using: &generator)
            if Bool.random(using: &generator), budget.hasRoom(process) {
                let bytes = Int.random(in: 1...20, using: &generator)
                budget.add(bytes, process)
                shares[process, default: 0] += bytes
            } else if let held = shares[process], held > 0, step % 3 == 0 {
                let bytes = Int.random(in: 1...held, using: &generator)
                budget.remove(bytes, process)
                shares[process] = held - bytes
            }
            #expect(budget.held == shares.values.reduce(0, +))
            #expect(budget.held < budget.byteLimit + 20)
            if budget.held < budget.byteLimit { #expect(budget.hasRoom(99)) }
        }
    }

    @Test func `a waiter is called when its own process has room, and no other`() {
        let budget = SharedBudget(byteLimit: 100)
        fill(budget, 1)
        fill(budget, 2)
        let notified = Mutex<[Int]>([])
        let objects = [Waiter(), Waiter()]
        for (number, process) in [Int32(1), 2].enumerated() {
            budget.whenRoom(for: ObjectIdentifier(objects[number]), of: process) {
                notified.withLock { $0.append(number) }
            }
        }
        #expect(notified.withLock { $0 } == [])
        budget.remove(20, 2)
        #expect(notified.withLock { $0 } == [1])
        budget.remove(30, 1)
        #expect(notified.withLock { $0 } == [1, 0])
        #expect(!budget.isAwaited)
    }

    private final class Waiter {}
}
