import Testing

@testable import BrokerCoordinator

/// The attempts to stage one job, and the memory that each has.
@Suite(.timeLimit(.minutes(5))) struct JobMemoryTests {
    private let budget = MemoryBudget(shared: 1_000, one: 3_000)
    private let first: JobMemory
    private let second: JobMemory

    init() {
        first = budget.admit(0, payloadBytes: 0)
        second = budget.admit(1, payloadBytes: 0)
        second.begin(granted: 0)
    }

    /// The memory granted to the next attempt.
    private func wait(contentBytes: Int = 0) -> Int? {
        let granted = Monitor<Int?>(nil)
        second.wait(contentBytes: contentBytes) { bytes in
            granted.broadcast {
                $0 = bytes
                return true
            }
        }
        return granted.withLock { $0 }
    }

    @Test func `memory for which an attempt waited stays its own until it has ended`() throws {
        #expect(!second.take(1_001))
        let granted = try #require(wait())
        #expect(granted == 1_000, "more is not shared")
        second.begin(granted: granted)
        #expect(second.take(300))
        second.giveBack(200)
        #expect(budget.total == 1_000)
        #expect(second.take(900))
        second.giveBack(700)
        second.end()
        #expect(budget.total == 300)
    }

    @Test func `a job that is merged takes memory up to its limit, whatever the others hold`() throws {
        #expect(first.take(900))
        #expect(second.take(1_000))
        second.beginTurn()
        #expect(second.take(2_000))
        #expect(!second.take(1), "no job has more than one may take")
        #expect(budget.total == 3_900)
        second.giveBack(2_000)
        #expect(budget.total == 1_900)
    }

    @Test func `a logged job that is merged takes what it asks for, because its store limits it`() throws {
        #expect(second.take(1_000))
        second.beginTurn(isUnlimited: true)
        #expect(second.take(20_000))
        #expect(budget.total == 21_000)
        second.giveBack(20_000)
        #expect(budget.total == 1_000)
    }

    @Test func `the next attempt has several times what this one reached, or what its content may become`() throws {
        #expect(second.take(50))
        #expect(second.take(50))
        let third = budget.admit(2, payloadBytes: 900)
        #expect(!second.take(1))
        withExtendedLifetime(third) {
            #expect(wait() == nil, "there is no room for four times as much")
        }
    }

    @Test(arguments: [(0, 404), (100, 500)])
    func `an attempt is made again with room for what is probable`(contentBytes: Int, granted: Int) throws {
        var third: JobMemory? = budget.admit(2, payloadBytes: 900)
        #expect(second.take(100))
        #expect(!second.take(1))
        withExtendedLifetime(third) {}
        third = nil
        #expect(wait(contentBytes: contentBytes) == granted)
    }

    @Test func `the memory of a job is returned with the job`() {
        var third: JobMemory? = budget.admit(2, payloadBytes: 10)
        third?.begin(granted: 0)
        #expect(third?.take(90) == true)
        #expect(budget.total == 100)
        third = nil
        #expect(budget.total == 0)
        withExtendedLifetime((first, second)) {}
    }
}
