import BrokerJournal
import BrokerStore
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

/// A follower of a coordinator, and its events: `opened AFTER OLDEST`, `SEQUENCE CHANGES KEYS`, the code of a failure.
private final class Follower: Sendable {
    private let list = Monitor<[String]>([])
    private let room = Monitor(true)

    func follow(
        _ test: TestCoordinator, _ entities: [String]? = nil, after: Int64? = nil, asks: Bool = true
    ) -> FeedSubscription {
        let subscription = test.coordinator.subscribe(
            to: entities, after: after, wantsKeys: true, hasRoom: { [room] in room.withLock { $0 } }
        ) { [list] subscription, event in
            list.broadcast { list in
                switch event {
                case .opened(let after, let oldest): list.append("opened \(after) \(oldest)")
                case .commits(let commits): list += commits.isEmpty ? ["postponed"] : commits.map(Self.text)
                case .failed(let fault): list.append("\(fault.code)")
                case .stopped: list.append("stopped")
                }
                return true
            }
            if asks, case .commits = event { subscription.ask() }
        }
        subscription.ask()
        return subscription
    }

    private static func text(_ commit: FeedCommit) -> String {
        "\(commit.sequence) \(String(decoding: commit.changes, as: UTF8.self)) "
            + String(decoding: commit.keys ?? [], as: UTF8.self)
    }

    func set(hasRoom: Bool) { room.withLock { $0 = hasRoom } }

    /// Waits for so many events.
    func events(_ count: Int) -> [String] {
        list.patiently("\(count) events of the feed") { $0.count >= count ? $0 : nil }
    }
}

/// The thread of the feed.
@Suite(.timeLimit(.minutes(5))) struct FeedThreadTests {
    private let renamed = #"""
        {"entities": {"Line": {"renamedFrom": "Row", "identity": "id",
          "attributes": {"id": "integer64", "value": "integer64", "text": "string"}}}}
        """#

    private func commit(_ number: Int, _ entity: String = "Row") -> String {
        "\(number) {\"\(entity)\":{\"inserted\":1}} {\"\(entity)\":{\"inserted\":[\(number)]}}"
    }

    @Test func `nothing is read for a client without room until it asks again`() throws {
        let test = try TestCoordinator()
        let follower = Follower()
        let subscription = follower.follow(test, asks: false)
        #expect(follower.events(1) == ["opened 0 0"])
        test.submit(row(1), id: "a")
        #expect(follower.events(2)[1] == commit(1))
        follower.set(hasRoom: false)
        subscription.ask()
        #expect(follower.events(3)[2] == "postponed")
        test.submit(row(2), id: "b", ends: 2)
        follower.set(hasRoom: true)
        subscription.ask()
        #expect(follower.events(4)[3] == commit(2))
        subscription.cancel()
        subscription.ask()
        #expect(test.statistics.contains(#""subscriptions":0"#))
    }

    @Test func `a reload ends the subscriptions of entities that are no more, and others have the new ones`() throws {
        let test = try TestCoordinator()
        let (rows, all) = (Follower(), Follower())
        _ = rows.follow(test, ["Row"])
        _ = all.follow(test)
        _ = (rows.events(1), all.events(1))
        test.submit(row(1), id: "a")
        #expect(rows.events(2)[1] == commit(1))
        #expect(all.events(2)[1] == commit(1))
        #expect(test.reload(renamed).count == 1)
        test.submit(#"{"Line": {"id": 2}}"#, id: "b")
        #expect(rows.events(3)[2] == "unknownEntity")
        #expect(all.events(3)[2] == commit(2, "Line"))
        test.waitUntil(#""subscriptions":1"#)
    }

    @Test func `a follower that was slower than the ledger forgets is gone, and others go on`() throws {
        let test = try TestCoordinator { $0.store.retention.count = 10 }
        let (slow, other) = (Follower(), Follower())
        let subscription = slow.follow(test, asks: false)
        #expect(slow.events(1) == ["opened 0 0"])
        test.submit(row(1), id: "1")
        #expect(slow.events(2)[1] == commit(1))
        for number in 2...60 {
            test.submit(row(number), id: "\(number)", ends: number)
        }
        _ = other.follow(test)
        #expect(other.events(1)[0].hasPrefix("opened 60 "))
        subscription.ask()
        #expect(slow.events(3)[2] == "gone")
        test.submit(row(61), id: "61")
        #expect(other.events(2)[1] == commit(61))
        test.waitUntil(#""subscriptions":1"#)
    }

    @Test func `a stop ends the subscriptions`() throws {
        let (waiting, reading) = (Follower(), Follower())
        do {
            let test = try TestCoordinator()
            _ = waiting.follow(test)
            _ = waiting.events(1)
            test.submit(row(1), id: "a")
            _ = reading.follow(test, after: 0, asks: false)
            _ = (waiting.events(2), reading.events(2))
        }
        #expect(waiting.events(3)[2] == "stopped")
        #expect(reading.events(3)[2] == "stopped")
    }
}
