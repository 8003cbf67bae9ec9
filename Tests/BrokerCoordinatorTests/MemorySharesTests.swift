import Testing

@testable import BrokerCoordinator

/// The distribution of memory, and the waiting holders.
@Suite(.timeLimit(.minutes(5))) struct MemorySharesTests {
    private func shares(_ tickets: Int, shared: Int = 100, one: Int = 300) -> MemoryShares<String> {
        var shares = MemoryShares<String>(shared: shared, one: one)
        for ticket in 0..<tickets { shares.add(ticket, bytes: 0) }
        return shares
    }

    @Test func `the first holder takes up to the limit of one job, whatever the others hold`() {
        var shares = shares(2)
        #expect(shares.take(100, for: 1) == .granted)
        #expect(shares.take(300, for: 0) == .granted)
        #expect(shares.take(1, for: 0) == .never)
        #expect(shares.total == 400)
    }

    @Test func `all others together hold no more than the shared part`() {
        var shares = shares(4)
        #expect(shares.take(60, for: 1) == .granted)
        #expect(shares.take(40, for: 2) == .granted)
        #expect(shares.take(1, for: 3) == .later)
        shares.giveBack(10, of: 1)
        #expect(shares.take(10, for: 3) == .granted)
        #expect(shares.take(1, for: 2) == .later)
    }

    @Test func `a request beyond the limit of one is refused permanently, also for later ones`() {
        var shares = shares(2)
        #expect(shares.take(301, for: 1) == .never)
    }

    @Test func `memory that was there when a ticket was added counts`() {
        var shares = shares(1)
        shares.add(1, bytes: 90)
        #expect(shares.take(11, for: 1) == .later)
        #expect(shares.take(10, for: 1) == .granted)
    }

    @Test func `the first that was read from the log is never refused, whatever earlier tickets hold`() {
        var shares = shares(2)
        for ticket in 2...3 { shares.add(ticket, bytes: 0, isLogged: true) }
        #expect(shares.take(300, for: 0) == .granted)
        #expect(shares.take(100, for: 1) == .granted)
        #expect(shares.take(1_000, for: 2) == .granted)
        #expect(shares.isNext(0) && !shares.isNext(1) && shares.isNext(2) && !shares.isNext(3))
        #expect(shares.take(1, for: 3) == .later)
        // It need not wait for the earlier ones of this server, which may be merged after it.
        shares.wait(1, for: 50, "one")
        shares.wait(3, for: 500, "three")
        shares.remove(2)
        let woken = shares.takeWoken()
        #expect(woken.map(\.waiter) == ["three"] && woken.map(\.granted) == [500])
        #expect(shares.isNext(3))
    }

    @Test func `a waiting holder is woken when it has become the first`() {
        var shares = shares(3)
        shares.wait(1, for: 1_000, "one")
        #expect(shares.takeWoken().isEmpty)
        shares.remove(0)
        let woken = shares.takeWoken()
        #expect(woken.map(\.waiter) == ["one"])
        #expect(woken.map(\.granted) == [0])
        #expect(shares.takeWoken().isEmpty)
    }

    @Test func `a waiting holder is woken when there is room, which is then its own`() {
        var shares = shares(3)
        #expect(shares.take(100, for: 1) == .granted)
        shares.wait(2, for: 50, "two")
        shares.giveBack(49, of: 1)
        #expect(shares.takeWoken().isEmpty)
        shares.giveBack(1, of: 1)
        let woken = shares.takeWoken()
        #expect(woken.map(\.waiter) == ["two"])
        #expect(woken.map(\.granted) == [50])
        #expect(shares.take(1, for: 1) == .later)
    }

    @Test func `room is not given to a later one for which an earlier one waits`() {
        var shares = shares(4)
        #expect(shares.take(100, for: 1) == .granted)
        shares.wait(3, for: 10, "three")
        shares.wait(2, for: 50, "two")
        shares.giveBack(20, of: 1)
        #expect(shares.takeWoken().isEmpty)
        shares.giveBack(40, of: 1)
        #expect(shares.takeWoken().map(\.waiter) == ["two", "three"])
    }

    @Test func `no holder takes the room for which an earlier one waits, unless it is little`() {
        var shares = shares(4)
        shares.wait(2, for: 101, "two")
        #expect(shares.take(1, for: 1) == .granted, "an earlier request does")
        #expect(shares.take(1, for: 3) == .later)
        #expect(shares.take(1, for: 3, passesWaiting: true) == .granted)
        shares.remove(2)
        #expect(shares.take(1, for: 3) == .granted)
    }

    @Test func `the first is the oldest that is left, however the others go`() {
        var shares = shares(1_000)
        for ticket in (1..<1_000).reversed() where ticket != 700 { shares.remove(ticket) }
        #expect(shares.isNext(0))
        shares.remove(0)
        #expect(shares.isNext(700))
        shares.remove(700)
        #expect(!shares.isNext(0))
        #expect(shares.total == 0)
    }
}
