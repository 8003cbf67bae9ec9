import TestSupport
import Testing

@testable import BrokerCoordinator

/// Which subscription the next part is read for.
@Suite(.timeLimit(.minutes(5))) struct FeedTableTests {
    private func table(_ numbers: Int...) -> FeedTable {
        var table = FeedTable()
        for number in numbers { table.add(number) }
        return table
    }

    @Test func `a subscription that has read everything waits for a commit`() throws {
        var table = table(1)
        #expect(table.next() == nil, "the client has not asked")
        table.ask(1)
        #expect(table.next() == 1, "the first part is read at once")
        table.read(1, through: 7, isLast: true, isSent: false)
        #expect(table.next() == nil)
        table.committed()
        #expect(table.next() == 1)
        #expect(table.position(of: 1) == 7)
        table.read(1, through: 7, isLast: true, isSent: false)
        #expect(table.next() == nil, "the commit was one without a line in the ledger")
        try table.checkInvariants()
    }

    @Test func `a commit while a part is read, and what did not fit into it, are read next`() throws {
        var table = table(1)
        table.ask(1)
        #expect(table.next() == 1)
        table.committed()
        table.read(1, through: 7, isLast: true, isSent: false)
        #expect(table.next() == 1)
        table.read(1, through: 9, isLast: false, isSent: false)
        #expect(table.next() == 1)
        try table.checkInvariants()
    }

    @Test func `after a part the client must ask, and commits meanwhile are not lost`() throws {
        var table = table(1)
        table.ask(1)
        _ = table.next()
        table.read(1, through: 3, isLast: true, isSent: true)
        table.committed()
        #expect(table.next() == nil, "the client has no room")
        table.ask(1)
        #expect(table.next() == 1)
        table.postpone(1)
        #expect(table.next() == nil)
        table.ask(1)
        #expect(table.next() == 1)
        table.end(1)
        table.read(1, through: 9, isLast: true, isSent: false)
        table.ask(1)
        #expect(table.count == 0)
        #expect(table.next() == nil)
        try table.checkInvariants()
    }

    @Test func `one that has much to read does not delay another one`() throws {
        var table = table(1, 2)
        table.ask(2)
        _ = table.next()
        table.read(2, through: 1, isLast: true, isSent: false)
        table.ask(1)
        for _ in 1...3 {
            #expect(table.next() == 1)
            table.read(1, through: 1, isLast: false, isSent: true)
            table.ask(1)
        }
        table.committed()
        #expect([table.next(), table.next()] == [1, 2])
        try table.checkInvariants()
    }

    /// The test's own record of a subscription.
    private struct Known {
        /// Transactions whose jobs it has read; nil before the first part.
        var read: Int?
        var hasRoom = false
    }

    @Test func `whatever happens, each subscription with room reads all commits`() throws {
        var generator = SeededGenerator()
        for _ in 0..<200 {
            var table = FeedTable()
            var known: [Int: Known] = [:]
            var (commits, commitsAtNext, last): (Int, Int, Int) = (0, 0, 0)
            var reading: Int?
            for _ in 0..<200 {
                let number = Int.random(in: 1...max(1, last), using: &generator)
                switch Int.random(in: 0..<8, using: &generator) {
                case 0:
                    commits += 1
                    table.committed()
                case 1 where known.count < 6:
                    last += 1
                    table.add(last)
                    known[last] = Known()
                case 2, 3:
                    table.ask(number)
                    if reading != number { known[number]?.hasRoom = true }
                case 4 where generator.next() % 4 == 0:
                    table.end(number)
                    known[number] = nil
                    if reading == number { reading = nil }
                default:
                    guard let current = reading else {
                        reading = table.next()
                        commitsAtNext = commits
                        if let next = reading {
                            let state = try #require(known[next])
                            #expect(state.hasRoom && state.read ?? -1 < commits)
                        } else {
                            let isIdle = known.values.allSatisfy { !$0.hasRoom || $0.read ?? -1 >= commits }
                            #expect(isIdle, "a subscription with room and news was not read")
                        }
                        continue
                    }
                    reading = nil
                    switch Int.random(in: 0..<4, using: &generator) {
                    case 0:
                        table.postpone(current)
                        known[current]?.hasRoom = false
                    case 1:
                        table.read(current, through: 1, isLast: false, isSent: false)
                        known[current]?.read = -1
                    case let choice:
                        table.read(current, through: 1, isLast: true, isSent: choice == 2)
                        known[current] = Known(read: choice == 2 ? -1 : commitsAtNext, hasRoom: choice != 2)
                    }
                }
                try table.checkInvariants()
                #expect(table.count == known.count)
            }
        }
    }
}
